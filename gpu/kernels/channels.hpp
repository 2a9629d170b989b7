#pragma once
// Passes over [segments, rows, cols] where elements of a column belong together, e.g. the channels of the pixels of
// each image, and sums over the rows of a segment. A thread keeps its few columns for all rows that it walks: what
// belongs to a column is loaded once, and no index is divided. Neighbours in a block touch neighbours in memory.
#include <cstddef>

#include <troupe/gpu/kernels/kernel.hpp>
#include <troupe/gpu/kernels/lanes.hpp>

namespace troupe_cuda {

struct Rows {
  std::int64_t segments, rows, cols;  // rows of each segment
};
inline Rows rows_of(const Operand& operand) { return {1, operand.rows, operand.cols}; }

/// Where a thread is: row is of all segments, and element = row * cols + column.
struct Spot {
  std::int64_t segment, row, column, element;
};

/// What f loads once for its columns, if it does: `template <int N> ... columns(Spot) const`.
struct Nothing {};
template <int N, typename F>
__device__ auto columns_of(const F& f, const Spot& at) {
  if constexpr (requires { f.template columns<N>(at); }) {
    return f.template columns<N>(at);
  } else {
    return Nothing{};
  }
}

/// How the threads of a block lie over rows and columns.
struct Tiling {
  std::int64_t tiles;  // of columns: as many blocks side by side
  int width;           // threads that a tile is wide
  int depth() const { return kThreads / width; }
};
inline Tiling tiling(std::int64_t cols, int lanes) {
  const std::int64_t threads = cols / lanes, tiles = (threads + kThreads - 1) / kThreads;
  return {tiles, static_cast<int>((threads + tiles - 1) / tiles)};
}
/// The same seen from a thread, which may have nothing to do.
struct Thread {
  int row;  // within the block
  int rows;
  std::int64_t column;
  bool active;
};
template <int N>
__device__ Thread thread_of(const Rows& shape, int width) {
  const int at = static_cast<int>(threadIdx.x), rows = static_cast<int>(blockDim.x) / width;
  const std::int64_t column = (std::int64_t{blockIdx.y} * width + at % width) * N;
  return {at / width, rows, column, at / width < rows && column < shape.cols};
}

inline unsigned grid_segments(const Rows& shape) {  // kernels stride over the rest
  return static_cast<unsigned>(shape.segments < 65535 ? shape.segments : 65535);
}

// ---- element by element ----

template <int N, typename F>
__global__ void over_rows_kernel(Rows shape, int width, F f) {
  const Thread thread = thread_of<N>(shape, width);
  if (!thread.active) return;
  const std::int64_t stride = std::int64_t{gridDim.x} * thread.rows;
  for (std::int64_t segment = blockIdx.z; segment < shape.segments; segment += gridDim.z) {
    Spot at{segment, 0, thread.column, 0};
    const auto columns = columns_of<N>(f, at);
    for (std::int64_t row = std::int64_t{blockIdx.x} * thread.rows + thread.row; row < shape.rows; row += stride) {
      at.row = segment * shape.rows + row;
      at.element = at.row * shape.cols + at.column;
      f.template row<N>(columns, at);
    }
  }
}
template <int N, typename F>
cudaError_t over_rows_by(cudaStream_t stream, const Rows& shape, F f) {
  const Tiling t = tiling(shape.cols, N);
  const std::int64_t by_rows = (shape.rows + t.depth() - 1) / t.depth();
  const std::int64_t most = kMaxBlocks / (t.tiles * grid_segments(shape));
  const std::int64_t blocks = by_rows < most ? by_rows : most < 1 ? 1 : most;
  return launch(over_rows_kernel<N, F>,
                dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(t.tiles), grid_segments(shape)), kThreads,
                stream, shape, t.width, f);
}
/// f.row<N>(columns, spot) for each row by the thread of its N columns; `columns` is what f.columns<N>(spot) returned
/// for the segment, or Nothing. is_wide: what wide() says of all that f touches.
template <typename F>
cudaError_t over_rows(cudaStream_t stream, const Rows& shape, bool is_wide, F f) {
  if (shape.segments == 0 || shape.rows == 0 || shape.cols == 0) return cudaSuccess;
  return is_wide ? over_rows_by<kLanes>(stream, shape, f) : over_rows_by<1>(stream, shape, f);
}

// ---- sums over rows ----

