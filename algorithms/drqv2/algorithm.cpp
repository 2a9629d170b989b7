#include <troupe/algorithms/drqv2/algorithm.hpp>

#include <utility>
#include <vector>

#include <troupe/algorithms/acting/gaussian_noise.hpp>
#include <troupe/algorithms/acting/random_at_first.hpp>
#include <troupe/algorithms/agent/pixel_agent.hpp>
#include <troupe/algorithms/control/agent_keys.hpp>
#include <troupe/algorithms/drqv2/networks.hpp>
#include <troupe/algorithms/drqv2/replica.hpp>

namespace troupe::learner::drqv2 {
namespace {

ConfigSchema own_keys(const AgentOptions& defaults) {
  const Options& l = defaults.learner;
  return {control::random_steps_key(defaults.random_env_steps),
          {.path = "sigma",
           .default_value = l.sigma,
           .doc = "Standard deviation of the noise on actions at the beginning",
           .unit = "half action ranges",
           .min = 0,
           .max = 10},
          {.path = "final_sigma",
           .default_value = l.final_sigma,
           .doc = "The same from sigma_env_steps on",
           .unit = "half action ranges",
           .min = 0,
           .max = 10},
          {.path = "sigma_env_steps",
           .default_value = l.sigma_env_steps,
           .doc = "Within which sigma goes linearly to final_sigma, over all env actors",
           .unit = "env steps",
           .min = 1,
           .max = 1e12},
          {.path = "env_steps_per_learner_step",
           .default_value = l.env_steps_per_learner_step,
           .doc = "As many a step of the learner stands for, in the schedule of its noise",
           .unit = "env steps",
           .min = 1e-6,
           .max = 1e6},
          {.path = "noise_clip",
           .default_value = l.noise_clip,
           .doc = "The learner's noise on actions is at most this far from 0",
           .unit = "half action ranges",
           .min = 1e-6,
           .max = 10},
          control::target_rate_key(l.target_rate)};
}

}  // namespace

ConfigSchema keys() {
  const AgentOptions defaults;
  const Options& l = defaults.learner;
  const OptimizerKeys adam{.learning_rate = 1e-4};
  return control::joined({control::return_keys(defaults.n_step, defaults.discount), own_keys(defaults),
                          control::encoder_keys(l.encoder, adam),
                          control::network_keys("policy", l.policy_sizes, l.policy_activation, adam),
                          control::network_keys("critic", l.critic_sizes, l.critic_activation, adam)});
}

Result<AgentOptions> read(const ConfigSection& keys, std::int64_t steps) {
  AgentOptions options;
  options.n_step = keys.get_int("n_step");
  options.discount = keys.get_float("discount");
  options.random_env_steps = keys.get_int("random_env_steps");
  Options& learner = options.learner;
  TROUPE_TRY(control::read_networks(keys, steps, learner));
  TROUPE_TRY(control::read_encoder(keys, steps, learner));
  learner.target_rate = keys.get_float("target_rate");
  learner.sigma = keys.get_float("sigma");
  learner.final_sigma = keys.get_float("final_sigma");
  learner.sigma_env_steps = keys.get_int("sigma_env_steps");
  learner.env_steps_per_learner_step = keys.get_float("env_steps_per_learner_step");
  learner.noise_clip = keys.get_float("noise_clip");
  return options;
}

MakeAlgorithm algorithm(AgentOptions options) {
  return [options = std::move(options)](const AlgorithmContext& context) -> Result<Algorithm> {
    TROUPE_ASSIGN(Algorithm made, pixel_agent(context.environment, options.n_step, options.discount, "drqv2"));
    Options learner = options.learner;
    learner.encoder.pixels = made.columns.inputs.front().shape;
    learner.environment = control::shape_of(context.environment);
    learner.importance_weights = context.importance_weights;
    TROUPE_TRY(validate(learner));
    const std::vector<double>&low = learner.environment.action_low, &high = learner.environment.action_high;
    made.policy = [learner](Graph& graph) { build_policy(graph, learner); };
    made.published = {kPolicyGroup, control::kEncoderGroup};
    made.explores = acting::random_at_first({.low = low, .high = high, .env_steps = options.random_env_steps},
                                            acting::gaussian_noise({.low = low,
                                                                    .high = high,
                                                                    .sigma = learner.sigma,
                                                                    .sigma_env_steps = learner.sigma_env_steps,
                                                                    .final_sigma = learner.final_sigma,
                                                                    .env_steps_before = options.random_env_steps}));
    made.make_replica = [learner](InputFn input) { return training(learner, std::move(input)); };
    return made;
  };
}

}  // namespace troupe::learner::drqv2
