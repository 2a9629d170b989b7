// Images of bytes: real numbers of them, and crops of padded images. A thread makes a few channels of one pixel.
#include <troupe/gpu/kernels/channels.hpp>
#include <troupe/gpu/kernels/image.hpp>
#include <troupe/gpu/kernels/operands.hpp>

namespace troupe_cuda {
namespace {

/// Elements i to i + N - 1 as real numbers; bytes are read one by one, which neighbours in a block do side by side.
template <int N>
__device__ Lanes<N> load_bytes(const std::uint8_t* p, std::int64_t i) {
  Lanes<N> x;
  for (int j = 0; j < N; ++j) x.v[j] = static_cast<float>(p[i + j]);
  return x;
}

template <typename S>
struct FromBytes {
  const std::uint8_t* x;
  S* y;
  float factor, offset;

  template <int N>
  __device__ void row(Nothing, const Spot& at) const {
    store_lanes(factor * load_bytes<N>(x, at.element) + all<N>(offset), y, at.element);
  }
};

/// Where each image is cut out, as in learner/engine/cpu/kernels/image_bodies.hpp.
struct Crop {
  const float* draws;
  std::int64_t h, w, padding;
  explicit Crop(const Call& call)
      : draws(data<const float>(call.in[1])), h(call.integer[0]), w(call.integer[1]), padding(call.integer[2]) {}

  /// By how much output `at` of an axis lies before the input that it copies. In double the product is exact.
  __device__ std::int64_t offset(std::int64_t image, int axis) const {
    const std::int64_t most = 2 * padding;
    const double scaled = static_cast<double>(draws[2 * image + axis]) * static_cast<double>(most + 1);
    const std::int64_t draw = scaled >= static_cast<double>(most) ? most
                              : scaled > 0                        ? static_cast<std::int64_t>(scaled)
                                                                  : 0;
    return draw - padding;
  }
  __device__ static std::int64_t within(std::int64_t at, std::int64_t size) {
    return at < 0 ? 0 : at < size ? at : size - 1;
  }
  /// The row of the input, of all images, that row `row` of the output is.
  __device__ std::int64_t from(std::int64_t row) const {
    const Pixel out = pixel_of(row, h, w);
    return (out.image * h + within(out.h + offset(out.image, 0), h)) * w + within(out.w + offset(out.image, 1), w);
  }
  /// Which outputs of an axis are copies of input `at`.
  __device__ static Range copies(std::int64_t at, std::int64_t by, std::int64_t size) {
    const std::int64_t begin = at == 0 ? 0 : at - by, end = at == size - 1 ? size : at - by + 1;
    return {begin < 0 ? 0 : begin, end > size ? size : end};
  }
};

template <typename S>
struct Shift {
  const S* x;
  S* y;
  std::int64_t cols;
  Crop crop;

  template <int N>
  __device__ void row(Nothing, const Spot& at) const {
    store_lanes(load_lanes<N>(x, crop.from(at.row) * cols + at.column), y, at.element);
  }
};

template <typename S>
struct ShiftGrad {
  const S* g;
  S* dx;
  std::int64_t cols;
  Crop crop;

  template <int N>
  __device__ void row(Nothing, const Spot& at) const {
    const Pixel in = pixel_of(at.row, crop.h, crop.w);
    const Range hs = Crop::copies(in.h, crop.offset(in.image, 0), crop.h);
    const Range ws = Crop::copies(in.w, crop.offset(in.image, 1), crop.w);
    store_lanes(sum_of_pixels<N>(g, in.image, crop.h, crop.w, hs, ws, cols, at.column), dx, at.element);
  }
};

template <template <typename> typename F>
cudaError_t shift_by(const Call& call, cudaStream_t stream) {
  const Operand &from = call.in[0], &to = call.out[0];
  if (!images_alike(call, 1) || !is_f32(call.in[1])) return cudaErrorInvalidValue;
  return with_storage(from.dtype, [&](auto stored) {
    using S = decltype(stored);
    return over_rows(stream, rows_of(to), wide(to.cols, {from.data, to.data}),
                     F<S>{data<S>(from), data<S>(to), to.cols, Crop(call)});
  });
}

}  // namespace

cudaError_t from_bytes(const Call& call, cudaStream_t stream) {
  const Operand &x = call.in[0], &y = call.out[0];
  if (!is_type(x, TROUPE_CUDA_U8) || !is_storage(y.dtype)) return cudaErrorInvalidValue;
  const auto factor = static_cast<float>(call.real[0]), offset = static_cast<float>(call.real[1]);
  return with_storage(y.dtype, [&](auto stored) {
    using S = decltype(stored);
    return over_rows(stream, rows_of(y), wide(y.cols, {y.data}),
                     FromBytes<S>{data<std::uint8_t>(x), data<S>(y), factor, offset});
  });
}

cudaError_t shift(const Call& call, cudaStream_t stream) { return shift_by<Shift>(call, stream); }
cudaError_t shift_grad(const Call& call, cudaStream_t stream) { return shift_by<ShiftGrad>(call, stream); }

cudaError_t shift_bytes(const Call& call, cudaStream_t stream) {
  const Operand &from = call.in[0], &to = call.out[0];
  if (!is_type(from, TROUPE_CUDA_U8) || !is_type(to, TROUPE_CUDA_U8) || !is_f32(call.in[1])) {
    return cudaErrorInvalidValue;
  }
  const auto* x = data<const std::uint8_t>(from);
  auto* y = data<std::uint8_t>(to);
  const Crop crop(call);
  const std::int64_t cols = to.cols;
  return for_each(stream, elements(to),
                  [=] __device__(std::int64_t i) { y[i] = x[crop.from(i / cols) * cols + i % cols]; });
}

}  // namespace troupe_cuda
