// Compiled with -mavx512f: nothing here may run before the processor was asked (reduce.cpp).
#define TROUPE_REDUCE_LANES 16
#include <troupe/collectives/detail/reduce_bodies.hpp>

namespace troupe::collectives::detail {

constinit const ReduceKernels kAvx512Reduce{.tree = tree, .round_bf16 = round_bf16};

}  // namespace troupe::collectives::detail
