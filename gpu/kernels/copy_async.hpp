#pragma once
// Copies from device to shared memory that a thread starts and waits for later, so that a block has the next slices of
// its operands on their way while it computes.
#include <cuda_runtime.h>

#include <cstdint>

namespace troupe_cuda {

/// shared[i] = inside ? from[i] : 0, begun, for as many as Width: 1, or 4 where both are aligned to 16 bytes. `from` is
/// not read where `inside` is false.
template <int Width = 1>
__device__ void copy_async(float* shared, const float* from, bool inside) {
  static_assert(Width == 1 || Width == 4);
#ifdef __CUDACC__
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  constexpr int kBytes = Width * 4;
  const int bytes = inside ? kBytes : 0;  // the rest is zeros
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes), "r"(bytes)
               : "memory");
#else
  for (int i = 0; i < Width; ++i) shared[i] = inside ? from[i] : 0;
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
