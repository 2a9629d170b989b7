#pragma once
// Operations that are the identity forwards and change what flows back.
#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

/// No gradient passes.
Var stop_gradient(Var x);
/// The gradient of each row is scaled down to `max_norm` when its L2 norm is larger, where the gradient is that of one
/// example: batch times the gradient of a mean over the batch. Applied to the action in the policy loss -mean(Q(s, a))
/// this is Acme's D4PG `clipping` of dQ/da. x: [rows, n].
Var clip_gradient_by_row_norm(Var x, double max_norm);

}  // namespace troupe::learner
