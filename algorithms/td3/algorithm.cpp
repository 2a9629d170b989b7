#include <troupe/algorithms/td3/algorithm.hpp>

#include <memory>
#include <utility>

#include <troupe/algorithms/acting/gaussian_noise.hpp>
#include <troupe/algorithms/acting/random_at_first.hpp>
#include <troupe/algorithms/agent/vector_agent.hpp>
#include <troupe/algorithms/control/agent_keys.hpp>
#include <troupe/algorithms/td3/replica.hpp>
#include <troupe/envs/flattened.hpp>

namespace troupe::learner::td3 {

ConfigSchema keys() {
  const AgentOptions defaults;
  const Options& l = defaults.learner;
  return control::joined(
      {control::return_keys(defaults.n_step, defaults.discount),
       ConfigSchema{control::random_steps_key(defaults.random_env_steps),
                    {.path = "sigma",
                     .default_value = defaults.sigma,
                     .doc = "Standard deviation of the Gaussian exploration noise",
                     .unit = "half action ranges",
                     .min = 0,
                     .max = 10},
                    control::normalise_key(),
                    control::target_rate_key(l.target_rate),
                    {.path = "policy_update_period",
                     .default_value = l.policy_period,
                     .doc = "Steps of the critics to one of the policy and of all targets",
                     .unit = "learner steps",
                     .min = 1,
                     .max = 1000},
                    {.path = "target_noise",
                     .default_value = l.target_noise,
                     .doc = "Standard deviation of the noise on the target policy's actions",
                     .unit = "half action ranges",
                     .min = 0,
                     .max = 10},
                    {.path = "target_noise_clip",
                     .default_value = l.target_noise_clip,
                     .doc = "That noise is at most this far from 0",
                     .unit = "half action ranges",
                     .min = 1e-6,
                     .max = 10}},
       control::network_keys("policy", l.policy_sizes, l.policy_activation, {.learning_rate = 3e-4}),
       control::network_keys("critic", l.critic_sizes, l.critic_activation, {.learning_rate = 3e-4})});
}

Result<AgentOptions> read(const ConfigSection& keys, std::int64_t steps) {
  AgentOptions options;
  options.n_step = keys.get_int("n_step");
  options.discount = keys.get_float("discount");
  options.sigma = keys.get_float("sigma");
  options.random_env_steps = keys.get_int("random_env_steps");
  Options& learner = options.learner;
  TROUPE_TRY(control::read_networks(keys, steps, learner));
  learner.policy_period = keys.get_int("policy_update_period");
  learner.target_rate = keys.get_float("target_rate");
  learner.normalise_observations = keys.get_bool("normalise_observations");
  learner.target_noise = keys.get_float("target_noise");
  learner.target_noise_clip = keys.get_float("target_noise_clip");
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
    Algorithm made = vector_agent(seen, options.n_step, options.discount);
    made.policy = [learner](Graph& graph) { build_policy(graph, learner); };
    made.published = {kPolicyGroup};
    made.explores = acting::random_at_first({.low = low, .high = high, .env_steps = options.random_env_steps},
                                            acting::gaussian_noise({.low = low, .high = high, .sigma = options.sigma}));
    made.make_replica = [learner](InputFn input) { return training(learner, std::move(input)); };
    return made;
  };
}

}  // namespace troupe::learner::td3
