#pragma once
// Copies from device to shared memory that a thread starts and waits for later, so that a block has the next slices of
// its operands on their way while it computes.
#include <cuda_runtime.h>

#include <cstdint>

namespace troupe_cuda {

/// *shared = inside ? *from : 0, begun. `from` is not read where `inside` is false.
__device__ inline void copy_async(float* shared, const float* from, bool inside) {
#ifdef __CUDACC__
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const int bytes = inside ? 4 : 0;  // the rest is zeros
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
#else
  *shared = inside ? *from : 0;
#endif
}

/// What this thread has begun since the last call is a batch, maybe an empty one.
__device__ inline void end_batch() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits for this thread's batches but the last kLeft ones.
template <int kLeft>
__device__ void wait_for_batches() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

}  // namespace troupe_cuda
