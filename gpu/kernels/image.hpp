#pragma once
// The kernels of images by file, for the table in image.cu. As in learner/engine/cpu/kernels/image_bodies.hpp, images
// are values [n, h, w, c] that are stored as float32 or as bfloat16, and gradients gather what an element gets.
#include <troupe/gpu/kernels/kernel.hpp>
#include <troupe/gpu/kernels/lanes.hpp>

namespace troupe_cuda {

// pooling.cu; integer: h, w, kernel, stride, padding
cudaError_t average_pool(const Call& call, cudaStream_t stream);
cudaError_t average_pool_grad(const Call& call, cudaStream_t stream);
cudaError_t max_pool(const Call& call, cudaStream_t stream);
cudaError_t max_pool_grad(const Call& call, cudaStream_t stream);

// resizing.cu; integer: h, w, height and width of the result
cudaError_t resize_nearest(const Call& call, cudaStream_t stream);
cudaError_t resize_nearest_grad(const Call& call, cudaStream_t stream);
cudaError_t resize_bilinear(const Call& call, cudaStream_t stream);
cudaError_t resize_bilinear_grad(const Call& call, cudaStream_t stream);

// shifting.cu; integer: h, w, padding
cudaError_t from_bytes(const Call& call, cudaStream_t stream);
cudaError_t shift(const Call& call, cudaStream_t stream);
cudaError_t shift_bytes(const Call& call, cudaStream_t stream);
cudaError_t shift_grad(const Call& call, cudaStream_t stream);

// convolution_weights.cu
cudaError_t box_kernel(const Call& call, cudaStream_t stream);
cudaError_t box_kernel_grad(const Call& call, cudaStream_t stream);
cudaError_t pack_weight(const Call& call, cudaStream_t stream);

/// Row `row` of the rows of all images.
struct Pixel {
  std::int64_t image, h, w;
};
__device__ inline Pixel pixel_of(std::int64_t row, std::int64_t height, std::int64_t width) {
  const std::int64_t line = row / width;  // of small numbers a 32-bit division: the compiler looks
  return {line / height, line % height, row - line * width};
}

/// Outputs or inputs of an axis: from begin up to, not including, end.
struct Range {
  std::int64_t begin, end;
};

/// The sum over the pixels of some lines and columns of one image, of images [n, height, width, cols], for N channels
/// from `column` on.
template <int N, typename S>
__device__ Lanes<N> sum_of_pixels(const S* images, std::int64_t image, std::int64_t height, std::int64_t width,
                                  Range hs, Range ws, std::int64_t cols, std::int64_t column) {
  Lanes<N> sum = all<N>(0);
  for (std::int64_t h = hs.begin; h < hs.end; ++h) {
    const std::int64_t line = (image * height + h) * width;
    for (std::int64_t w = ws.begin; w < ws.end; ++w) sum = sum + load_lanes<N>(images, (line + w) * cols + column);
  }
  return sum;
}

}  // namespace troupe_cuda
