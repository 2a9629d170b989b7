#pragma once
// Keys that agents of continuous control have alike: their networks', their optimisers', those of acting and of
// returns.
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/algorithms/control/image_encoder.hpp>
#include <troupe/core/config.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/graph/optimizer.hpp>
#include <troupe/learner/graph/optimizer_keys.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/layer_keys.hpp>

namespace troupe::learner::control {

/// `network`_layers, `network`_activation and the keys of its optimiser, `network`_learning_rate and so on.
ConfigSchema network_keys(const std::string& network, const std::vector<std::int64_t>& layers, Activation activation,
                          const OptimizerKeys& optimizer);
/// What they say of the optimiser, of learners that take `steps` steps; 0: nobody knows how many. Errors:
/// kInvalidArgument, a line a mistake, each beginning with its key.
Result<OptimizerSpec> read_network_optimizer(const ConfigSection& keys, const std::string& network, std::int64_t steps);

/// What network_keys("policy") and network_keys("critic") say, into the fields of an agent's options that every agent
/// calls so. Errors: as above.
template <typename Options>
Status read_networks(const ConfigSection& keys, std::int64_t steps, Options& options) {
  options.policy_sizes = keys.get_ints("policy_layers");
  options.policy_activation = read_activation(keys, "policy_");
  options.critic_sizes = keys.get_ints("critic_layers");
  options.critic_activation = read_activation(keys, "critic_");
  TROUPE_ASSIGN(options.policy_optimizer, read_network_optimizer(keys, "policy", steps));
  TROUPE_ASSIGN(options.critic_optimizer, read_network_optimizer(keys, "critic", steps));
  return {};
}

/// shift_padding, filters, features and the keys of the encoder's optimiser, encoder_learning_rate and so on.
ConfigSchema encoder_keys(const ImageEncoder& defaults, const OptimizerKeys& optimizer);
/// What they say, into the fields of an agent's options that every agent calls so. Errors: as above.
template <typename Options>
Status read_encoder(const ConfigSection& keys, std::int64_t steps, Options& options) {
  options.encoder.shift_padding = keys.get_int("shift_padding");
  options.encoder.filters = keys.get_int("filters");
  options.encoder.features = keys.get_int("features");
  TROUPE_ASSIGN(options.encoder_optimizer, read_network_optimizer(keys, "encoder", steps));
  return {};
}

/// All of their keys, in this order.
ConfigSchema joined(std::vector<ConfigSchema> schemas);

/// n_step and discount, of the returns that the adder makes.
ConfigSchema return_keys(std::int64_t n_step, double discount);
/// random_env_steps: of a run, at its beginning, in which all env actors act uniformly at random.
ConfigKey random_steps_key(std::int64_t env_steps);
/// noise_repeats_max and noise_repeats_exponent: how long exploration holds its noise (acting::NoiseRepeats).
ConfigSchema noise_repeat_keys(std::int64_t most, double exponent);
/// normalise_observations: control::observed() before the networks.
ConfigKey normalise_key();
/// atoms, v_min and v_max, of a critic that gives value distributions.
ConfigSchema support_keys(const Support& support);
/// What they say. Errors: kInvalidArgument, beginning with the key.
Result<Support> read_support(const ConfigSection& keys);
/// target_rate: tau, by which target networks follow.
ConfigKey target_rate_key(double rate);

}  // namespace troupe::learner::control
