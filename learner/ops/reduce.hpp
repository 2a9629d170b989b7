#pragma once
// Reductions. The scalar ones end in a partial sum: each shard adds up its rows, and whoever reads it (a metric, an
// optimiser) adds the shards in fixed order.
#include <troupe/learner/op.hpp>

namespace troupe::learner {

/// Over all elements, to a scalar. Of the global batch whatever the number of shards.
Var mean(Var x);
Var sum(Var x);
/// Over the last dimension: [rows, n] -> [rows].
Var sum_last(Var x);

}  // namespace troupe::learner
