#pragma once
// Settings of distributional MPO (Abdolmaleki et al. 2018, arXiv 1806.06920 and 1812.02256; the critic of Bellemare et
// al. 2017). Defaults are those of Acme's control-suite agent (acme/agents/tf/dmpo and acme/tf/losses/mpo.py); n-step
// returns are made by the replay adder.
#include <cstdint>
#include <vector>

#include <troupe/algorithms/control/environment_shape.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/graph/optimizer.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner::dmpo {

inline constexpr double kLeastDual = 1e-8;  ///< which no dual variable reaches

/// Limits of Kullback-Leibler divergences, each of which has dual variables that are learned so that it holds; what
/// these are at the beginning.
struct Limits {
  double samples = 0.1;       ///< epsilon: of the reweighted actions from the policy that drew them
  double penalty = 1e-3;      ///< the same, where the weights are for how far an action leaves its bounds
  double mean = 2.5e-3;       ///< of the policy from its target, an action dimension, by its mean,
  double stddev = 1e-6;       ///< and by its deviation
  double temperature = 10;    ///< eta, of both limits of weights
  double alpha_mean = 10;     ///< of each dimension
  double alpha_stddev = 1e3;  ///< of each dimension
};

struct Options {
  control::EnvironmentShape environment;

  /// Hidden layers, and what is behind each but the first, which has a layer norm and tanh.
  std::vector<std::int64_t> policy_sizes = {256, 256, 256};
  Activation policy_activation = Activation::kElu;
  std::vector<std::int64_t> critic_sizes = {512, 512, 256};
  Activation critic_activation = Activation::kElu;
  Support support = {-150, 150, 51};  ///< must cover the discounted sum of the largest rewards

  std::int64_t samples = 20;  ///< actions that are drawn of each state (N)
  Limits limits;
  bool action_penalization = true;  ///< actions beyond their bounds lose weight (Abdolmaleki et al. 2020)

  OptimizerSpec policy_optimizer = {.rule = Adam{.learning_rate = 1e-4}, .max_global_norm = 40};
  OptimizerSpec critic_optimizer = {.rule = Adam{.learning_rate = 1e-4}, .max_global_norm = 40};
  double dual_learning_rate = 1e-2;         ///< of the dual variables, by Adam, whose gradients are not clipped
  std::int64_t policy_target_period = 100;  ///< steps between hard copies into the target policy, which acts,
  std::int64_t critic_target_period = 100;  ///< and into the target critic
  bool normalise_observations = false;      ///< control/observation_norm.hpp
  /// Batches carry importance weights of prioritised replay, by which rows of the critic's loss are multiplied.
  bool importance_weights = false;
  int devices = 1;  ///< over which the layers of each network are split, in stages; follows from the replicator
};

/// Errors: kInvalidArgument naming the option, got and expected.
Status validate(const Options& options);

}  // namespace troupe::learner::dmpo
