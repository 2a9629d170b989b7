#pragma once
// Element by element. Operands of different shapes are broadcast to each other (learner/ops/broadcast.hpp); a partial
// sum (Place::kPartial) passes only where the operation is linear in it, anything else is an error at build time.
#include <cstdint>

#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

inline constexpr double kLeakyReluSlope = 0.1;  ///< below 0 (Miyato et al. 2018)

/// Fused into linear(), conv2d() and the norms. ELU has alpha 1.
/// Gradients are computed from outputs alone.
enum class Activation : std::uint8_t { kNone, kTanh, kElu, kRelu, kSigmoid, kLeakyRelu };

Var add(Var a, Var b);
Var sub(Var a, Var b);
Var mul(Var a, Var b);
/// Nothing is added to the divisor: by 0 it is infinite or NaN, and the step is skipped and counted.
Var div(Var a, Var b);
/// factor * x + offset.
Var affine(Var x, double factor, double offset = 0);
inline Var scale(Var x, double factor) { return affine(x, factor); }
Var square(Var x);
/// Limits to [low, high]; the gradient is zero outside.
Var clip(Var x, double low, double high);
Var activation(Var x, Activation kind);
inline Var tanh(Var x) { return activation(x, Activation::kTanh); }
inline Var elu(Var x) { return activation(x, Activation::kElu); }
inline Var relu(Var x) { return activation(x, Activation::kRelu); }
inline Var sigmoid(Var x) { return activation(x, Activation::kSigmoid); }
inline Var leaky_relu(Var x) { return activation(x, Activation::kLeakyRelu); }

}  // namespace troupe::learner
