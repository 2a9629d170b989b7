#pragma once
// Where shards, and through a Communicator replicas, meet in the middle of a step. Each one is a barrier of all shards.
#include <troupe/learner/op.hpp>

namespace troupe::learner {

/// The sum of a partial value over this program's shards, replicated: afterwards any operation may use it.
Var sum_shards(Var x);
/// `forward` changes the value in place on one thread while the shards wait, `backward` does so with its gradient (for
/// an all-reduce over replicas both are that all-reduce). Same shape and place as x, but partial sums come out
/// replicated. x must be float32 at run time. The replica API's all_reduce and friends are made of this.
Var joint(Var x, JointFn forward, JointFn backward);

}  // namespace troupe::learner
