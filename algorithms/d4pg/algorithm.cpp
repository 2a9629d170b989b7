#include <troupe/algorithms/d4pg/algorithm.hpp>

#include <memory>
#include <utility>

#include <troupe/algorithms/acting/gaussian_noise.hpp>
#include <troupe/algorithms/agent/pixel_agent.hpp>
#include <troupe/algorithms/agent/vector_agent.hpp>
#include <troupe/algorithms/control/agent_keys.hpp>
#include <troupe/algorithms/d4pg/networks.hpp>
#include <troupe/algorithms/d4pg/policy.hpp>
#include <troupe/algorithms/d4pg/replica.hpp>
#include <troupe/envs/flattened.hpp>
#include <troupe/learner/graph/optimizer_keys.hpp>

namespace troupe::learner::d4pg {
namespace {

/// Keys of one of the two networks. They stood in [learner] once; defaults are Acme's.
ConfigSchema keys_of(const std::string& network, const std::vector<std::int64_t>& layers, Activation activation) {
  ConfigSchema keys =
      control::network_keys(network, layers, activation, {.learning_rate = 1e-4, .gradient_norm_clip = 40});
  for (ConfigKey& key : keys) {
    if (key.path.ends_with("_layers") || key.path.ends_with("learning_rate")) key.formerly = "learner." + key.path;
    if (key.path.ends_with("gradient_norm_clip")) key.formerly = "learner.gradient_norm_clip";
  }
  return keys;
}

/// What an agent does with its environment.
ConfigSchema acting_keys(const AgentOptions& d) {
  return {
      {.path = "sigma",
       .default_value = d.sigma,
       .doc = "Standard deviation of the Gaussian exploration noise",
       .unit = "half action ranges",
       .min = 0,
       .max = 10,
       .formerly = "actors.sigma"},
      {.path = "noise_correlation",
       .default_value = d.correlation,
       .doc = "Correlation of the noise of two successive steps; 0: independent",
       .min = 0,
       .max = 0.9999,
       .formerly = "actors.noise_correlation"},
  };
}

ConfigSchema learning_keys(const Options& l) {
  return {
      {.path = "target_update_period",
       .default_value = l.target_period,
       .doc = "Between two copies to the target networks",
       .unit = "learner steps",
       .min = 1,
       .max = 1e9,
       .formerly = "learner.target_update_period"},
      {.path = "action_gradient_clip",
       .default_value = l.dqda_max_norm,
       .doc = "Largest norm of dQ/da; 0: no clipping",
       .min = 0,
       .max = 1e9,
       .formerly = "learner.action_gradient_clip"},
  };
}

}  // namespace

ConfigSchema keys() {
  const AgentOptions defaults;
  const Options& l = defaults.learner;
  ConfigSchema returns = control::return_keys(defaults.n_step, defaults.discount);
  for (ConfigKey& key : returns) key.formerly = key.path;
  ConfigSchema support = control::support_keys(l.support);
  for (ConfigKey& key : support) key.formerly = "learner." + key.path;
  return control::joined({std::move(returns), acting_keys(defaults), std::move(support), learning_keys(l),
                          ConfigSchema{control::normalise_key()},
                          control::encoder_keys(l.encoder, {.learning_rate = 1e-4, .gradient_norm_clip = 40}),
                          keys_of("policy", l.policy_sizes, l.policy_activation),
                          keys_of("critic", l.critic_sizes, l.critic_activation)});
}

Result<AgentOptions> read(const ConfigSection& keys, std::int64_t steps) {
  AgentOptions options;
  options.n_step = keys.get_int("n_step");
  options.discount = keys.get_float("discount");
  options.sigma = keys.get_float("sigma");
  options.correlation = keys.get_float("noise_correlation");
  Options& learner = options.learner;
  TROUPE_TRY(control::read_networks(keys, steps, learner));
  TROUPE_TRY(control::read_encoder(keys, steps, learner));
  TROUPE_ASSIGN(learner.support, control::read_support(keys));
  learner.target_period = keys.get_int("target_update_period");
  learner.dqda_max_norm = keys.get_float("action_gradient_clip");
  learner.normalise_observations = keys.get_bool("normalise_observations");
  return options;
}

MakeAlgorithm algorithm(AgentOptions options) {
  return [options = std::move(options)](const AlgorithmContext& context) -> Result<Algorithm> {
    Options learner = options.learner;
    learner.importance_weights = context.importance_weights;
    Algorithm made;
    if (shows_images(context.environment)) {
      TROUPE_ASSIGN(made, pixel_agent(context.environment, options.n_step, options.discount, "d4pg"));
      learner.encoder.pixels = made.columns.inputs.front().shape;
      learner.environment = control::shape_of(context.environment);
      made.published = {kPolicyGroup, control::kEncoderGroup};
    } else {
      TROUPE_ASSIGN(const envs::EnvSpec seen, envs::flattened(context.environment));
      learner.environment = control::shape_of(seen);
      made = vector_agent(seen, options.n_step, options.discount);
      made.published = {kPolicyGroup};
    }
    TROUPE_TRY(validate(learner));
    made.policy = [learner](Graph& graph) { build_policy(graph, learner); };
    made.explores = acting::gaussian_noise({.low = learner.environment.action_low,
                                            .high = learner.environment.action_high,
                                            .sigma = options.sigma,
                                            .correlation = options.correlation});
    made.make_replica = [learner](InputFn input) { return training(learner, std::move(input)); };
    return made;
  };
}

}  // namespace troupe::learner::d4pg
