#pragma once
// Kernels that work on a row by a warp, a few rows in each block; or on a long one by a block.
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

/// The threads of a row: a warp of a block that has several rows, or a block.
template <int N>
struct RowTeam {
  static constexpr int kSize = N;
  int lane;
  template <typename T>
  __device__ T sum(T x) const {
    if constexpr (N == kWarp) {
      return warp_sum(x);
    } else {
      return block_sum(x);
    }
  }
};
constexpr int kLongRowThreads = 128;

template <typename F>
__global__ void __launch_bounds__(kLongRowThreads) for_each_long_row_kernel(std::int64_t rows, F f) {
  const RowTeam<kLongRowThreads> team{static_cast<int>(threadIdx.x)};
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) f(row, team);
}
/// f(row, team) by all threads of a team for each row: `[=] __device__(std::int64_t row, auto team) { ... }`.
template <typename F>
cudaError_t for_each_row_of(cudaStream_t stream, std::int64_t rows, std::int64_t cols, F f) {
  if (cols < kLongRowThreads) {
    return for_each_row(stream, rows, [=] __device__(std::int64_t row, int lane) { f(row, RowTeam<kWarp>{lane}); });
  }
  if (rows == 0) return cudaSuccess;
  return launch(for_each_long_row_kernel<F>, blocks_for(rows, 1), kLongRowThreads, stream, rows, f);
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
template <int N, typename G, typename U>
__device__ void over_row(RowTeam<N> team, std::int64_t cols, G fetch, U use) {
  fetch_ahead(team.lane, cols, N, fetch, use);
}
/// The sum of value(i) over a row, in every lane.
template <typename G>
__device__ float row_sum(int lane, std::int64_t cols, G value) {
  float sum = 0;
  over_row(lane, cols, value, [&](std::int64_t, float x) { sum += x; });
  return warp_sum(sum);
}

}  // namespace troupe_cuda
