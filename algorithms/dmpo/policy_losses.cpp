#include <troupe/algorithms/dmpo/policy_losses.hpp>

#include <cmath>
#include <numbers>
#include <string_view>

#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/math.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::dmpo {
namespace {

constexpr float kLeastRawDual = -18;

/// A dual variable, positive by softplus.
Var dual(Graph& graph, ParamGroup duals, std::string_view name, const Shape& shape, double at_first) {
  const double excess = at_first - kLeastDual;
  const Init init = Init::constant(excess + std::log(-std::expm1(-excess)));  // the inverse of softplus
  const Var raw = graph.param(duals, name, shape, init);
  // Acme sets the parameter itself to its least value. Here the value is limited and the gradient passes, so that a
  // parameter below comes back.
  const Var limited = maximum(raw, graph.constant(Shape{}, {kLeastRawDual}));
  return affine(softplus(add(raw, stop_gradient(sub(limited, raw)))), 1, kLeastDual);
}

/// The E-step: what a temperature makes of scores, [batch, samples].
struct Weighing {
  Var weights;     ///< [batch, samples]; the sum of each state's is 1
  Var loss;        ///< [batch], of the temperature alone: the dual function (1806.06920, Eq. 8)
  Var divergence;  ///< [batch], of the weights from equal ones
};
Weighing weigh(Graph& graph, Var scores, Var temperature, double limit) {
  if (!scores || !temperature) return {};
  const Var tempered = div(stop_gradient(scores), temperature);
  const Var weights = stop_gradient(softmax(tempered));
  const double log_samples = std::log(static_cast<double>(graph.spec(scores).shape[1]));
  const Var log_mean = affine(log_sum_exp(tempered), 1, -log_samples);
  return {.weights = weights,
          .loss = mul(temperature, affine(log_mean, 1, limit)),
          .divergence = sub(sum_last(mul(weights, tempered)), log_mean)};
}

/// Minus the norm of what lies beyond [-1, 1]: [batch, samples].
Var bounds_score(Var actions) { return scale(sqrt(sum_last(square(sub(actions, clip(actions, -1, 1))))), -1); }

/// Of each state and sample, by dimensions: [batch, samples, action_size].
Var log_density(Graph& graph, Var actions, Var mean, Var stddev) {
  if (!mean || !stddev) return {};
  const Shape of_state{graph.batch(), 1, graph.spec(mean).shape[1]};
  const Var standard = div(sub(actions, reshape(mean, of_state)), reshape(stddev, of_state));
  return affine(add(scale(square(standard), 0.5), log(reshape(stddev, of_state))), -1,
                -0.5 * std::log(2 * std::numbers::pi));
}

/// How far a Gaussian of another mean, or of another deviation, is from `from`: KL(from, other), by dimensions.
Var divergence_of_mean(const Gaussian& from, Var mean) {
  return scale(square(div(sub(mean, from.mean), from.stddev)), 0.5);
}
Var divergence_of_stddev(const Gaussian& from, Var stddev) {
  return add(sub(log(stddev), log(from.stddev)), affine(square(div(from.stddev, stddev)), 0.5, -0.5));
}

}  // namespace

PolicyLosses policy_losses(Graph& graph, const Options& options, const Gaussian& online, const Draws& draws) {
  const ParamGroup duals = graph.group(kDualsGroup);
  const Limits& limits = options.limits;
  const std::int64_t size = options.environment.action_size();
  PolicyLosses made{.duals = duals};

  made.temperature = dual(graph, duals, "temperature", Shape{}, limits.temperature);
  const Weighing by_value = weigh(graph, draws.values, made.temperature, limits.samples);
  Var weights = by_value.weights, temperature_loss = by_value.loss;
  if (options.action_penalization) {
    made.penalty_temperature = dual(graph, duals, "penalty_temperature", Shape{}, limits.temperature);
    const Weighing by_bounds = weigh(graph, bounds_score(draws.actions), made.penalty_temperature, limits.penalty);
    weights = add(weights, by_bounds.weights);
    temperature_loss = add(temperature_loss, by_bounds.loss);
  }

  // The M-step learns the mean under the drawing policy's deviation and the deviation around its mean (1812.02256,
  // section 4.2.1), which have limits of their own.
  const Var log_densities = add(log_density(graph, draws.actions, online.mean, draws.policy.stddev),
                                log_density(graph, draws.actions, draws.policy.mean, online.stddev));
  const Var weighted = mul(reshape(weights, Shape{graph.batch(), options.samples, 1}), log_densities);
  const Var cross_entropy = scale(sum_last(reshape(weighted, Shape{graph.batch(), options.samples * size})), -1);

  const Var kl_mean = divergence_of_mean(draws.policy, online.mean);
  const Var kl_stddev = divergence_of_stddev(draws.policy, online.stddev);
  const Var alpha_mean = dual(graph, duals, "alpha_mean", Shape{size}, limits.alpha_mean);
  const Var alpha_stddev = dual(graph, duals, "alpha_stddev", Shape{size}, limits.alpha_stddev);
  const Var penalty = add(mul(stop_gradient(alpha_mean), kl_mean), mul(stop_gradient(alpha_stddev), kl_stddev));
  const Var alpha_loss = add(mul(alpha_mean, affine(stop_gradient(kl_mean), -1, limits.mean)),
                             mul(alpha_stddev, affine(stop_gradient(kl_stddev), -1, limits.stddev)));

  made.policy_loss = mean(add(cross_entropy, sum_last(penalty)));
  made.dual_loss = mean(add(temperature_loss, sum_last(alpha_loss)));
  made.alpha_mean = mean(alpha_mean);
  made.alpha_stddev = mean(alpha_stddev);
  made.kl_samples = mean(by_value.divergence);
  made.kl_mean = mean(kl_mean);
  made.kl_stddev = mean(kl_stddev);
  return made;
}

}  // namespace troupe::learner::dmpo
