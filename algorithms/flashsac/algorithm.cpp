#include <troupe/algorithms/flashsac/algorithm.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include <troupe/algorithms/acting/random_at_first.hpp>
#include <troupe/algorithms/agent/vector_agent.hpp>
#include <troupe/algorithms/control/agent_keys.hpp>
#include <troupe/algorithms/flashsac/replica.hpp>
#include <troupe/envs/flattened.hpp>
#include <troupe/replay/return_adder.hpp>

namespace troupe::learner::flashsac {
namespace {

ConfigSchema network_keys(const std::string& network, const NetworkSize& size) {
  ConfigSchema keys = {{.path = network + "_blocks",
                        .default_value = size.blocks,
                        .doc = "Residual blocks of the " + network,
                        .min = 1,
                        .max = 1000,
                        .fixed = ConfigKey::Fixed::kValue},
                       {.path = network + "_width",
                        .default_value = size.width,
                        .doc = "Numbers between the blocks of the " + network + "; four times as many within",
                        .min = 1,
                        .max = 65536,
                        .fixed = ConfigKey::Fixed::kValue}};
  std::ranges::move(optimizer_keys(network + "_", {.learning_rate = 3e-4}, ", of the " + network),
                    std::back_inserter(keys));
  return keys;
}

ConfigSchema learning_keys(const Options& l) {
  return {control::target_rate_key(l.target_rate),
          {.path = "policy_update_period",
           .default_value = l.policy_period,
           .doc = "Steps of the critics to one of the policy and the temperature",
           .unit = "learner steps",
           .min = 1,
           .max = 1000},
          {.path = "temperature",
           .default_value = l.temperature,
           .doc = "What a nat of entropy is worth (alpha), at the beginning",
           .unit = "reward",
           .min = 1e-9,
           .max = 1e9,
           .fixed = ConfigKey::Fixed::kValue},
          {.path = "temperature_learning_rate",
           .default_value = 3e-4,
           .doc = "Of the temperature's logarithm, with the policy's schedule",
           .min = 1e-12,
           .max = 1},
          {.path = "target_stddev",
           .default_value = l.target_stddev,
           .doc = "The temperature is learned for the entropy of a Gaussian with this deviation",
           .min = 1e-6,
           .max = 100},
          {.path = "final_learning_rate_factor",
           .default_value = 0.5,
           .doc = "What a cosine or linear schedule ends with, of a learning rate",
           .min = 0,
           .max = 1},
          {.path = "norm_momentum",
           .default_value = l.norm_momentum,
           .doc = "Share of a batch in batch norm's running statistics",
           .min = 1e-6,
           .max = 0.999999},
          {.path = "scale_rewards",
           .default_value = l.scale_rewards,
           .doc = "Rewards are scaled by the returns' deviation, which then stay within v_max",
           .fixed = ConfigKey::Fixed::kValue}};
}

}  // namespace

ConfigSchema keys() {
  const AgentOptions defaults;
  const Options& l = defaults.learner;
  return control::joined({control::return_keys(defaults.n_step, defaults.discount),
                          ConfigSchema{control::random_steps_key(defaults.random_env_steps)},
                          control::noise_repeat_keys(defaults.noise.most, defaults.noise.exponent), learning_keys(l),
                          control::support_keys(l.support), network_keys("policy", l.policy),
                          network_keys("critic", l.critic)});
}

Result<AgentOptions> read(const ConfigSection& keys, std::int64_t steps) {
  AgentOptions options;
  options.n_step = keys.get_int("n_step");
  options.discount = keys.get_float("discount");
  options.random_env_steps = keys.get_int("random_env_steps");
  options.noise = {keys.get_int("noise_repeats_max"), keys.get_float("noise_repeats_exponent")};
  Options& learner = options.learner;
  learner.policy = {keys.get_int("policy_blocks"), keys.get_int("policy_width")};
  learner.critic = {keys.get_int("critic_blocks"), keys.get_int("critic_width")};
  TROUPE_ASSIGN(learner.support, control::read_support(keys));
  learner.policy_period = keys.get_int("policy_update_period");
  TROUPE_ASSIGN(learner.policy_optimizer, control::read_network_optimizer(keys, "policy", steps));
  TROUPE_ASSIGN(learner.critic_optimizer, control::read_network_optimizer(keys, "critic", steps));
  learner.policy_optimizer.schedule.final_factor = learner.critic_optimizer.schedule.final_factor =
      keys.get_float("final_learning_rate_factor");
  learner.temperature_optimizer = {.rule = Adam{.learning_rate = keys.get_float("temperature_learning_rate")},
                                   .schedule = learner.policy_optimizer.schedule};
  learner.target_rate = keys.get_float("target_rate");
  learner.temperature = keys.get_float("temperature");
  learner.target_stddev = keys.get_float("target_stddev");
  learner.norm_momentum = keys.get_float("norm_momentum");
  learner.scale_rewards = keys.get_bool("scale_rewards");
  if (learner.scale_rewards && !(learner.support.high > 0)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("v_max: got {}, expected above 0 with scale_rewards", learner.support.high)};
  }
  return options;
}

MakeAlgorithm algorithm(AgentOptions options) {
  return [options = std::move(options)](const AlgorithmContext& context) -> Result<Algorithm> {
    TROUPE_ASSIGN(const envs::EnvSpec seen, envs::flattened(context.environment));
    Options learner = options.learner;
    learner.environment = control::shape_of(seen);
    learner.importance_weights = context.importance_weights;
    TROUPE_TRY(validate(learner));
    const auto& [low, high] = std::pair{seen.action.low, seen.action.high};
    Algorithm made = vector_agent(seen, options.n_step, options.discount, {"mean", "stddev"});
    made.policy = [learner](Graph& graph) { build_policy(graph, learner); };
    made.published = {kPolicyGroup};
    made.explores = acting::random_at_first({.low = low, .high = high, .env_steps = options.random_env_steps},
                                            acting::tanh_gaussian(low, high, options.noise));
    if (learner.scale_rewards) made.adder = replay::with_return(std::move(made.adder), options.discount);
    made.make_replica = [learner](InputFn input) { return training(learner, std::move(input)); };
    return made;
  };
}

}  // namespace troupe::learner::flashsac
