// What is made of a convolution's weight before it convolves: the order that cuDNN wants, and the 4x4 kernel that a 3x3
// one and a 2x2 box make together (learner/ops/convolution.cpp). Both exchange two dimensions of large weights, which
// goes through tiles in shared memory, so that reads and writes are of neighbours.
#include <troupe/gpu/kernels/image.hpp>
#include <troupe/gpu/kernels/launch.hpp>
#include <troupe/gpu/kernels/operands.hpp>

namespace troupe_cuda {
namespace {

constexpr int kTile = 32, kTileThreads = 256;

template <typename F>
__global__ void transpose_kernel(std::int64_t rows, std::int64_t cols, F f) {
  __shared__ float tile[kTile][kTile + 1];  // one more, so that a column lies in as many banks as a row
  const int x = static_cast<int>(threadIdx.x) % kTile, first = static_cast<int>(threadIdx.x) / kTile;
  const std::int64_t top = std::int64_t{blockIdx.y} * kTile, left = std::int64_t{blockIdx.x} * kTile;
  const int matrix = static_cast<int>(blockIdx.z);
  for (int y = first; y < kTile; y += kTileThreads / kTile) {
    if (top + y < rows && left + x < cols) tile[y][x] = f.from(matrix, top + y, left + x);
  }
  __syncthreads();
  for (int y = first; y < kTile; y += kTileThreads / kTile) {
    if (top + x < rows && left + y < cols) f.to(matrix, top + x, left + y, tile[x][y]);
  }
}
/// f.to(matrix, row, column, f.from(matrix, row, column)) for all: `from` by neighbours of a row, `to` of a column.
template <typename F>
cudaError_t transpose(cudaStream_t stream, std::int64_t matrices, std::int64_t rows, std::int64_t cols, F f) {
  if (matrices == 0 || rows == 0 || cols == 0) return cudaSuccess;
  const dim3 blocks(static_cast<unsigned>((cols + kTile - 1) / kTile),
                    static_cast<unsigned>((rows + kTile - 1) / kTile), static_cast<unsigned>(matrices));
  return launch(transpose_kernel<F>, blocks, kTileThreads, stream, rows, cols, f);
}

/// [taps, in, out] -> [out, taps, in].
template <typename S>
struct PackWeight {
  const float* weight;
  S* packed;
  std::int64_t taps, in, out;

  __device__ float from(int tap, std::int64_t i, std::int64_t o) const { return weight[(tap * in + i) * out + o]; }
  __device__ void to(int tap, std::int64_t i, std::int64_t o, float value) const {
    store(packed, (o * taps + tap) * in + i, value);
  }
};

/// The taps of the 4x4 kernel are those of the 3x3 one at four offsets. Where the convolution is transposed, they are
/// mirrored, and a tap is [out, in] instead of [in, out].
struct Box {
  const float* source;
  float* target;
  float factor;
  std::int64_t in, out;
  bool transposed;

  explicit Box(const Call& call)
      : source(data<const float>(call.in[0])),
        target(data<float>(call.out[0])),
        factor(static_cast<float>(call.real[0])),
        in(call.shape.dims[2]),
        out(call.shape.dims[3]),
        transposed(call.integer[0] != 0) {}

  /// Of tap `tap` of the 4x4 kernel, from the taps of the 3x3 one; `at` in its matrix [in, out].
  __device__ float spread(int tap, std::int64_t at) const {
    const int walked = transposed ? 15 - tap : tap, i = walked / 4, j = walked % 4;
    float sum = 0;
    for (int k = i < 1 ? 0 : i - 1; k <= (i < 2 ? i : 2); ++k) {
      for (int l = j < 1 ? 0 : j - 1; l <= (j < 2 ? j : 2); ++l) sum += factor * source[(k * 3 + l) * in * out + at];
    }
    return sum;
  }
  /// Of tap `tap` of the 3x3 kernel, from gradients of the 4x4 one; `at` in a matrix of this.
  __device__ float gather(int tap, std::int64_t at) const {
    const int k = tap / 3, l = tap % 3;
    float sum = 0;
    for (int i = k; i <= k + 1; ++i) {
      for (int j = l; j <= l + 1; ++j) {
        sum += factor * source[(transposed ? 15 - (i * 4 + j) : i * 4 + j) * in * out + at];
      }
    }
    return sum;
  }
};
struct Spread : Box {
  using Box::Box;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t tap = i / (in * out);
    target[i] = spread(static_cast<int>(tap), i - tap * in * out);
  }
  // transposed: rows of `in`, columns of `out`
  __device__ float from(int tap, std::int64_t i, std::int64_t o) const { return spread(tap, i * out + o); }
  __device__ void to(int tap, std::int64_t i, std::int64_t o, float value) const {
    target[tap * in * out + o * in + i] = value;
  }
};
struct Gather : Box {
  using Box::Box;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t tap = i / (in * out);
    target[i] = gather(static_cast<int>(tap), i - tap * in * out);
  }
  // transposed: rows of `out`, columns of `in`
  __device__ float from(int tap, std::int64_t o, std::int64_t i) const { return gather(tap, o * in + i); }
  __device__ void to(int tap, std::int64_t o, std::int64_t i, float value) const {
    target[tap * in * out + i * out + o] = value;
  }
};

}  // namespace

cudaError_t box_kernel(const Call& call, cudaStream_t stream) {
  const Spread box(call);
  return box.transposed ? transpose(stream, 16, box.in, box.out, box) : for_each(stream, 16 * box.in * box.out, box);
}
cudaError_t box_kernel_grad(const Call& call, cudaStream_t stream) {
  const Gather box(call);
  return box.transposed ? transpose(stream, 9, box.out, box.in, box) : for_each(stream, 9 * box.in * box.out, box);
}

cudaError_t pack_weight(const Call& call, cudaStream_t stream) {
  const Operand &weight = call.in[0], &packed = call.out[0];
  if (!is_f32(weight) || !is_storage(packed.dtype) || weight.shape.rank != 4) return cudaErrorInvalidValue;
  const std::int64_t* const dims = weight.shape.dims;
  return with_storage(packed.dtype, [&](auto to) {
    using S = decltype(to);
    const std::int64_t taps = dims[0] * dims[1];
    return transpose(stream, taps, dims[2], dims[3],
                     PackWeight<S>{data<const float>(weight), data<S>(packed), taps, dims[2], dims[3]});
  });
}

}  // namespace troupe_cuda
