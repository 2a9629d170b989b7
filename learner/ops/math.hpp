#pragma once
// Functions of one number, element by element. None is linear, so a sum over stripes is an error at build time.
// Gradients at the edges are those of PyTorch: log, sqrt and their gradients are infinite or NaN where the functions
// are, and abs has slope 0 at 0.
#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

Var exp(Var x);
Var log(Var x);
Var sqrt(Var x);
Var abs(Var x);
/// log(1 + exp(x)), which neither overflows nor loses small results.
Var softplus(Var x);

}  // namespace troupe::learner
