#pragma once
// Reductions. The scalar ones end in a partial sum: each stripe adds up its rows, and whoever reads it (a metric, an
// optimiser) adds the stripes in fixed order.
#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

/// Over all elements, to a scalar. Of this replica's batch whatever the number of stripes; rows behind the end of a
/// short batch do not count, so a mean is that of the rows that there are (0 for none).
Var mean(Var x);
Var sum(Var x);
/// The rows of this step's batch that are data: a scalar, and a sum over stripes. What sums over rows by other means
/// than these divides by it.
Var count_rows(Graph& graph);
/// The greatest element of x over all stripes, as a replicated scalar: of the rows that are data, and the lowest
/// float32 where there are none. Has no gradient.
Var greatest(Var x);
/// Over the last dimension: [rows, n] -> [rows].
Var sum_last(Var x);
/// log(sum(exp(x))) over the last dimension, without overflow: [rows, n] -> [rows].
Var log_sum_exp(Var x);

}  // namespace troupe::learner
