#pragma once
// The keys of a network of fully connected layers, alike for every algorithm: how many of what size, and what is behind
// each. An algorithm's section has them under a prefix of its own (none, or one for each of its networks), with its own
// defaults; learner/graph/optimizer_keys.hpp has those of optimisers.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/config.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner {

/// The keys `prefix`layers (hidden ones, in units) and `prefix`activation; `of` says in their docs whose they are: " of
/// the policy", or nothing. What was learnt with other values fits no more, so both are fixed for a run.
ConfigSchema layer_keys(std::string_view prefix, const std::vector<std::int64_t>& layers, Activation activation,
                        std::string_view of = "");

/// The second of them alone. Choices: relu, leaky_relu (kLeakyReluSlope), elu, tanh and sigmoid.
ConfigKey activation_key(std::string_view prefix, Activation activation, std::string_view of = "");

/// What `prefix`activation says. Its layers are section.get_ints(prefix + "layers").
Activation read_activation(const ConfigSection& section, std::string_view prefix);

}  // namespace troupe::learner
