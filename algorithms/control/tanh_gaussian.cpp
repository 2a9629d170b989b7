#include <troupe/algorithms/control/tanh_gaussian.hpp>

#include <cmath>
#include <numbers>

#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/math.hpp>
#include <troupe/learner/ops/random.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner::control {

Draw draw(const Gaussian& policy, Var noise) {
  const Var before = add(policy.mean, mul(exp(policy.log_stddev), noise));
  // log N(before) is that of the noise less log_stddev, and log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)).
  const double constant = -0.5 * std::log(2 * std::numbers::pi) - 2 * std::numbers::ln2;
  const Var of_noise = affine(square(noise), -0.5, constant);
  const Var of_tanh = scale(add(before, softplus(scale(before, -2))), 2);
  return {tanh(before), sum_last(add(sub(of_noise, policy.log_stddev), of_tanh))};
}

void give_actions(Graph& graph, const EnvironmentShape& environment, const Gaussian& policy) {
  graph.output("action", to_bounds(graph, environment, tanh(policy.mean)));
  graph.output("mean", policy.mean);
  graph.output("stddev", exp(policy.log_stddev));
}

DrawNoise draw_noise(Graph& graph, std::int64_t action_size) {
  const Shape shape{action_size};
  return {.next_action = random_normal(graph, "next_action", shape), .action = random_normal(graph, "action", shape)};
}

void show(Graph& graph, const SoftLosses& losses) {
  graph.metric("critic_loss", losses.critic_loss);
  graph.metric("policy_loss", losses.policy_loss);
  graph.metric("temperature_loss", losses.temperature_loss);
  graph.metric("q_mean", losses.q_mean);
  graph.metric("entropy", losses.entropy);
  graph.metric("alpha", losses.alpha);
  graph.output("td_error", losses.td_error);
}

}  // namespace troupe::learner::control
