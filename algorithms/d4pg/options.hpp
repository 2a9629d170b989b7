#pragma once
// Settings of D4PG (Barth-Maron et al. 2018, arXiv 1804.08617). Defaults are those of Acme's control-suite agent
// (acme/agents/tf/d4pg: agent_distributed.py and examples lp_d4pg.py); n-step returns are made by the replay adder,
// exploration noise by the env actor.
#include <cstdint>
#include <vector>

#include <troupe/algorithms/control/environment_shape.hpp>
#include <troupe/algorithms/control/image_encoder.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/graph/optimizer.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner::d4pg {

struct Options {
  control::EnvironmentShape environment;
  /// Of images, in front of both networks; without a shape of images, states are seen.
  control::ImageEncoder encoder;
  OptimizerSpec encoder_optimizer = {.rule = Adam{.learning_rate = 1e-4}, .max_global_norm = 40};
  bool from_images() const { return encoder.pixels.rank() > 0; }

  /// Hidden layers, and what is behind each but the first, which has a layer norm and tanh.
  std::vector<std::int64_t> policy_sizes = {256, 256, 256};
  Activation policy_activation = Activation::kElu;
  std::vector<std::int64_t> critic_sizes = {512, 512, 256};
  Activation critic_activation = Activation::kElu;
  Support support = {-150, 150, 51};  ///< must cover the discounted sum of the largest rewards

  std::int64_t batch = 256;
  OptimizerSpec policy_optimizer = {.rule = Adam{.learning_rate = 1e-4}, .max_global_norm = 40};
  OptimizerSpec critic_optimizer = {.rule = Adam{.learning_rate = 1e-4}, .max_global_norm = 40};
  std::int64_t target_period = 100;     ///< steps between hard copies into the target networks
  bool normalise_observations = false;  ///< control/observation_norm.hpp; not of images
  double dqda_max_norm = 1;             ///< clips each row's dQ/da in the policy loss; 0: off
  /// Batches carry a column `weight`: importance weights of prioritised replay (Schaul et al. 2016, section 3.4), by
  /// which rows of the critic's loss are multiplied.
  bool importance_weights = false;
  int devices = 1;  ///< over which the layers of each network are split, in stages; follows from the replicator
};

/// Errors: kInvalidArgument naming the option, got and expected.
Status validate(const Options& options);

/// Columns of a batch: control::transitions(), from images control::image_transitions().
Signature batch_signature(const Options& options);

}  // namespace troupe::learner::d4pg
