#include <troupe/algorithms/drqv2/replica.hpp>

#include <algorithm>
#include <utility>

#include <troupe/algorithms/drqv2/networks.hpp>
#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/math.hpp>
#include <troupe/learner/ops/random.hpp>
#include <troupe/learner/ops/random_shift.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::drqv2 {
namespace {

constexpr double kFarthest = 1 - 1e-6;  // from the middle of the action's range, as in the published code

/// A draw near the policy's action. What clips it to the range lets the whole gradient pass, as the published code
/// does.
Var noisy(const Options& options, Var action, Var noise) {
  const Var drawn = add(action, clip(noise, -options.noise_clip, options.noise_clip));
  return add(sub(drawn, stop_gradient(drawn)), stop_gradient(clip(drawn, -kFarthest, kFarthest)));
}

/// The noise's deviation now, [1]: a straight line over the env steps that the learner's own steps stand for, of which
/// float32 counts 2^24.
Var deviation(Graph& graph, const Options& options) {
  const Var steps = graph.state("drqv2/steps", {1}, Init::constant(0));
  graph.assign(steps, affine(steps, 1, 1));
  const auto [least, most] = std::minmax(options.sigma, options.final_sigma);
  if (least == most) return graph.constant({1}, {static_cast<float>(least)});
  const double each = options.env_steps_per_learner_step / static_cast<double>(options.sigma_env_steps) *
                      (options.final_sigma - options.sigma);
  return clip(affine(steps, each, options.sigma), least, most);
}

}  // namespace

Signature transitions(const Options& options) {
  return control::image_transitions(options.environment, options.encoder, options.importance_weights);
}

Losses build_losses(Graph& graph, const Options& options, const StepInputs& inputs, const Draws& draws) {
  const ParamGroup policy = graph.group(kPolicyGroup), critic = graph.group(kCriticGroup),
                   encoder = graph.group(control::kEncoderGroup);
  const ParamGroup critic_target = graph.average(critic, 1 - options.target_rate);
  const auto seen = [&](const char* column, Var places) {
    const control::ImageEncoder& of = options.encoder;
    return control::encode(graph, encoder, of, shift(inputs[column], places, of.shift_padding));
  };
  const auto act = [&](Var of, Var noise) {
    const Var action = noisy(options, policy_network(graph, policy, options, of), noise);
    return control::to_bounds(graph, options.environment, action);
  };

  // Encoder and policy of the target are the ones that are learnt; the critics alone have targets (Eq. 3).
  const Var next = seen("next_pixels", draws.next_shift);
  const auto following = critic_networks(graph, critic_target, options, next, act(next, draws.next_noise));
  const Var target =
      stop_gradient(add(inputs["reward"], mul(inputs["discount"], minimum(following.first, following.second))));

  const Var now = seen("pixels", draws.shift);
  const auto current = critic_networks(graph, critic, options, now, inputs["action"]);
  const Var first = sub(current.first, target), second = sub(current.second, target);
  const Var squares = add(square(first), square(second));

  const Var fixed = stop_gradient(now);
  const auto values = critic_networks(graph, critic, options, fixed, act(fixed, draws.noise));
  return {.encoder = encoder,
          .policy = policy,
          .critic = critic,
          .critic_loss = mean(options.importance_weights ? mul(squares, inputs["weight"]) : squares),
          .policy_loss = scale(mean(minimum(values.first, values.second)), -1),
          .q_mean = mean(current.first),
          .td_error = scale(add(abs(first), abs(second)), 0.5)};
}

std::unique_ptr<Replica> training(const Options& options, InputFn input) {
  const StepFn step = [options](ReplicaContext& context, const StepInputs& inputs) {
    Graph& graph = context.graph();
    const Var sigma = deviation(graph, options);
    const Shape action{options.environment.action_size()};
    const Draws draws{.shift = random_uniform(graph, "shift", {2}),
                      .next_shift = random_uniform(graph, "next_shift", {2}),
                      .next_noise = mul(random_normal(graph, "next_noise", action), sigma),
                      .noise = mul(random_normal(graph, "noise", action), sigma)};
    const Losses losses = build_losses(graph, options, inputs, draws);
    graph.metric("critic_loss", losses.critic_loss);
    graph.metric("policy_loss", losses.policy_loss);
    graph.metric("q_mean", losses.q_mean);
    graph.metric("sigma", reshape(sigma, {}));
    graph.output("td_error", losses.td_error);
    graph.minimize(losses.critic_loss, losses.encoder, context.wrap_optimizer(options.encoder_optimizer));
    graph.minimize(losses.critic_loss, losses.critic, context.wrap_optimizer(options.critic_optimizer));
    graph.minimize(losses.policy_loss, losses.policy, context.wrap_optimizer(options.policy_optimizer));
  };
  return make_replica(control::checked(std::move(input), transitions(options), "drqv2"), step, validate(options));
}

}  // namespace troupe::learner::drqv2
