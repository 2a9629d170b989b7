#pragma once
// One of several values. Operands of elementwise choices are broadcast to each other (learner/ops/broadcast.hpp).
#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

/// The smaller and the larger one; a NaN passes. Where both are equal each has half of the gradient (as in PyTorch and
/// JAX).
Var minimum(Var a, Var b);
Var maximum(Var a, Var b);
/// 1 where a > b, else 0. Has no gradient.
Var greater(Var a, Var b);
/// a where the condition is not 0, else b. The condition has no gradient, and that of what was not chosen is zero.
/// (What it was made of may still make NaN of that zero: the logarithm of 0, say, whose slope is infinite.)
Var where(Var condition, Var a, Var b);
/// The element that an index chooses: x [items..., choices, rest...], index int32 [items...] -> [items..., rest...],
/// such as the values of the actions that were taken: [batch, actions], [batch] -> [batch]. An index outside of 0 ..
/// choices - 1 gives NaN, so that the step is skipped and counted; its gradient is zero.
Var gather(Var x, Var index);

}  // namespace troupe::learner
