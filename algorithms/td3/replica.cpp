#include <troupe/algorithms/td3/replica.hpp>

#include <utility>

#include <troupe/algorithms/control/mlp.hpp>
#include <troupe/algorithms/control/observation_norm.hpp>
#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/math.hpp>
#include <troupe/learner/ops/random.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner::td3 {

Var policy_network(Graph& graph, ParamGroup group, const Options& options, Var observation) {
  const Var features =
      control::mlp(graph, group, "policy", options.policy_sizes, options.policy_activation, observation);
  return control::dense(graph, group, "policy/action", options.environment.action_size(), Activation::kTanh, features);
}

void build_policy(Graph& graph, const Options& options) {
  const Var observation = control::observed(graph, options.normalise_observations,
                                            graph.input("observation", Shape{options.environment.observation_size}));
  const Var action = policy_network(graph, graph.group(kPolicyGroup), options, observation);
  graph.output("action", control::to_bounds(graph, options.environment, action));
}

Losses build_losses(Graph& graph, const Options& options, const StepInputs& inputs, Var noise) {
  const ParamGroup policy = graph.group(kPolicyGroup), critic = graph.group(kCriticGroup);
  const double kept = 1 - options.target_rate;
  const ParamGroup policy_target = graph.average(policy, kept, options.policy_period);
  const ParamGroup critic_target = graph.average(critic, kept, options.policy_period);
  const auto values = [&](ParamGroup group, Var observation, Var action) {
    return control::twin_critics(graph, group, options.critic_sizes, options.critic_activation, observation, action);
  };
  const Var observation = control::observed(graph, options.normalise_observations, inputs["observation"]);
  const Var next_observation = control::observed(graph, options.normalise_observations, inputs["next_observation"]);

  // The target, of the smaller value of an action near the target policy's (Alg. 1).
  const Var clipped = clip(scale(noise, options.target_noise), -options.target_noise_clip, options.target_noise_clip);
  const Var smoothed = clip(add(policy_network(graph, policy_target, options, next_observation), clipped), -1, 1);
  const auto next = values(critic_target, next_observation, control::to_bounds(graph, options.environment, smoothed));
  const Var target = stop_gradient(add(inputs["reward"], mul(inputs["discount"], minimum(next.first, next.second))));

  const auto current = values(critic, observation, inputs["action"]);
  const Var first = sub(current.first, target), second = sub(current.second, target);
  const Var squares = add(square(first), square(second));

  const Var action = policy_network(graph, policy, options, observation);
  const Var value = values(critic, observation, control::to_bounds(graph, options.environment, action)).first;
  return {.policy = policy,
          .critic = critic,
          .critic_loss = mean(options.importance_weights ? mul(squares, inputs["weight"]) : squares),
          .policy_loss = scale(mean(value), -1),
          .q_mean = mean(current.first),
          .td_error = scale(add(abs(first), abs(second)), 0.5)};
}

std::unique_ptr<Replica> training(const Options& options, InputFn input) {
  const StepFn step = [options](ReplicaContext& context, const StepInputs& inputs) {
    Graph& graph = context.graph();
    const Var noise = random_normal(graph, "target_noise", Shape{options.environment.action_size()});
    const Losses losses = build_losses(graph, options, inputs, noise);
    graph.metric("critic_loss", losses.critic_loss);
    graph.metric("policy_loss", losses.policy_loss);
    graph.metric("q_mean", losses.q_mean);
    graph.output("td_error", losses.td_error);
    if (options.normalise_observations) control::learn_observations(context, inputs["observation"]);

    const OptimizerSpec policy_optimizer = every(options.policy_optimizer, options.policy_period);
    graph.minimize(losses.critic_loss, losses.critic, context.wrap_optimizer(options.critic_optimizer));
    graph.minimize(losses.policy_loss, losses.policy, context.wrap_optimizer(policy_optimizer));
  };
  return make_replica(
      control::checked(std::move(input), control::transitions(options.environment, options.importance_weights), "td3"),
      step, validate(options));
}

}  // namespace troupe::learner::td3
