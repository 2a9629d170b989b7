#include <troupe/gpu/cudnn/conv_finish.hpp>

#include <troupe/gpu/kernels/launch.hpp>

namespace troupe_cuda {
namespace {

template <typename S>
__global__ void finish_kernel(S* y, const float* bias, float slope, std::int64_t count, unsigned channels) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const float x = load(y, i) + (bias == nullptr ? 0 : bias[i % channels]);
    store(y, i, 0 > x ? slope * x : x);  // a NaN passes
  }
}

// A tile goes through shared memory, so that both sides are read and written along their rows. One column more than
// needed keeps the threads of a warp in different banks.
constexpr int kTile = 32, kTileRows = 8;
template <typename S>
__global__ void transpose_kernel(const S* from, float* to, std::int64_t rows, std::int64_t cols, std::int64_t tiles,
                                 std::int64_t tiles_across) {
  __shared__ float tile[kTile][kTile + 1];
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const std::int64_t row = t / tiles_across * kTile, col = t % tiles_across * kTile;
    for (int y = static_cast<int>(threadIdx.y); y < kTile; y += kTileRows) {
      const std::int64_t r = row + y, c = col + threadIdx.x;
      if (r < rows && c < cols) tile[y][threadIdx.x] = load(from, r * cols + c);
    }
    __syncthreads();
    for (int y = static_cast<int>(threadIdx.y); y < kTile; y += kTileRows) {
      const std::int64_t r = row + threadIdx.x, c = col + y;
      if (r < rows && c < cols) to[c * rows + r] = tile[threadIdx.x][y];
    }
    __syncthreads();  // the next tile overwrites this one
  }
}

}  // namespace

cudaError_t finish_forward(void* y, bool bf16, const float* bias, int activation, std::int64_t rows,
                           std::int64_t channels, cudaStream_t stream) {
  const float slope = activation == 3 ? 0.0F : activation == 5 ? 0.1F : 1.0F;
  const std::int64_t count = rows * channels;
  return with_storage(bf16 ? 2 : 0, [&]<typename S>(S) {
    return launch(finish_kernel<S>, blocks_for(count), kThreads, stream, static_cast<S*>(y), bias, slope, count,
                  static_cast<unsigned>(channels));
  });
}

cudaError_t transpose_gradient(const void* from, bool bf16, float* to, std::int64_t out, std::int64_t inner,
                               cudaStream_t stream) {
  const std::int64_t across = (inner + kTile - 1) / kTile, tiles = (out + kTile - 1) / kTile * across;
  return with_storage(bf16 ? 2 : 0, [&]<typename S>(S) {
    return launch(transpose_kernel<S>, blocks_for(tiles, 1), dim3(kTile, kTileRows), stream,
                  static_cast<const S*>(from), to, out, inner, tiles, across);
  });
}

}  // namespace troupe_cuda
