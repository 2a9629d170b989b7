#pragma once
// What networks of continuous control must know of an environment whose observation is one vector (envs/flattened), and
// the transitions that their steps learn from.
#include <cstdint>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::control {

/// Both bounds have one entry for each action dimension.
struct EnvironmentShape {
  std::int64_t observation_size = 0;
  std::vector<double> action_low;
  std::vector<double> action_high;

  std::int64_t action_size() const { return static_cast<std::int64_t>(action_low.size()); }
};

/// Of a flattened environment.
EnvironmentShape shape_of(const envs::EnvSpec& flattened);

/// Errors: kInvalidArgument naming what is wrong, got and expected; messages begin with `where`, the algorithm.
Status validate(const EnvironmentShape& shape, std::string_view where);
/// At least one layer, all sizes positive. The same errors.
Status validate_layers(const std::vector<std::int64_t>& sizes, std::string_view option, std::string_view where);

/// low + (x + 1) / 2 * (high - low) for each action dimension; x: [rows, action_size] in [-1, 1] (Acme's TanhToSpec).
Var to_bounds(Graph& graph, const EnvironmentShape& shape, Var x);

/// The number within each action dimension's bounds that is nearest to x: [rows, action_size].
Var within_bounds(Graph& graph, const EnvironmentShape& shape, Var x);

/// Columns of a batch, all float32: observation [o], action [a], reward [], discount [], next_observation [o] (those of
/// replay's n-step transitions: discount is the product that next_observation's value is multiplied by, gamma
/// included), and weight [] with importance_weights (Schaul et al. 2016, section 3.4).
Signature transitions(const EnvironmentShape& shape, bool importance_weights);

/// `input`, whose pipelines must have exactly these columns: who gives others is told so, in messages that begin with
/// `where`.
InputFn checked(InputFn input, Signature columns, std::string where);

}  // namespace troupe::learner::control
