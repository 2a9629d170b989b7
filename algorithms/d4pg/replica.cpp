#include <troupe/algorithms/d4pg/replica.hpp>

#include <utility>

#include <troupe/algorithms/control/observation_norm.hpp>
#include <troupe/algorithms/d4pg/networks.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/random.hpp>
#include <troupe/learner/ops/random_shift.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner::d4pg {
namespace {

/// What networks read in a step.
struct Seen {
  Var now, next;
  Var judged;  ///< where the policy is judged; no gradient goes on from there
};

Seen see_states(Graph& graph, const Options& options, const StepInputs& inputs) {
  const auto observed = [&](const char* column) {
    return control::observed(graph, options.normalise_observations, inputs[column]);
  };
  const Var next = observed("next_observation");
  return {.now = observed("observation"), .next = next, .judged = next};
}

Seen see_images(Graph& graph, const Options& options, const StepInputs& inputs, const Draws& draws,
                ParamGroup encoder) {
  const auto seen = [&](ParamGroup group, const char* column, Var places) {
    const control::ImageEncoder& of = options.encoder;
    return control::encode(graph, group, of, shift(inputs[column], places, of.shift_padding));
  };
  // Who judges the next action is a target as a whole, so its encoder is one, too (DrQ, Acme).
  const Var next = seen(graph.target(encoder, options.target_period), "next_pixels", draws.next_shift);
  const Var now = seen(encoder, "pixels", draws.shift);
  return {.now = now, .next = next, .judged = stop_gradient(now)};
}

}  // namespace

Losses build_losses(Graph& graph, const Options& options, const StepInputs& inputs, const Draws& draws) {
  const ParamGroup policy = graph.group(kPolicyGroup);
  const ParamGroup critic = graph.group(kCriticGroup);
  const ParamGroup policy_target = graph.target(policy, options.target_period);
  const ParamGroup critic_target = graph.target(critic, options.target_period);
  const ParamGroup encoder = options.from_images() ? graph.group(control::kEncoderGroup) : ParamGroup{};
  const Seen seen =
      options.from_images() ? see_images(graph, options, inputs, draws, encoder) : see_states(graph, options, inputs);

  // Critic: cross-entropy to the projected distribution of reward + discount * Z'(s', pi'(s')), D4PG's Eq. 3.
  const Var logits = critic_network(graph, critic, options, seen.now, inputs["action"]);
  const Var action = policy_network(graph, policy, options, seen.judged);
  const Var next_action = policy_network(graph, policy_target, options, seen.next);
  const Var next_logits = critic_network(graph, critic_target, options, seen.next, next_action);
  const Var td_error = categorical_td(logits, next_logits, inputs["reward"], inputs["discount"], options.support);
  const Var critic_loss = mean(options.importance_weights ? mul(td_error, inputs["weight"]) : td_error);

  // Policy: ascends the critic's mean along dQ/da, clipped in each row (rlax's dpg_loss).
  const Var clipped = options.dqda_max_norm > 0 ? clip_gradient_by_row_norm(action, options.dqda_max_norm) : action;
  const Var value = categorical_mean(critic_network(graph, critic, options, seen.judged, clipped), options.support);

  return {.policy = policy,
          .critic = critic,
          .encoder = encoder,
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
    const Draws draws = options.from_images() ? Draws{.shift = random_uniform(graph, "shift", {2}),
                                                      .next_shift = random_uniform(graph, "next_shift", {2})}
                                              : Draws{};
    const Losses losses = build_losses(graph, staged, inputs, draws);
    graph.metric("critic_loss", losses.critic_loss);
    graph.metric("policy_loss", losses.policy_loss);
    graph.metric("q_mean", losses.q_mean);
    graph.output("td_error", losses.td_error);
    if (options.normalise_observations) control::learn_observations(context, inputs["observation"]);

    if (options.from_images()) {
      graph.minimize(losses.critic_loss, losses.encoder, context.wrap_optimizer(options.encoder_optimizer));
    }
    graph.minimize(losses.critic_loss, losses.critic, context.wrap_optimizer(options.critic_optimizer));
    graph.minimize(losses.policy_loss, losses.policy, context.wrap_optimizer(options.policy_optimizer));
  };
  return make_replica(control::checked(std::move(input), batch_signature(options), "d4pg"), step, validate(options));
}

}  // namespace troupe::learner::d4pg
