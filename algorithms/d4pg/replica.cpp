#include <troupe/algorithms/d4pg/replica.hpp>

#include <utility>

#include <troupe/algorithms/control/observation_norm.hpp>
#include <troupe/algorithms/d4pg/networks.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner::d4pg {

Losses build_losses(Graph& graph, const Options& options, const StepInputs& inputs) {
  const ParamGroup policy = graph.group(kPolicyGroup);
  const ParamGroup critic = graph.group(kCriticGroup);
  const ParamGroup policy_target = graph.target(policy, options.target_period);
  const ParamGroup critic_target = graph.target(critic, options.target_period);
  const auto observed = [&](const char* column) {
    return control::observed(graph, options.normalise_observations, inputs[column]);
  };
  const Var next_observation = observed("next_observation");

  // Critic: cross-entropy to the projected distribution of reward + discount * Z'(s', pi'(s')), D4PG's Eq. 3.
  const Var logits = critic_network(graph, critic, options, observed("observation"), inputs["action"]);
  const Var action = policy_network(graph, policy, options, next_observation);
  const Var next_action = policy_network(graph, policy_target, options, next_observation);
  const Var next_logits = critic_network(graph, critic_target, options, next_observation, next_action);
  const Var td_error = categorical_td(logits, next_logits, inputs["reward"], inputs["discount"], options.support);
  const Var critic_loss = mean(options.importance_weights ? mul(td_error, inputs["weight"]) : td_error);

  // Policy: ascends the critic's mean along dQ/da, clipped in each row (rlax's dpg_loss).
  const Var clipped = options.dqda_max_norm > 0 ? clip_gradient_by_row_norm(action, options.dqda_max_norm) : action;
  const Var value =
      categorical_mean(critic_network(graph, critic, options, next_observation, clipped), options.support);

  return {.policy = policy,
          .critic = critic,
          .critic_loss = critic_loss,
          .policy_loss = scale(mean(value), -1),
          .q_mean = mean(categorical_mean(logits, options.support)),
          .td_error = td_error};
}

std::unique_ptr<Replica> training(const Options& options, InputFn input) {
  const StepFn step = [options](ReplicaContext& context, const StepInputs& inputs) {
    Graph& graph = context.graph();
    Options staged = options;
    staged.devices = context.devices();
    const Losses losses = build_losses(graph, staged, inputs);
    graph.metric("critic_loss", losses.critic_loss);
    graph.metric("policy_loss", losses.policy_loss);
    graph.metric("q_mean", losses.q_mean);
    graph.output("td_error", losses.td_error);
    if (options.normalise_observations) control::learn_observations(context, inputs["observation"]);

    graph.minimize(losses.critic_loss, losses.critic, context.wrap_optimizer(options.critic_optimizer));
    graph.minimize(losses.policy_loss, losses.policy, context.wrap_optimizer(options.policy_optimizer));
  };
  return make_replica(control::checked(std::move(input), batch_signature(options), "d4pg"), step, validate(options));
}

}  // namespace troupe::learner::d4pg
