#pragma once
// What the kernels of small products share (tiled_product.cu, tensor_product.cu): a block computes a tile of c, its
// groups of threads each add up a part of every sum, and in the end the groups' sums are added up in the order of their
// numbers, so that the bits depend on the tiling and k alone.
#include <cuda_runtime.h>

#include <cstdint>

#include <troupe/gpu/kernels/activation.hpp>

namespace troupe_cuda {

/// c[m, n] = op(a) op(b), or with a bias activation(. + bias). All counts fit an int, see can_tile().
struct TiledOperands {
  const float *a, *b, *bias;
  float* c;
  int m, n, k;
  bool transpose_a, transpose_b;
  int activation;
};

/// Puts a block's tile of c out. sums: [groups, M, N] in shared memory, complete.
template <int M, int N, int Groups, int Threads>
__device__ void put_tile(const TiledOperands& p, const float* sums, int first_row, int first_col) {
  for (int e = static_cast<int>(threadIdx.x); e < M * N; e += Threads) {
    const int row = first_row + e / N, col = first_col + e % N;
    if (row >= p.m || col >= p.n) continue;
    float sum = sums[e];
    for (int g = 1; g < Groups; ++g) sum += sums[g * M * N + e];
    if (p.bias != nullptr) {
      sum = by_activation(p.activation, [&](auto of) { return decltype(of)::forward(sum + p.bias[col]); });
    }
    p.c[std::int64_t{row} * p.n + col] = sum;
  }
}

/// The blocks for a product: a tile of M x N each.
template <int M, int N>
dim3 blocks_of_tiles(const TiledOperands& p) {
  return {static_cast<unsigned>((p.n + N - 1) / N), static_cast<unsigned>((p.m + M - 1) / M)};
}

}  // namespace troupe_cuda
