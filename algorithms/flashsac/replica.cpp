#include <troupe/algorithms/flashsac/replica.hpp>

#include <cmath>
#include <numbers>
#include <utility>

#include <troupe/algorithms/control/reward_scale.hpp>
#include <troupe/algorithms/flashsac/networks.hpp>
#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/math.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::flashsac {
namespace {

/// Rows of both, one of each by turns, so that batch norm sees them together: [batch, n] twice to [2 batch, n].
Var joint_rows(Graph& graph, Var now, Var next) {
  if (!now || !next) return {};
  return reshape(concat(now, next), Shape{2 * graph.batch(), graph.spec(now).shape[1]});
}
/// Of joint rows the former (0) or the latter ones (1).
Var part_of(Graph& graph, Var joint, std::int64_t part) {
  if (!joint) return {};
  const std::int64_t n = graph.spec(joint).shape[1];
  return slice(reshape(joint, Shape{graph.batch(), 2 * n}), part * n, (part + 1) * n);
}

/// 1 in the steps that update the policy, as OptimizerSpec::every_steps counts them; invalid where all do.
Var policy_moves(Graph& graph, std::int64_t period) {
  if (period == 1) return {};
  const Var before = graph.state("period/steps", Shape{1}, Init::constant(0));
  const Var moves = greater(before, graph.constant(Shape{1}, {static_cast<float>(period) - 1.5F}));
  graph.assign(before, where(moves, graph.constant(Shape{1}, {0}), affine(before, 1, 1)));
  return moves;
}

}  // namespace

void build_policy(Graph& graph, const Options& options) {
  const Var observation = graph.input("observation", Shape{options.environment.observation_size});
  const Applied acting{graph.group(kPolicyGroup), kPolicyGroup, {.training = false}};
  const control::Gaussian policy = policy_network(graph, acting, options, observation);
  control::give_actions(graph, options.environment, policy);
}

control::SoftLosses build_losses(Graph& graph, const Options& options, const StepInputs& inputs,
                                 const control::DrawNoise& noise, const NetworkMode& training) {
  const ParamGroup policy = graph.group(kPolicyGroup), critic = graph.group(kCriticGroup);
  const ParamGroup temperature = graph.group(kTemperatureGroup);
  const ParamGroup critic_target = graph.average(critic, 1 - options.target_rate);
  NetworkMode as_it_runs = training;
  as_it_runs.training = false;
  const Var observation = inputs["observation"], next_observation = inputs["next_observation"];
  const auto bounded = [&](Var action) { return control::to_bounds(graph, options.environment, action); };
  const auto values_of = [&](Var logits) { return categorical_mean(logits, options.support); };
  const Var log_alpha = graph.param(temperature, "log_alpha", Shape{}, Init::constant(std::log(options.temperature)));
  const Var learned_alpha = exp(log_alpha), alpha = stop_gradient(learned_alpha);

  // By running statistics as they are before this step: the next action, and what the policy's actions are worth.
  const Applied acting{policy, kPolicyGroup, as_it_runs}, judging{critic, kCriticGroup, as_it_runs};
  const control::Draw next = control::draw(policy_network(graph, acting, options, next_observation), noise.next_action);
  const Applied learning{policy, kPolicyGroup, training, policy_moves(graph, options.policy_period)};
  const control::Gaussian both =
      policy_network(graph, learning, options, joint_rows(graph, observation, next_observation));
  const control::Draw now =
      control::draw({part_of(graph, both.mean, 0), part_of(graph, both.log_stddev, 0)}, noise.action);
  const TwinLogits judged = twin_critics(graph, judging, options, observation, bounded(now.action));
  const Var value = minimum(values_of(judged.first), values_of(judged.second));

  // Rows of this step and the next in one pass, so that both critics and their targets see the same statistics.
  const Var states = joint_rows(graph, observation, next_observation);
  const Var actions = joint_rows(graph, inputs["action"], stop_gradient(bounded(next.action)));
  const Applied following{critic_target, "critic.average", training}, fitted{critic, kCriticGroup, training};
  const TwinLogits after = twin_critics(graph, following, options, states, actions);
  const Var after_first = part_of(graph, after.first, 1), after_second = part_of(graph, after.second, 1);
  const Var second_is_less = reshape(greater(values_of(after_first), values_of(after_second)), Shape{graph.batch(), 1});
  const Var after_less = stop_gradient(where(second_is_less, after_second, after_first));
  const TwinLogits current = twin_critics(graph, fitted, options, states, actions);
  const Var current_first = part_of(graph, current.first, 0), current_second = part_of(graph, current.second, 0);

  // r + d (z - alpha log pi) is (r - d alpha log pi) + d z.
  const Var reward =
      options.scale_rewards ? control::scaled_rewards(graph, inputs["reward"], options.support.high) : inputs["reward"];
  const Var discount = inputs["discount"];
  const Var soft_reward = stop_gradient(sub(reward, mul(discount, mul(alpha, next.log_prob))));
  const auto loss_of = [&](Var logits) {
    return categorical_td(logits, after_less, soft_reward, discount, options.support);
  };
  const Var losses = scale(add(loss_of(current_first), loss_of(current_second)), 0.5);

  // Of a Gaussian with that deviation: half the logarithm of 2 pi e sigma^2, for each dimension.
  const double variance = options.target_stddev * options.target_stddev;
  const double target_entropy = 0.5 * std::log(2 * std::numbers::pi * std::numbers::e * variance) *
                                static_cast<double>(options.environment.action_size());
  return {
      .policy = policy,
      .critic = critic,
      .temperature = temperature,
      .critic_loss = mean(options.importance_weights ? mul(losses, inputs["weight"]) : losses),
      .policy_loss = mean(sub(mul(alpha, now.log_prob), value)),
      .temperature_loss = scale(mean(mul(learned_alpha, affine(stop_gradient(now.log_prob), 1, target_entropy))), -1),
      .q_mean = mean(values_of(current_first)),
      .entropy = scale(mean(now.log_prob), -1),
      .alpha = alpha,
      .td_error = losses};
}

std::unique_ptr<Replica> training(const Options& options, InputFn input) {
  const StepFn step = [options](ReplicaContext& context, const StepInputs& inputs) {
    Graph& graph = context.graph();
    if (options.scale_rewards) control::learn_returns(context, inputs["return"]);
    const control::SoftLosses losses =
        build_losses(graph, options, inputs, control::draw_noise(graph, options.environment.action_size()),
                     training_mode(context, context.meets()));
    control::show(graph, losses);

    const OptimizerSpec policy_optimizer = every(options.policy_optimizer, options.policy_period),
                        temperature_optimizer = every(options.temperature_optimizer, options.policy_period);
    graph.minimize(losses.critic_loss, losses.critic, context.wrap_optimizer(options.critic_optimizer));
    graph.minimize(losses.policy_loss, losses.policy, context.wrap_optimizer(policy_optimizer));
    graph.minimize(losses.temperature_loss, losses.temperature, context.wrap_optimizer(temperature_optimizer));
  };
  return make_replica(control::checked(std::move(input), columns(options), "flashsac"), step, validate(options));
}

}  // namespace troupe::learner::flashsac
