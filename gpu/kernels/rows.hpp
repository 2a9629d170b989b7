#pragma once
// Kernels that work on a row by a warp: short rows, a few of them in each block.
#include <cuda_runtime.h>

#include <cstdint>

#include <troupe/gpu/kernels/launch.hpp>
#include <troupe/gpu/kernels/reduce.hpp>

namespace troupe_cuda {

constexpr int kBlockRows = 4;

template <typename F>
__global__ void for_each_row_kernel(std::int64_t rows, F f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t stride = std::int64_t{gridDim.x} * kBlockRows;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kBlockRows + threadIdx.x / kWarp; row < rows; row += stride) {
    f(row, lane);
  }
}
/// f(row, lane) by all lanes of a warp for each row: `[=] __device__(std::int64_t row, int lane) { ... }`.
template <typename F>
cudaError_t for_each_row(cudaStream_t stream, std::int64_t rows, F f) {
  if (rows == 0) return cudaSuccess;
  return launch(for_each_row_kernel<F>, blocks_for(rows, kBlockRows), kBlockRows * kWarp, stream, rows, f);
}

/// use(i, fetch(i)) for i = first, first + step, ... below end, in this order. Fetches run a few ahead: the compiler
/// would not move them before a store, which may go to the same memory. So no fetch may need what `use` has stored.
template <typename G, typename U>
__device__ void fetch_ahead(std::int64_t first, std::int64_t end, int step, G fetch, U use) {
  constexpr int kAhead = 4;
  decltype(fetch(first)) ahead[kAhead] = {};
  for (std::int64_t i = first; i < end; i += kAhead * step) {
    for (int k = 0; k < kAhead; ++k) {
      if (i + k * step < end) ahead[k] = fetch(i + k * step);
    }
    for (int k = 0; k < kAhead; ++k) {
      if (i + k * step < end) use(i + k * step, ahead[k]);
    }
  }
}
/// The lane's share of a row: fetch_ahead() for its columns.
template <typename G, typename U>
__device__ void over_row(int lane, std::int64_t cols, G fetch, U use) {
  fetch_ahead(lane, cols, kWarp, fetch, use);
}
/// The sum of value(i) over a row, in every lane.
template <typename G>
__device__ float row_sum(int lane, std::int64_t cols, G value) {
  float sum = 0;
  over_row(lane, cols, value, [&](std::int64_t, float x) { sum += x; });
  return warp_sum(sum);
}

}  // namespace troupe_cuda
