#pragma once
// How a parameter group is updated. The specs are data; the kernels walk the group's flat buffers once, sum the shards'
// gradients in fixed order and update in the same pass (learner/update.cpp).
#include <cstdint>
#include <functional>
#include <span>
#include <variant>

#include <troupe/core/error.hpp>

namespace troupe::learner {

/// Kingma & Ba 2015, Alg. 1, with PyTorch's and Optax's placement of epsilon:
/// theta -= learning_rate * m_hat / (sqrt(v_hat) + epsilon).
struct Adam {
  double learning_rate = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

/// momentum_t = momentum * momentum_{t-1} + g; theta -= learning_rate * momentum_t (PyTorch's form, dampening 0).
struct Sgd {
  double learning_rate = 1e-2;
  double momentum = 0;
};

/// Called once a step on one thread with the flat gradient of the group, already summed over shards (padding is zero);
/// replaces it, e.g. with the mean over replicas. An error stops the step before anything is updated.
using ReduceGradient = std::function<Status(std::span<float> gradient)>;

struct OptimizerSpec {
  std::variant<Adam, Sgd> rule;
  /// The whole group's gradient is scaled down to this L2 norm when it is longer, after `reduce`. 0: never.
  double max_global_norm = 0;
  /// Set by the replica API's wrap_optimizer; empty for one replica.
  ReduceGradient reduce;
};

/// Optimiser slots of the rule: 2 for Adam (m, v), 1 for SGD with momentum, 0 without.
int slot_count(const OptimizerSpec& spec);

}  // namespace troupe::learner
