#pragma once
// D4PG so small that a test can run it whole. How long it runs, how often it evaluates and what it writes is each
// test's own.
#include <troupe/run/train_options.hpp>

namespace troupe::actors::testing {

inline TrainOptions small_d4pg() {
  TrainOptions options;
  options.name = "test";
  options.env = "cartpole-swingup";
  options.make_environment = envs::shared_environments(options.env);
  options.max_env_steps = 0;
  options.actors.count = 2;
  options.replay.min_items = 64;
  options.replay.samples_per_insert = 4;
  options.replay.tolerance = 1;
  options.learner.batch_size = 16;
  options.learner.policy_layers = {16, 16};
  options.learner.critic_layers = {16, 16};
  options.learner.atoms = 11;
  return options;
}

}  // namespace troupe::actors::testing