/// The rows of a segment are summed in so many parts, which are then added up.
struct Chunks {
  std::int64_t count, rows;
};
/// It follows from the shape alone, so the same sum has the same bits everywhere. Four blocks for each processor of the
/// largest devices keep these busy; more would only make more parts to add up.
constexpr int kSumBlocksOfProcessor = 4;
constexpr std::int64_t kSumBlocks = 132 * kSumBlocksOfProcessor;
inline Chunks chunks_of(const Rows& shape, std::int64_t most = kSumBlocks) {
  constexpr std::int64_t kLeastRows = 16, kLeastRowsOfThread = 4;
  if (shape.segments == 0 || shape.cols == 0) return {1, shape.rows};
  const Tiling t = tiling(shape.cols, shape.cols % kLanes == 0 ? kLanes : 1);
  const std::int64_t by_threads = kLeastRowsOfThread * t.depth();
  const std::int64_t least = by_threads < kLeastRows ? kLeastRows : by_threads;
  const std::int64_t by_rows = (shape.rows + least - 1) / least, by_blocks = kSumBlocks / (t.tiles * shape.segments);
  std::int64_t count = by_rows < by_blocks ? by_rows : by_blocks;
  count = count > most ? most : count < 1 ? 1 : count;
  return {count, (shape.rows + count - 1) / count};
}
inline std::size_t chunk_bytes(const Rows& shape, const Chunks& chunks, int sums) {
  return chunks.count == 1
             ? 0
             : static_cast<std::size_t>(shape.segments * chunks.count * sums * shape.cols) * sizeof(float);
}

/// To `parts` [segments, chunks, sums, cols], or to f.put() where it is null.
template <int N, typename F>
__global__ void __launch_bounds__(kThreads, kSumBlocksOfProcessor)
    sum_chunks_kernel(Rows shape, std::int64_t counted, Chunks chunks, int width, float* parts, F f) {
  __shared__ Lanes<N> shared[F::kSums][kThreads];
  const Thread thread = thread_of<N>(shape, width);
  const int self = static_cast<int>(threadIdx.x);
  int half = 1;
  while (2 * half < thread.rows) half *= 2;
  const std::int64_t begin = std::int64_t{blockIdx.x} * chunks.rows;
  const std::int64_t end = begin + chunks.rows < counted ? begin + chunks.rows : counted;
  for (std::int64_t segment = blockIdx.z; segment < shape.segments; segment += gridDim.z) {
    Lanes<N> sums[F::kSums];
    for (int s = 0; s < F::kSums; ++s) sums[s] = all<N>(0);
    Spot at{segment, 0, thread.column, 0};
    if (thread.active) {
      const auto spot = [&](std::int64_t row) {
        const std::int64_t of_all = segment * shape.rows + row;
        return Spot{segment, of_all, thread.column, of_all * shape.cols + thread.column};
      };
      const auto columns = columns_of<N>(f, at);
      for (std::int64_t row = begin + thread.row; row < end; row += F::kAhead * thread.rows) {
        // Some rows are loaded before the first is used: f may store, and the compiler moves no load before that.
        decltype(f.template load<N>(at)) loaded[F::kAhead] = {};
        for (int k = 0; k < F::kAhead; ++k) {
          if (row + k * thread.rows < end) loaded[k] = f.template load<N>(spot(row + k * thread.rows));
        }
        for (int k = 0; k < F::kAhead; ++k) {
          if (row + k * thread.rows < end) f.template add<N>(columns, spot(row + k * thread.rows), loaded[k], sums);
        }
      }
    }
    for (int s = 0; s < F::kSums; ++s) shared[s][self] = sums[s];
    for (int step = half; step > 0; step /= 2) {
      __syncthreads();
      if (thread.row < step && thread.row + step < thread.rows) {
        for (int s = 0; s < F::kSums; ++s) shared[s][self] = shared[s][self] + shared[s][self + step * width];
      }
    }
    if (thread.active && thread.row == 0) {
      for (int s = 0; s < F::kSums; ++s) sums[s] = shared[s][self];
      if (parts == nullptr) {
        f.template put<N>(at, sums);
      } else {
        const std::int64_t part = (segment * chunks.count + blockIdx.x) * F::kSums;
        for (int s = 0; s < F::kSums; ++s) store_lanes(sums[s], parts, (part + s) * shape.cols + thread.column);
      }
    }
    __syncthreads();  // before the next segment's sums overwrite these
  }
}
template <int N, typename F>
cudaError_t sum_chunks_by(cudaStream_t stream, const Rows& shape, std::int64_t counted, const Chunks& chunks,
                          float* parts, F f) {
  const Tiling t = tiling(shape.cols, N);
  return launch(sum_chunks_kernel<N, F>,
                dim3(static_cast<unsigned>(chunks.count), static_cast<unsigned>(t.tiles), grid_segments(shape)),
                kThreads, stream, shape, counted, chunks, t.width, parts, f);
}
/// The first pass alone. Of each segment's rows, the first `counted` count; parts is null for a single chunk.
template <typename F>
cudaError_t sum_chunks(cudaStream_t stream, const Rows& shape, std::int64_t counted, const Chunks& chunks, bool is_wide,
                       float* parts, F f) {
  return is_wide ? sum_chunks_by<kLanes>(stream, shape, counted, chunks, parts, f)
                 : sum_chunks_by<1>(stream, shape, counted, chunks, parts, f);
}

