#include <troupe/algorithms/dmpo/algorithm.hpp>

#include <memory>
#include <utility>

#include <troupe/algorithms/acting/gaussian_draw.hpp>
#include <troupe/algorithms/agent/vector_agent.hpp>
#include <troupe/algorithms/control/agent_keys.hpp>
#include <troupe/algorithms/dmpo/networks.hpp>
#include <troupe/algorithms/dmpo/replica.hpp>
#include <troupe/envs/flattened.hpp>

namespace troupe::learner::dmpo {
namespace {

ConfigKey limit_key(const char* path, double limit, const char* doc) {
  return {.path = path, .default_value = limit, .doc = doc, .unit = "nats", .min = 1e-9, .max = 1e6};
}

ConfigSchema limits_keys(const Limits& l) {
  const auto dual_key = [](const char* path, double at_first, const char* doc) {
    return ConfigKey{.path = path,
                     .default_value = at_first,
                     .doc = doc,
                     .min = 1e-6,
                     .max = 1e6,
                     .fixed = ConfigKey::Fixed::kValue};
  };
  return {limit_key("epsilon", l.samples, "Limit on the divergence of the actions' weights from equal ones"),
          limit_key("epsilon_penalty", l.penalty, "The same of the weights by which actions beyond their bounds lose"),
          limit_key("epsilon_mean", l.mean, "Limit on the policy's divergence from its target, by means of an action"),
          limit_key("epsilon_stddev", l.stddev, "The same by standard deviations"),
          dual_key("temperature", l.temperature, "Dual variables of epsilon and epsilon_penalty, at the beginning"),
          dual_key("alpha_mean", l.alpha_mean, "Dual variables of epsilon_mean, at the beginning"),
          dual_key("alpha_stddev", l.alpha_stddev, "Dual variables of epsilon_stddev, at the beginning")};
}

ConfigSchema learning_keys(const Options& l) {
  const auto period = [](const char* path, std::int64_t steps, const char* doc) {
    return ConfigKey{.path = path, .default_value = steps, .doc = doc, .unit = "learner steps", .min = 1, .max = 1e9};
  };
  return {{.path = "samples",
           .default_value = l.samples,
           .doc = "Actions that are drawn of each state",
           .min = 2,
           .max = 1000,
           .fixed = ConfigKey::Fixed::kValue},
          {.path = "action_penalization",
           .default_value = l.action_penalization,
           .doc = "Actions beyond their bounds lose weight",
           .fixed = ConfigKey::Fixed::kValue},
          control::normalise_key(),
          {.path = "dual_learning_rate",
           .default_value = l.dual_learning_rate,
           .doc = "Of the dual variables",
           .min = 1e-9,
           .max = 1},
          period("policy_target_update_period", l.policy_target_period,
                 "Between two copies to the target policy, which acts"),
          period("critic_target_update_period", l.critic_target_period, "Between two copies to the target critic")};
}

}  // namespace

ConfigSchema keys() {
  const AgentOptions defaults;
  const Options& l = defaults.learner;
  constexpr double kLearningRate = 1e-4, kNormClip = 40;
  return control::joined({control::return_keys(defaults.n_step, defaults.discount), learning_keys(l),
                          limits_keys(l.limits), control::support_keys(l.support),
                          control::network_keys("policy", l.policy_sizes, l.policy_activation,
                                                {.learning_rate = kLearningRate, .gradient_norm_clip = kNormClip}),
                          control::network_keys("critic", l.critic_sizes, l.critic_activation,
                                                {.learning_rate = kLearningRate, .gradient_norm_clip = kNormClip})});
}

Result<AgentOptions> read(const ConfigSection& keys, std::int64_t steps) {
  AgentOptions options;
  options.n_step = keys.get_int("n_step");
  options.discount = keys.get_float("discount");
  Options& learner = options.learner;
  TROUPE_TRY(control::read_networks(keys, steps, learner));
  TROUPE_ASSIGN(learner.support, control::read_support(keys));
  learner.samples = keys.get_int("samples");
  learner.action_penalization = keys.get_bool("action_penalization");
  learner.normalise_observations = keys.get_bool("normalise_observations");
  learner.dual_learning_rate = keys.get_float("dual_learning_rate");
  learner.policy_target_period = keys.get_int("policy_target_update_period");
  learner.critic_target_period = keys.get_int("critic_target_update_period");
  learner.limits = {.samples = keys.get_float("epsilon"),
                    .penalty = keys.get_float("epsilon_penalty"),
                    .mean = keys.get_float("epsilon_mean"),
                    .stddev = keys.get_float("epsilon_stddev"),
                    .temperature = keys.get_float("temperature"),
                    .alpha_mean = keys.get_float("alpha_mean"),
                    .alpha_stddev = keys.get_float("alpha_stddev")};
  return options;
}

MakeAlgorithm algorithm(AgentOptions options) {
  return [options = std::move(options)](const AlgorithmContext& context) -> Result<Algorithm> {
    TROUPE_ASSIGN(const envs::EnvSpec seen, envs::flattened(context.environment));
    Options learner = options.learner;
    learner.environment = control::shape_of(seen);
    learner.importance_weights = context.importance_weights;
    TROUPE_TRY(validate(learner));
    Algorithm made = vector_agent(seen, options.n_step, options.discount, {"mean", "stddev"});
    made.policy = [learner](Graph& graph) { build_policy(graph, learner); };
    made.published = {kActingGroup};
    made.explores = acting::clipped_gaussian(seen.action.low, seen.action.high);
    made.make_replica = [learner](InputFn input) { return training(learner, std::move(input)); };
    return made;
  };
}

}  // namespace troupe::learner::dmpo
