// Spectral norm: a step of the power iteration, and the weight over its largest singular value. There are many such
// layers with small weights, so what counts is the number of launches: two for each operation.
#include <cmath>

#include <troupe/gpu/kernels/channels.hpp>
#include <troupe/gpu/kernels/reduce.hpp>
#include <troupe/gpu/kernels/spectral_norm.hpp>

namespace troupe_cuda {
namespace {

// ---- weight^T vector or weight vector, over its length ----

/// A block adds up the parts [parts, count] of a vector, which may be `out` itself, and divides by the length.
__global__ void __launch_bounds__(1024)
    to_unit_kernel(const float* vectors, std::int64_t parts, std::int64_t count, float least, float* out) {
  float squares = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    float value = 0;
    for (std::int64_t part = 0; part < parts; ++part) value += vectors[part * count + i];
    out[i] = value;
    squares += value * value;
  }
  const float length = sqrtf(block_sum(squares)), inverse = 1 / (length < least ? least : length);
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) out[i] *= inverse;
}

/// Each row times the vector, by a warp.
__global__ void row_products_kernel(const float* weight, const float* vector, std::int64_t rows, std::int64_t cols,
                                    float* out) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warps = static_cast<int>(blockDim.x) / kWarp;
  const std::int64_t stride = std::int64_t{gridDim.x} * warps;
  for (std::int64_t row = std::int64_t{blockIdx.x} * warps + threadIdx.x / kWarp; row < rows; row += stride) {
    float sum = 0;
    for (std::int64_t i = lane; i < cols; i += kWarp) sum += weight[row * cols + i] * vector[i];
    sum = warp_sum(sum);
    if (lane == 0) out[row] = sum;
  }
}

/// The sum of the rows, each times its entry of the vector.
struct ColumnProducts {
  static constexpr int kSums = 1, kAhead = 4;
  const float *weight, *vector;
  float* out;

  template <int N>
  __device__ Lanes<N> load(const Spot& at) const {
    return vector[at.row] * load_lanes<N>(weight, at.element);
  }
  template <int N>
  __device__ void add(Nothing, const Spot&, const Lanes<N>& of, Lanes<N>* sums) const {
    sums[0] = sums[0] + of;
  }
  template <int N>
  __device__ void put(const Spot& at, const Lanes<N>* sums) const {
    store_lanes(sums[0], out, at.column);
  }
};

/// So few that one block soon adds them up.
constexpr std::int64_t kDirectionChunks = 32;

// ---- the weight over sigma ----

/// Partial sums of f.term<N>(spot) over all elements, one of each block.
template <int N, typename F>
__global__ void partial_sums_kernel(Rows shape, int width, float* parts, F f) {
  const Thread thread = thread_of<N>(shape, width);
  const std::int64_t stride = std::int64_t{gridDim.x} * thread.rows;
  float sum = 0;
  if (thread.active) {
    for (std::int64_t row = std::int64_t{blockIdx.x} * thread.rows + thread.row; row < shape.rows; row += stride) {
      const Lanes<N> term = f.template term<N>(Spot{0, row, thread.column, row * shape.cols + thread.column});
      for (int j = 0; j < N; ++j) sum += term.v[j];
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) parts[std::int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = sum;
}
/// f.row<N>(total, spot) for all elements, once each block has added up the parts; the first also tells f.total(total).
template <int N, typename F>
__global__ void with_total_kernel(Rows shape, int width, const float* parts, int count, F f) {
  float part = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) part += parts[i];
  const float total = block_sum(part);
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) f.total(total);
  const Thread thread = thread_of<N>(shape, width);
  if (!thread.active) return;
  const std::int64_t stride = std::int64_t{gridDim.x} * thread.rows;
  for (std::int64_t row = std::int64_t{blockIdx.x} * thread.rows + thread.row; row < shape.rows; row += stride) {
    f.template row<N>(total, Spot{0, row, thread.column, row * shape.cols + thread.column});
  }
}

/// Blocks of the first pass: enough for the largest devices, and as many parts as threads of a block of the second.
constexpr std::int64_t kParts = kThreads;
dim3 part_blocks(const Rows& shape, int lanes) {
  const Tiling t = tiling(shape.cols, lanes);
  const std::int64_t by_rows = (shape.rows + t.depth() - 1) / t.depth(), most = t.tiles < kParts ? kParts / t.tiles : 1;
  return {static_cast<unsigned>(by_rows < most ? by_rows : most), static_cast<unsigned>(t.tiles)};
}
template <int N, typename F>
cudaError_t by_total_of(cudaStream_t stream, const Rows& shape, float* parts, F f) {
  const int width = tiling(shape.cols, N).width;
  const dim3 blocks = part_blocks(shape, N);
  const cudaError_t error = launch(partial_sums_kernel<N, F>, blocks, kThreads, stream, shape, width, parts, f);
  if (error != cudaSuccess) return error;
  return launch(with_total_kernel<N, F>, blocks, kThreads, stream, shape, width, static_cast<const float*>(parts),
                static_cast<int>(blocks.x * blocks.y), f);
}
template <typename F>
cudaError_t by_total(cudaStream_t stream, const Rows& shape, bool is_wide, void* workspace, F f) {
  if (shape.rows == 0 || shape.cols == 0) return cudaErrorInvalidValue;
  float* const parts = static_cast<float*>(workspace);
  return is_wide ? by_total_of<kLanes>(stream, shape, parts, f) : by_total_of<1>(stream, shape, parts, f);
}

