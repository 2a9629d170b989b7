#include <troupe/algorithms/control/tanh_gaussian.hpp>

#include <cmath>
#include <numbers>

#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/math.hpp>
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

}  // namespace troupe::learner::control
