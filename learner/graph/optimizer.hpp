#pragma once
// How a parameter group is updated. The specs are data; the kernels walk the group's flat buffers once, sum the
// stripes' gradients in fixed order and update in the same pass (learner/engine/cpu/cpu_update.cpp).
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::learner {

/// Kingma & Ba 2015, Alg. 1, with PyTorch's and Optax's placement of epsilon:
/// theta -= learning_rate * m_hat / (sqrt(v_hat) + epsilon). With a weight_decay it is AdamW, which so needs no rule of
/// its own.
struct Adam {
  double learning_rate = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  /// Decoupled (AdamW: Loshchilov & Hutter 2019, Alg. 2, line 12, with PyTorch's product of decay and rate): before the
  /// step above, theta -= learning_rate * weight_decay * theta.
  double weight_decay = 0;
};

/// momentum_t = momentum * momentum_{t-1} + g; theta -= learning_rate * momentum_t (PyTorch's form, dampening 0).
struct Sgd {
  double learning_rate = 1e-2;
  double momentum = 0;
  /// theta -= learning_rate * (g + momentum * momentum_t) instead; needs momentum > 0.
  bool nesterov = false;
  /// L2 penalty, as PyTorch's SGD: g += weight_decay * theta, after clipping and before momentum.
  double weight_decay = 0;
};

/// Hinton et al. 2012, lecture 6e, slide 29, not centred: v = decay * v + (1 - decay) * g^2, and g is divided by the
/// root of v. Where epsilon stands, where v starts and what momentum adds up are those of one of two peers:
struct RmsProp {
  enum class Form : std::uint8_t {
    /// torch.optim.RMSprop: epsilon is outside of the root, v starts at 0.
    /// momentum_t = momentum * momentum_{t-1} + g / (sqrt(v) + epsilon); theta -= learning_rate * momentum_t.
    kPyTorch,
    /// tf.compat.v1.train.RMSPropOptimizer (DQN's and IMPALA's): epsilon is inside of the root, v starts at 1.
    /// momentum_t = momentum * momentum_{t-1} + learning_rate * g / sqrt(v + epsilon); theta -= momentum_t.
    kTensorFlow,
  };
  Form form = Form::kPyTorch;
  double learning_rate = 1e-2;
  double decay = 0.99;  ///< of v: PyTorch's alpha, TensorFlow's decay
  double momentum = 0;
  double epsilon = 1e-8;  ///< above 0: an element whose gradient has always been 0 is divided by it
  /// L2 penalty, as PyTorch's RMSprop: g += weight_decay * theta, before v.
  double weight_decay = 0;
};

/// Layer-wise adaptive rates (You et al. 2017, arXiv 1708.03888, Alg. 1). Each variable has a rate of its own,
/// local = trust_coefficient * |theta| / (|g| + weight_decay * |theta|), or 1 where one of the norms is 0:
/// momentum_t = momentum * momentum_{t-1} + learning_rate * local * (g + weight_decay * theta); theta -= momentum_t.
/// Variables with one axis at most (biases, gains, offsets) and those that Graph::exempt_from_decay() names have local
/// 1 and no weight_decay. Norms are those of the reduced and clipped gradient of a whole variable: whoever holds only a
/// part of one refuses this rule.
struct Lars {
  double learning_rate = 1;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  double trust_coefficient = 1e-3;
};

/// By what the rule's learning rate is multiplied at each update. Data: it is evaluated from Program::step(), so a
/// restored checkpoint goes on where it stopped. Updates count from 0; every count includes the warm-up.
struct Schedule {
  enum class Kind : std::uint8_t {
    kConstant,  ///< 1
    kStep,      ///< step_factor to the power of how many of `boundaries` are reached (torch MultiStepLR)
    kCosine,    ///< 1 for hold_steps, then half a cosine wave to final_factor at total_steps, then constant
    kLinear,    ///< the same along a straight line
  };
  Kind kind = Kind::kConstant;
  /// The first updates have (t + 1) / warmup_steps (Goyal et al. 2017, section 2.2); 0: none.
  std::int64_t warmup_steps = 0;
  std::int64_t hold_steps = 0;           ///< cosine and linear: between the warm-up and the fall
  std::int64_t total_steps = 0;          ///< cosine and linear: above warmup_steps + hold_steps
  double final_factor = 0;               ///< cosine and linear: at least 0
  std::vector<std::int64_t> boundaries;  ///< step: rising
  double step_factor = 0.1;              ///< step: above 0

  double factor(std::int64_t update) const;
};

/// What a reduction replaces: a stretch of a group's flat gradient, already summed over stripes (padding is zero).
struct GradientPart {
  std::span<float> values;
  std::string_view name;  ///< "critic", or "critic/2" of several; the same on all replicas
  std::int64_t rows = 0;  ///< of this step's batch that are data
  int gpu = -1;           ///< in whose memory the values are; -1: the host's
};

/// Called on one thread for every part of the group's gradient, in the same order on all replicas; replaces it, e.g.
/// with the mean over replicas. An error stops the step before anything is updated.
using ReduceGradient = std::function<Status(const GradientPart& part)>;

using OptimizerRule = std::variant<Adam, Sgd, RmsProp, Lars>;

struct OptimizerSpec {
  OptimizerRule rule;
  Schedule schedule;
  /// The group is updated in every so-many-th step only, with that step's gradient: a GAN's generator after n_dis
  /// updates of its discriminator. In other steps nothing is computed for it alone. Schedule and bias correction count
  /// the group's own updates.
  std::int64_t every_steps = 1;
  /// The whole group's gradient is scaled down to this L2 norm when it is longer, after `reduce`. 0: never.
  double max_global_norm = 0;
  /// Set by the replica API's wrap_optimizer; empty for one replica.
  ReduceGradient reduce;
  /// Of which GPU `reduce` takes parts where they are, asked before the parts of each step; -1 or empty: of none.
  std::function<int()> reduce_gpu;
};

/// `spec`, whose schedule counts steps, for a group that is updated in every n-th of them alone.
OptimizerSpec every(OptimizerSpec spec, std::int64_t n);

/// Errors: kInvalidArgument naming the field, got and expected.
Status validate(const OptimizerSpec& spec);

/// The rule's learning rate times the schedule's factor, at the group's update number `update`, which counts from 0.
double learning_rate(const OptimizerSpec& spec, std::int64_t update);

/// What the rule remembers for each parameter, as checkpoints call it: Adam "adam_m" and "adam_v"; RMSProp
/// "mean_square"; all others, and RMSProp besides, "momentum" if they have any.
std::vector<std::string> slot_names(const OptimizerSpec& spec);

}  // namespace troupe::learner