struct Scale {
  const float *weight, *v, *u;
  float *out, *sigma;  // each may be null

  template <int N>
  __device__ Lanes<N> term(const Spot& at) const {
    return v[at.row] * load_lanes<N>(weight, at.element) * load_lanes<N>(u, at.column);
  }
  __device__ void total(float value) const {
    if (sigma != nullptr) *sigma = value;
  }
  template <int N>
  __device__ void row(float value, const Spot& at) const {
    if (out != nullptr) store_lanes(1 / value * load_lanes<N>(weight, at.element), out, at.element);
  }
};

struct ScaleGrad {
  const float *g, *scaled, *v, *u, *sigma;
  float* out;

  template <int N>
  __device__ Lanes<N> term(const Spot& at) const {
    return load_lanes<N>(g, at.element) * load_lanes<N>(scaled, at.element);
  }
  __device__ void total(float) const {}
  template <int N>
  __device__ void row(float product, const Spot& at) const {
    const Lanes<N> along = product * v[at.row] * load_lanes<N>(u, at.column);
    store_lanes(1 / *sigma * (load_lanes<N>(g, at.element) - along), out, at.element);
  }
};

}  // namespace

/// in: weight [in, out], a vector; real[0]: the least length; integer[0]: transposed.
cudaError_t direction(const Call& call, cudaStream_t stream) {
  const Operand &weight = call.in[0], &from = call.in[1], &to = call.out[0];
  float* const out = data<float>(to);
  const float* parts = out;
  Chunks chunks{1, weight.rows};
  cudaError_t error = cudaSuccess;
  if (elements(weight) == 0) return cudaErrorInvalidValue;
  if (call.integer[0] != 0) {
    chunks = chunks_of(rows_of(weight), kDirectionChunks);
    float* const made = chunks.count == 1 ? nullptr : static_cast<float*>(call.workspace);
    if (made != nullptr) parts = made;
    error = sum_chunks(stream, rows_of(weight), weight.rows, chunks, wide(weight.cols, {weight.data, out}), made,
                       ColumnProducts{data<float>(weight), data<float>(from), out});
  } else {
    error = launch(row_products_kernel, blocks_for(weight.rows, kThreads / kWarp), kThreads, stream,
                   data<const float>(weight), data<const float>(from), weight.rows, weight.cols, out);
  }
  if (error != cudaSuccess) return error;
  return launch(to_unit_kernel, 1, 1024, stream, parts, chunks.count, elements(to), static_cast<float>(call.real[0]),
                out);
}
std::size_t direction_bytes(const Call& call) {
  const Rows shape = rows_of(call.in[0]);
  return call.integer[0] == 0 ? 0 : chunk_bytes(shape, chunks_of(shape, kDirectionChunks), 1);
}

/// in: weight, v [in], u [out]; out: weight / sigma, sigma = v^T weight u.
cudaError_t spectral_scale(const Call& call, cudaStream_t stream) {
  const Operand &weight = call.in[0], &u = call.in[2], &out = call.out[0];
  return by_total(
      stream, rows_of(weight), wide(weight.cols, {weight.data, u.data, out.data}), call.workspace,
      Scale{data<float>(weight), data<float>(call.in[1]), data<float>(u), data<float>(out), data<float>(call.out[1])});
}
/// in: gradient of weight / sigma, weight / sigma, v, u, sigma; out: (g - <g, weight / sigma> v u^T) / sigma.
cudaError_t spectral_scale_grad(const Call& call, cudaStream_t stream) {
  const Operand &g = call.in[0], &scaled = call.in[1], &u = call.in[3], &out = call.out[0];
  return by_total(stream, rows_of(g), wide(g.cols, {g.data, scaled.data, u.data, out.data}), call.workspace,
                  ScaleGrad{data<float>(g), data<float>(scaled), data<float>(call.in[2]), data<float>(u),
                            data<float>(call.in[4]), data<float>(out)});
}
std::size_t spectral_scale_bytes(const Call& call) {
  // Whichever addresses the call will have.
  std::size_t parts = 0;
  for (const int lanes : {1, kLanes}) {
    if (elements(call.in[0]) == 0 || call.in[0].cols % lanes != 0) continue;
    const dim3 blocks = part_blocks(rows_of(call.in[0]), lanes);
    parts = blocks.x * blocks.y > parts ? std::size_t{blocks.x} * blocks.y : parts;
  }
  return parts * sizeof(float);
}

}  // namespace troupe_cuda
