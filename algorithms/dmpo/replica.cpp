#include <troupe/algorithms/dmpo/replica.hpp>

#include <utility>

#include <troupe/algorithms/control/observation_norm.hpp>
#include <troupe/learner/ops/broadcast.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/math.hpp>
#include <troupe/learner/ops/random.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::dmpo {
namespace {

/// The logits of the mean distribution of each state's actions. It is the mean of probabilities, not of logits.
Var mean_distribution(Graph& graph, const Options& options, Var logits) {
  const std::int64_t rows = graph.batch(), atoms = options.support.count;
  const Var probabilities = reshape(softmax(logits), Shape{rows, options.samples, atoms});
  const Var sums = reshape(sum_to(probabilities, Shape{rows, 1, atoms}), Shape{rows, atoms});
  return log(scale(sums, 1 / static_cast<double>(options.samples)));
}

}  // namespace

Losses build_losses(Graph& graph, const Options& options, const StepInputs& inputs, Var noise) {
  const ParamGroup policy = graph.group(kPolicyGroup), critic = graph.group(kCriticGroup);
  const ParamGroup policy_target = graph.target(policy, options.policy_target_period);
  const ParamGroup critic_target = graph.target(critic, options.critic_target_period);
  const std::int64_t rows = graph.batch(), samples = options.samples;
  const std::int64_t action = options.environment.action_size(), observed = options.environment.observation_size;
  const Var next_observation = seen(graph, options, inputs["next_observation"]);

  // Actions of the target policy in the next state, and the target critic's distributions of their values.
  const Gaussian target = policy_network(graph, policy_target, options, next_observation);
  const auto of_state = [&](Var x) { return reshape(x, Shape{rows, 1, action}); };
  const Var actions = add(of_state(target.mean), mul(of_state(target.stddev), noise));
  const Var ones = graph.constant(Shape{samples, 1}, std::vector<float>(static_cast<std::size_t>(samples), 1.0F));
  const Var observations = mul(reshape(next_observation, Shape{rows, 1, observed}), ones);
  const Var logits =
      critic_network(graph, critic_target, options, reshape(observations, Shape{rows * samples, observed}),
                     told(graph, options, reshape(actions, Shape{rows * samples, action})));
  const Var values = reshape(categorical_mean(logits, options.support), Shape{rows, samples});

  const Var predicted =
      critic_network(graph, critic, options, seen(graph, options, inputs["observation"]), inputs["action"]);
  const Var td_error = categorical_td(predicted, mean_distribution(graph, options, logits), inputs["reward"],
                                      inputs["discount"], options.support);
  const Gaussian online = policy_network(graph, policy, options, next_observation);
  return {.policy = policy,
          .critic = critic,
          .critic_loss = mean(options.importance_weights ? mul(td_error, inputs["weight"]) : td_error),
          .of_policy = policy_losses(graph, options, online, {target, actions, values}),
          .q_mean = mean(categorical_mean(predicted, options.support)),
          .td_error = td_error};
}

std::unique_ptr<Replica> training(const Options& options, InputFn input) {
  const StepFn step = [options](ReplicaContext& context, const StepInputs& inputs) {
    Graph& graph = context.graph();
    Options staged = options;
    staged.devices = context.devices();
    const Var noise = random_normal(graph, "actions", Shape{options.samples, options.environment.action_size()});
    const Losses losses = build_losses(graph, staged, inputs, noise);
    const PolicyLosses& of_policy = losses.of_policy;
    graph.metric("critic_loss", losses.critic_loss);
    graph.metric("policy_loss", of_policy.policy_loss);
    graph.metric("dual_loss", of_policy.dual_loss);
    graph.metric("q_mean", losses.q_mean);
    graph.metric("temperature", of_policy.temperature);
    if (options.action_penalization) graph.metric("penalty_temperature", of_policy.penalty_temperature);
    graph.metric("alpha_mean", of_policy.alpha_mean);
    graph.metric("alpha_stddev", of_policy.alpha_stddev);
    graph.metric("kl_samples", of_policy.kl_samples);
    graph.metric("kl_mean", of_policy.kl_mean);
    graph.metric("kl_stddev", of_policy.kl_stddev);
    graph.output("td_error", losses.td_error);
    if (options.normalise_observations) control::learn_observations(context, inputs["observation"], kActingGroup);

    const OptimizerSpec dual_optimizer{.rule = Adam{.learning_rate = options.dual_learning_rate}};
    graph.minimize(losses.critic_loss, losses.critic, context.wrap_optimizer(options.critic_optimizer));
    graph.minimize(of_policy.policy_loss, losses.policy, context.wrap_optimizer(options.policy_optimizer));
    graph.minimize(of_policy.dual_loss, of_policy.duals, context.wrap_optimizer(dual_optimizer));
  };
  return make_replica(
      control::checked(std::move(input), control::transitions(options.environment, options.importance_weights), "dmpo"),
      step, validate(options));
}

}  // namespace troupe::learner::dmpo
