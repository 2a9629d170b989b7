#pragma once
// Sums and maxima within a warp or a block, always in the same order. All threads of the warp or block must take part.
#include <cuda_runtime.h>

#include <cstdint>

namespace troupe_cuda {

constexpr int kWarp = 32;

/// The sum over the warp's lanes, in every lane.
template <typename T>
__device__ T warp_sum(T x) {
  for (int lane = kWarp / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffffU, x, lane);
  return x;
}
template <typename T>
__device__ T warp_max(T x) {
  for (int lane = kWarp / 2; lane > 0; lane /= 2) {
    const T other = __shfl_xor_sync(0xffffffffU, x, lane);
    x = other > x ? other : x;
  }
  return x;
}
/// The sum over a block of whole warps, in every thread.
template <typename T>
__device__ T block_sum(T x) {
  __shared__ T part[kWarp];
  const int warps = static_cast<int>(blockDim.x) / kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  x = warp_sum(x);
  __syncthreads();  // of an earlier sum's readers
  if (threadIdx.x % kWarp == 0) part[warp] = x;
  __syncthreads();
  T total = 0;
  for (int i = 0; i < warps; ++i) total += part[i];
  return total;
}

}  // namespace troupe_cuda
