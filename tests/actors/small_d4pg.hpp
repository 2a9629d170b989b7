#pragma once
// D4PG so small that a test can run it whole. How long it runs, how often it evaluates and what it writes is each
// test's own.
#include <utility>

#include <troupe/algorithms/d4pg/algorithm.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::actors::testing {

inline TrainOptions small_d4pg() {
  TrainOptions options;
  options.agents.emplace_back();
  options.name = "test";
  AgentOptions& agent = options.agents[0];
  agent.env = "cartpole-swingup";
  agent.make_environment = envs::shared_environments(agent.env);
  agent.max_env_steps = 0;
  agent.actors.count = 2;
  agent.replay.min_items = 64;
  agent.replay.samples_per_insert = 4;
  agent.replay.tolerance = 1;
  agent.learner.batch_size = 16;
  agent.algorithm = "d4pg";
  learner::d4pg::AgentOptions d4pg;
  d4pg.learner.policy_sizes = {16, 16};
  d4pg.learner.critic_sizes = {16, 16};
  d4pg.learner.support.count = 11;
  agent.make_algorithm = learner::d4pg::algorithm(std::move(d4pg));
  return options;
}

}  // namespace troupe::actors::testing
