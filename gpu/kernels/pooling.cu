// Pooling. A thread makes the result of a few channels of one pixel.
#include <cmath>

#include <troupe/gpu/kernels/channels.hpp>
#include <troupe/gpu/kernels/image.hpp>
#include <troupe/gpu/kernels/operands.hpp>

namespace troupe_cuda {
namespace {

struct Window {
  std::int64_t h, w, kernel, stride, padding, out_h, out_w;
  explicit Window(const Call& call)
      : h(call.integer[0]),
        w(call.integer[1]),
        kernel(call.integer[2]),
        stride(call.integer[3]),
        padding(call.integer[4]),
        out_h((h + 2 * padding - kernel) / stride + 1),
        out_w((w + 2 * padding - kernel) / stride + 1) {}
  float share() const { return 1 / static_cast<float>(kernel * kernel); }

  /// What output `at` of an axis reads.
  __device__ Range reads(std::int64_t at, std::int64_t size) const {
    const std::int64_t begin = at * stride - padding, end = begin + kernel;
    return {begin < 0 ? 0 : begin, end > size ? size : end};
  }
  /// Which outputs of an axis read input `at`.
  __device__ Range read_by(std::int64_t at, std::int64_t out_size) const {
    const std::int64_t end = (at + padding) / stride + 1, before = at + padding - kernel;
    return {before < 0 ? 0 : before / stride + 1, end > out_size ? out_size : end};
  }
};

template <typename S>
struct AveragePool {
  const S* x;
  S* y;
  std::int64_t cols;
  Window window;
  float share;

  template <int N>
  __device__ void row(Nothing, const Spot& at) const {
    const Pixel out = pixel_of(at.row, window.out_h, window.out_w);
    const Range hs = window.reads(out.h, window.h), ws = window.reads(out.w, window.w);
    const Lanes<N> sum = sum_of_pixels<N>(x, out.image, window.h, window.w, hs, ws, cols, at.column);
    store_lanes(share * sum, y, at.element);
  }
};

template <typename S>
struct AveragePoolGrad {
  const S* g;
  S* dx;
  std::int64_t cols;
  Window window;
  float share;

  template <int N>
  __device__ void row(Nothing, const Spot& at) const {
    const Pixel in = pixel_of(at.row, window.h, window.w);
    const Range hs = window.read_by(in.h, window.out_h), ws = window.read_by(in.w, window.out_w);
    const Lanes<N> sum = sum_of_pixels<N>(g, in.image, window.out_h, window.out_w, hs, ws, cols, at.column);
    store_lanes(share * sum, dx, at.element);
  }
};

/// The maximum, and which place of the window the first one has, row by row: at most 256 places, exact as bfloat16.
template <typename S>
struct MaxPool {
  const S* x;
  S *y, *which;
  std::int64_t cols;
  Window window;

  template <int N>
  __device__ void row(Nothing, const Spot& at) const {
    const Pixel out = pixel_of(at.row, window.out_h, window.out_w);
    const Range hs = window.reads(out.h, window.h), ws = window.reads(out.w, window.w);
    const std::int64_t top = out.h * window.stride - window.padding, left = out.w * window.stride - window.padding;
    Lanes<N> best = all<N>(-INFINITY), place = all<N>(-1);
    for (std::int64_t h = hs.begin; h < hs.end; ++h) {
      const std::int64_t line = (out.image * window.h + h) * window.w;
      for (std::int64_t w = ws.begin; w < ws.end; ++w) {
        const Lanes<N> value = load_lanes<N>(x, (line + w) * cols + at.column);
        const float here = static_cast<float>((h - top) * window.kernel + w - left);
        for (int j = 0; j < N; ++j) {
          if (!(value.v[j] > best.v[j] || value.v[j] != value.v[j])) continue;  // a NaN is passed on
          best.v[j] = value.v[j];
          place.v[j] = here;
        }
      }
    }
    if (y != nullptr) store_lanes(best, y, at.element);
    if (which != nullptr) store_lanes(place, which, at.element);
  }
};

template <typename S>
struct MaxPoolGrad {
  const S *g, *which;
  S* dx;
  std::int64_t cols;
  Window window;

  template <int N>
  __device__ void row(Nothing, const Spot& at) const {
    const Pixel in = pixel_of(at.row, window.h, window.w);
    const Range hs = window.read_by(in.h, window.out_h), ws = window.read_by(in.w, window.out_w);
    Lanes<N> sum = all<N>(0);
    for (std::int64_t h = hs.begin; h < hs.end; ++h) {
      const std::int64_t line = (in.image * window.out_h + h) * window.out_w;
      const std::int64_t row = in.h - h * window.stride + window.padding;
      for (std::int64_t w = ws.begin; w < ws.end; ++w) {
        const std::int64_t column = in.w - w * window.stride + window.padding;
        const float here = static_cast<float>(row * window.kernel + column);
        const std::int64_t from = (line + w) * cols + at.column;
        const Lanes<N> place = load_lanes<N>(which, from), value = load_lanes<N>(g, from);
        for (int j = 0; j < N; ++j) sum.v[j] += place.v[j] == here ? value.v[j] : 0;
      }
    }
    store_lanes(sum, dx, at.element);
  }
};

}  // namespace

cudaError_t average_pool(const Call& call, cudaStream_t stream) {
  if (!images_alike(call, 1)) return cudaErrorInvalidValue;
  const Operand &x = call.in[0], &y = call.out[0];
  return with_storage(x.dtype, [&](auto stored) {
    using S = decltype(stored);
    const Window window(call);
    return over_rows(stream, rows_of(y), wide(y.cols, {x.data, y.data}),
                     AveragePool<S>{data<S>(x), data<S>(y), y.cols, window, window.share()});
  });
}
cudaError_t average_pool_grad(const Call& call, cudaStream_t stream) {
  if (!images_alike(call, 1)) return cudaErrorInvalidValue;
  const Operand &g = call.in[0], &dx = call.out[0];
  return with_storage(g.dtype, [&](auto stored) {
    using S = decltype(stored);
    const Window window(call);
    return over_rows(stream, rows_of(dx), wide(dx.cols, {g.data, dx.data}),
                     AveragePoolGrad<S>{data<S>(g), data<S>(dx), dx.cols, window, window.share()});
  });
}
cudaError_t max_pool(const Call& call, cudaStream_t stream) {
  const Operand &x = call.in[0], &y = call.out[0], &which = call.out[1];
  if (!images_alike(call, 1) || !is_type(which, x.dtype)) return cudaErrorInvalidValue;
  return with_storage(x.dtype, [&](auto stored) {
    using S = decltype(stored);
    return over_rows(stream, rows_of(y), wide(y.cols, {x.data, y.data, which.data}),
                     MaxPool<S>{data<S>(x), data<S>(y), data<S>(which), y.cols, Window(call)});
  });
}
cudaError_t max_pool_grad(const Call& call, cudaStream_t stream) {
  if (!images_alike(call, 2)) return cudaErrorInvalidValue;
  const Operand &g = call.in[0], &which = call.in[1], &dx = call.out[0];
  return with_storage(g.dtype, [&](auto stored) {
    using S = decltype(stored);
    return over_rows(stream, rows_of(dx), wide(dx.cols, {g.data, which.data, dx.data}),
                     MaxPoolGrad<S>{data<S>(g), data<S>(which), data<S>(dx), dx.cols, Window(call)});
  });
}

}  // namespace troupe_cuda
