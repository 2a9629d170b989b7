#pragma once
// Sums over the rows of a matrix, for each column: gradients of biases and gains. Tall matrices are cut into chunks of
// rows, whose sums go to the workspace and are added up by the same kernel, so the order is always the same.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include <troupe/gpu/kernels/launch.hpp>
#include <troupe/gpu/kernels/rows.hpp>

namespace troupe_cuda {

constexpr int kColumnTile = kWarp;  // columns of a block
constexpr int kRowLanes = 16;       // rows that a block walks side by side

/// Where the sums of each column go; those that are null are left out.
template <int K>
struct ColumnSums {
  float* sum[K];
};

/// F: a struct with `Loaded load(row, col) const` and `void add(row, col, Loaded, float* sums) const`. They are called
/// once for each element, by one thread, so `add` may write what belongs to the element, and over what was loaded.
template <int K, typename F>
__global__ void column_sums_kernel(std::int64_t rows, std::int64_t cols, std::int64_t chunk, F f, ColumnSums<K> out) {
  static_assert(K <= kRowLanes);
  __shared__ float part[K][kRowLanes][kColumnTile];
  const int lane = static_cast<int>(threadIdx.x) % kColumnTile, row_lane = static_cast<int>(threadIdx.x) / kColumnTile;
  const std::int64_t col = std::int64_t{blockIdx.x} * kColumnTile + lane, begin = std::int64_t{blockIdx.y} * chunk;
  const std::int64_t end = begin + chunk < rows ? begin + chunk : rows;
  float sums[K] = {};
  if (col < cols) {
    fetch_ahead(
        begin + row_lane, end, kRowLanes, [&](std::int64_t row) { return f.load(row, col); },
        [&](std::int64_t row, const auto& loaded) { f.add(row, col, loaded, sums); });
  }
  for (int k = 0; k < K; ++k) part[k][row_lane][lane] = sums[k];
  __syncthreads();
  if (row_lane >= K || col >= cols || out.sum[row_lane] == nullptr) return;
  float total = 0;
  for (int i = 0; i < kRowLanes; ++i) total += part[row_lane][i][lane];
  out.sum[row_lane][std::int64_t{blockIdx.y} * cols + col] = total;
}

/// The sums of the chunks as a matrix of their own.
template <int K>
struct ChunkSums {
  ColumnSums<K> part;
  std::int64_t cols;

  struct Loaded {
    float value[K];
  };
  __device__ Loaded load(std::int64_t row, std::int64_t col) const {
    Loaded loaded;
    for (int k = 0; k < K; ++k) loaded.value[k] = part.sum[k] == nullptr ? 0 : part.sum[k][row * cols + col];
    return loaded;
  }
  __device__ void add(std::int64_t, std::int64_t, const Loaded& loaded, float* sums) const {
    for (int k = 0; k < K; ++k) sums[k] += loaded.value[k];
  }
};

inline unsigned column_tiles(std::int64_t cols) {
  return static_cast<unsigned>((cols + kColumnTile - 1) / kColumnTile);
}
/// Up to 1024 rows a second pass would cost more than it saves; above, blocks enough for the largest devices.
inline std::int64_t column_chunks(std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kChunk = 256, kSinglePass = 1024, kBlocks = 1024;
  if (rows <= kSinglePass) return 1;
  const std::int64_t by_rows = (rows + kChunk - 1) / kChunk, by_blocks = kBlocks / column_tiles(cols);
  return by_rows < by_blocks ? by_rows : by_blocks < 1 ? 1 : by_blocks;
}
/// Bytes of workspace for K sums.
inline std::size_t column_sums_bytes(std::int64_t rows, std::int64_t cols, int sums) {
  const std::int64_t chunks = column_chunks(rows, cols);
  return chunks == 1 ? 0 : static_cast<std::size_t>(chunks * cols * sums) * sizeof(float);
}

template <int K, typename F>
cudaError_t column_sums(cudaStream_t stream, std::int64_t rows, std::int64_t cols, F f, ColumnSums<K> out,
                        float* workspace) {
  const std::int64_t chunks = column_chunks(rows, cols);
  const unsigned tiles = column_tiles(cols), threads = kRowLanes * kColumnTile;
  if (tiles == 0) return cudaSuccess;
  if (chunks == 1) return launch(column_sums_kernel<K, F>, tiles, threads, stream, rows, cols, rows, f, out);
  ColumnSums<K> part;
  for (int k = 0; k < K; ++k) part.sum[k] = out.sum[k] == nullptr ? nullptr : workspace + k * chunks * cols;
  const cudaError_t error = launch(column_sums_kernel<K, F>, dim3(tiles, static_cast<unsigned>(chunks)), threads,
                                   stream, rows, cols, (rows + chunks - 1) / chunks, f, part);
  if (error != cudaSuccess) return error;
  return launch(column_sums_kernel<K, ChunkSums<K>>, tiles, threads, stream, chunks, cols, chunks,
                ChunkSums<K>{part, cols}, out);
}

}  // namespace troupe_cuda
