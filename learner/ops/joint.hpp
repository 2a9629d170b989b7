#pragma once
// Where stripes, and through a Communicator replicas, meet in the middle of a step. Each one is a barrier of all
// stripes.
#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

/// The sum of a partial value over this program's stripes, replicated: afterwards any operation may use it.
Var sum_stripes(Var x);
/// `forward` makes another value of x on one thread while the stripes wait, `backward` makes the gradient of x of that
/// of the result. Same shape and place as x, but partial sums come out replicated. x must be float32 at run time.
Var joint(Var x, JointFn forward, JointFn backward);
/// The same with a result of another shape, which is replicated. The replica API's all_gather and friends are made of
/// these.
Var joint(Var x, const Shape& shape, JointFn forward, JointFn backward);

}  // namespace troupe::learner
