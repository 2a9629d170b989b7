#include <troupe/algorithms/sac/algorithm.hpp>

#include <memory>
#include <utility>

#include <troupe/algorithms/acting/gaussian_draw.hpp>
#include <troupe/algorithms/acting/random_at_first.hpp>
#include <troupe/algorithms/agent/vector_agent.hpp>
#include <troupe/algorithms/control/agent_keys.hpp>
#include <troupe/algorithms/sac/replica.hpp>
#include <troupe/envs/flattened.hpp>

namespace troupe::learner::sac {

ConfigSchema keys() {
  const AgentOptions defaults;
  const Options& l = defaults.learner;
  return control::joined(
      {control::return_keys(defaults.n_step, defaults.discount),
       ConfigSchema{control::random_steps_key(defaults.random_env_steps),
                    control::normalise_key(),
                    control::target_rate_key(l.target_rate),
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
                     .default_value = l.temperature_learning_rate,
                     .doc = "Of the temperature's logarithm; 0: the temperature stays as it is",
                     .min = 0,
                     .max = 1,
                     .fixed = ConfigKey::Fixed::kValue},
                    {.path = "target_entropy",
                     .default_value = l.target_entropy,
                     .doc = "For which the temperature is learned, of an action dimension in [-1, 1]",
                     .unit = "nats",
                     .min = -100,
                     .max = 100}},
       control::noise_repeat_keys(defaults.noise.most, defaults.noise.exponent),
       control::network_keys("policy", l.policy_sizes, l.policy_activation, {.learning_rate = 3e-4}),
       control::network_keys("critic", l.critic_sizes, l.critic_activation, {.learning_rate = 1e-3})});
}

Result<AgentOptions> read(const ConfigSection& keys, std::int64_t steps) {
  AgentOptions options;
  options.n_step = keys.get_int("n_step");
  options.discount = keys.get_float("discount");
  options.random_env_steps = keys.get_int("random_env_steps");
  options.noise = {keys.get_int("noise_repeats_max"), keys.get_float("noise_repeats_exponent")};
  Options& learner = options.learner;
  TROUPE_TRY(control::read_networks(keys, steps, learner));
  learner.policy_period = keys.get_int("policy_update_period");
  learner.target_rate = keys.get_float("target_rate");
  learner.normalise_observations = keys.get_bool("normalise_observations");
  learner.temperature = keys.get_float("temperature");
  learner.temperature_learning_rate = keys.get_float("temperature_learning_rate");
  learner.target_entropy = keys.get_float("target_entropy");
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
    made.make_replica = [learner](InputFn input) { return training(learner, std::move(input)); };
    return made;
  };
}

}  // namespace troupe::learner::sac
