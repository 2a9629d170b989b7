#include <troupe/algorithms/drqv2/algorithm.hpp>

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include <troupe/algorithms/acting/gaussian_noise.hpp>
#include <troupe/algorithms/acting/random_at_first.hpp>
#include <troupe/algorithms/control/agent_keys.hpp>
#include <troupe/algorithms/drqv2/networks.hpp>
#include <troupe/algorithms/drqv2/replica.hpp>
#include <troupe/envs/float_actions.hpp>
#include <troupe/replay/n_step_adder.hpp>

namespace troupe::learner::drqv2 {
namespace {

constexpr const char* kPixels = "pixels";

ConfigSchema own_keys(const AgentOptions& defaults) {
  const Options& l = defaults.learner;
  const auto shape = [](ConfigKey key) {
    key.fixed = ConfigKey::Fixed::kValue;
    return key;
  };
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
          {.path = "shift_padding",
           .default_value = l.shift_padding,
           .doc = "By at most so many pixels an image is moved, each way, when it is learnt from",
           .unit = "pixels",
           .min = 0,
           .max = 1000},
          shape({.path = "filters",
                 .default_value = l.filters,
                 .doc = "Channels of each of the encoder's four convolutions",
                 .min = 1,
                 .max = 4096}),
          shape({.path = "features",
                 .default_value = l.features,
                 .doc = "Numbers that the policy and the critics each make of what the encoder sees",
                 .min = 1,
                 .max = 65536}),
          control::target_rate_key(l.target_rate)};
}

}  // namespace

ConfigSchema keys() {
  const AgentOptions defaults;
  const Options& l = defaults.learner;
  const OptimizerKeys adam{.learning_rate = 1e-4};
  return control::joined({control::return_keys(defaults.n_step, defaults.discount), own_keys(defaults),
                          optimizer_keys("encoder_", adam, ", of the encoder"),
                          control::network_keys("policy", l.policy_sizes, l.policy_activation, adam),
                          control::network_keys("critic", l.critic_sizes, l.critic_activation, adam)});
}

Result<AgentOptions> read(const ConfigSection& keys, std::int64_t steps) {
  AgentOptions options;
  options.n_step = keys.get_int("n_step");
  options.discount = keys.get_float("discount");
  options.random_env_steps = keys.get_int("random_env_steps");
  Options& learner = options.learner;
  learner.filters = keys.get_int("filters");
  learner.features = keys.get_int("features");
  learner.shift_padding = keys.get_int("shift_padding");
  TROUPE_TRY(control::read_networks(keys, steps, learner));
  TROUPE_ASSIGN(learner.encoder_optimizer, control::read_network_optimizer(keys, "encoder", steps));
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
    TROUPE_ASSIGN(const envs::EnvSpec seen, envs::float_actions(context.environment));
    const bool pixels_alone = seen.observation.size() == 1 && seen.observation[0].name == kPixels &&
                              seen.observation[0].dtype == DType::kU8 && seen.observation[0].shape.rank() == 3;
    if (!pixels_alone) {
      std::string got;
      for (const TensorSpec& column : seen.observation) got += (got.empty() ? "" : ", ") + column.to_string();
      return Error{Code::kInvalidArgument,
                   fmt::format("{}: drqv2 got the observation {}, expected pixels: uint8[height, width, channels] and "
                               "nothing else",
                               seen.name, got)};
    }
    Options learner = options.learner;
    learner.pixels = seen.observation[0].shape;
    learner.environment = {seen.observation_size(), seen.action.low, seen.action.high};
    learner.importance_weights = context.importance_weights;
    TROUPE_TRY(validate(learner));
    const auto& [low, high] = std::pair{seen.action.low, seen.action.high};
    Algorithm made;
    made.wrap = [](envs::MakeEnvironment make) { return envs::float_actions(std::move(make)); };
    made.columns = {seen.observation, {{"action", DType::kF32, Shape{learner.environment.action_size()}}}};
    made.policy = [learner](Graph& graph) { build_policy(graph, learner); };
    made.published = {kPolicyGroup, kEncoderGroup};
    made.explores = acting::random_at_first({.low = low, .high = high, .env_steps = options.random_env_steps},
                                            acting::gaussian_noise({.low = low,
                                                                    .high = high,
                                                                    .sigma = learner.sigma,
                                                                    .sigma_env_steps = learner.sigma_env_steps,
                                                                    .final_sigma = learner.final_sigma,
                                                                    .env_steps_before = options.random_env_steps}));
    made.greedy = acting::no_exploration(made.columns.outputs.front());
    made.adder = replay::n_step_adders(options.n_step, options.discount);
    made.make_replica = [learner](InputFn input) { return training(learner, std::move(input)); };
    return made;
  };
}

}  // namespace troupe::learner::drqv2