constexpr int kFoldColumns = 32, kFoldDepth = 32, kFoldThreads = kFoldColumns * kFoldDepth;
template <typename F>
__global__ void __launch_bounds__(kFoldThreads)
    add_chunks_kernel(Rows shape, std::int64_t chunks, const float* parts, F f) {
  __shared__ float shared[F::kSums][kFoldDepth][kFoldColumns];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y), depth = static_cast<int>(blockDim.y);
  const std::int64_t column = std::int64_t{blockIdx.x} * kFoldColumns + x;
  for (std::int64_t segment = blockIdx.z; segment < shape.segments; segment += gridDim.z) {
    Lanes<1> sums[F::kSums];
    for (int s = 0; s < F::kSums; ++s) sums[s] = all<1>(0);
    for (std::int64_t chunk = y; chunk < chunks && column < shape.cols; chunk += depth) {
      const std::int64_t part = (segment * chunks + chunk) * F::kSums;
      for (int s = 0; s < F::kSums; ++s) sums[s].v[0] += parts[(part + s) * shape.cols + column];
    }
    for (int s = 0; s < F::kSums; ++s) shared[s][y][x] = sums[s].v[0];
    __syncthreads();
    if (y == 0 && column < shape.cols) {
      for (int s = 0; s < F::kSums; ++s) {
        for (int other = 1; other < depth; ++other) sums[s].v[0] += shared[s][other][x];
      }
      f.template put<1>(Spot{segment, 0, column, 0}, sums);
    }
    __syncthreads();
  }
}

/// Sums over the first `counted` rows of each segment, for each column. F has
///   static constexpr int kSums, kAhead: how many sums; how many rows to load before the first is used,
///   load<N>(spot) const: what add() needs of a row,
///   add<N>(columns, spot, loaded, Lanes<N>* sums) const: which may store what belongs to these elements, also over
///   what
///     was loaded; `columns` as in over_rows(),
///   put<N>(spot, const Lanes<N>* sums) const: called once for each segment and column; spot without row.
/// workspace: segment_sums_bytes() of it.
template <typename F>
cudaError_t segment_sums(cudaStream_t stream, const Rows& shape, std::int64_t counted, bool is_wide, void* workspace,
                         F f) {
  if (shape.segments == 0 || shape.cols == 0) return cudaSuccess;
  const Chunks chunks = chunks_of(shape);
  float* const parts = chunks.count == 1 ? nullptr : static_cast<float*>(workspace);
  const cudaError_t error = sum_chunks(stream, shape, counted, chunks, is_wide, parts, f);
  if (error != cudaSuccess || chunks.count == 1) return error;
  const std::int64_t blocks = (shape.cols + kFoldColumns - 1) / kFoldColumns;
  const std::int64_t depth = chunks.count < kFoldDepth ? chunks.count : kFoldDepth;
  return launch(add_chunks_kernel<F>, dim3(static_cast<unsigned>(blocks), 1, grid_segments(shape)),
                dim3(kFoldColumns, static_cast<unsigned>(depth)), stream, shape, chunks.count,
                static_cast<const float*>(parts), f);
}
inline std::size_t segment_sums_bytes(const Rows& shape, int sums) {
  return chunk_bytes(shape, chunks_of(shape), sums);
}

}  // namespace troupe_cuda
