#include <troupe/algorithms/sac/replica.hpp>

#include <cmath>
#include <utility>

#include <troupe/algorithms/control/mlp.hpp>
#include <troupe/algorithms/control/observation_norm.hpp>
#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/math.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner::sac {
namespace {

constexpr double kLeastLogStddev = -5, kGreatestLogStddev = 2;

}  // namespace

control::Gaussian policy_network(Graph& graph, ParamGroup group, const Options& options, Var observation) {
  const Var features =
      control::mlp(graph, group, "policy", options.policy_sizes, options.policy_activation, observation);
  const std::int64_t size = options.environment.action_size();
  const Var raw = control::dense(graph, group, "policy/log_stddev", size, Activation::kTanh, features);
  constexpr double kHalfRange = (kGreatestLogStddev - kLeastLogStddev) / 2;
  return {control::dense(graph, group, "policy/mean", size, Activation::kNone, features),
          affine(raw, kHalfRange, kLeastLogStddev + kHalfRange)};
}

void build_policy(Graph& graph, const Options& options) {
  const Var observation = control::observed(graph, options.normalise_observations,
                                            graph.input("observation", Shape{options.environment.observation_size}));
  const control::Gaussian policy = policy_network(graph, graph.group(kPolicyGroup), options, observation);
  control::give_actions(graph, options.environment, policy);
}

control::SoftLosses build_losses(Graph& graph, const Options& options, const StepInputs& inputs,
                                 const control::DrawNoise& noise) {
  const ParamGroup policy = graph.group(kPolicyGroup), critic = graph.group(kCriticGroup);
  const ParamGroup temperature = graph.group(kTemperatureGroup);
  const ParamGroup critic_target = graph.average(critic, 1 - options.target_rate);
  const auto values = [&](ParamGroup group, Var observation, Var action) {
    return control::twin_critics(graph, group, options.critic_sizes, options.critic_activation, observation,
                                 control::to_bounds(graph, options.environment, action));
  };
  const Var log_alpha = graph.param(temperature, "log_alpha", Shape{}, Init::constant(std::log(options.temperature)));
  const Var learned_alpha = exp(log_alpha), alpha = stop_gradient(learned_alpha);
  const Var observation = control::observed(graph, options.normalise_observations, inputs["observation"]);
  const Var next_observation = control::observed(graph, options.normalise_observations, inputs["next_observation"]);

  // The soft target: the smaller value of an action that the policy draws, and what its entropy is worth (Eq. 5).
  const control::Draw next = control::draw(policy_network(graph, policy, options, next_observation), noise.next_action);
  const auto next_values = values(critic_target, next_observation, next.action);
  const Var next_value = sub(minimum(next_values.first, next_values.second), mul(alpha, next.log_prob));
  const Var target = stop_gradient(add(inputs["reward"], mul(inputs["discount"], next_value)));

  const auto current = control::twin_critics(graph, critic, options.critic_sizes, options.critic_activation,
                                             observation, inputs["action"]);
  const Var first = sub(current.first, target), second = sub(current.second, target);
  const Var squares = add(square(first), square(second));

  const control::Draw now = control::draw(policy_network(graph, policy, options, observation), noise.action);
  const auto now_values = values(critic, observation, now.action);
  const double target_entropy = options.target_entropy * static_cast<double>(options.environment.action_size());
  return {
      .policy = policy,
      .critic = critic,
      .temperature = temperature,
      .critic_loss = mean(options.importance_weights ? mul(squares, inputs["weight"]) : squares),
      .policy_loss = mean(sub(mul(alpha, now.log_prob), minimum(now_values.first, now_values.second))),
      .temperature_loss = scale(mean(mul(learned_alpha, affine(stop_gradient(now.log_prob), 1, target_entropy))), -1),
      .q_mean = mean(current.first),
      .entropy = scale(mean(now.log_prob), -1),
      .alpha = alpha,
      .td_error = scale(add(abs(first), abs(second)), 0.5)};
}

std::unique_ptr<Replica> training(const Options& options, InputFn input) {
  const StepFn step = [options](ReplicaContext& context, const StepInputs& inputs) {
    Graph& graph = context.graph();
    const control::SoftLosses losses =
        build_losses(graph, options, inputs, control::draw_noise(graph, options.environment.action_size()));
    control::show(graph, losses);
    if (options.normalise_observations) control::learn_observations(context, inputs["observation"]);

    const OptimizerSpec policy_optimizer = every(options.policy_optimizer, options.policy_period);
    const OptimizerSpec temperature_optimizer{.rule = Adam{.learning_rate = options.temperature_learning_rate},
                                              .every_steps = options.policy_period};
    graph.minimize(losses.critic_loss, losses.critic, context.wrap_optimizer(options.critic_optimizer));
    graph.minimize(losses.policy_loss, losses.policy, context.wrap_optimizer(policy_optimizer));
    if (options.temperature_learning_rate > 0) {
      graph.minimize(losses.temperature_loss, losses.temperature, context.wrap_optimizer(temperature_optimizer));
    }
  };
  return make_replica(
      control::checked(std::move(input), control::transitions(options.environment, options.importance_weights), "sac"),
      step, validate(options));
}

}  // namespace troupe::learner::sac
