#define TROUPE_REDUCE_LANES 4
#include <troupe/collectives/detail/reduce_bodies.hpp>

namespace troupe::collectives::detail {

constinit const ReduceKernels kGenericReduce{.tree = tree, .round_bf16 = round_bf16};

}  // namespace troupe::collectives::detail
