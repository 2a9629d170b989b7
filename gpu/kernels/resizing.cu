// Resizing. A thread makes the result of a few channels of one pixel. Positions are fractions of integers, so that the
// inverse of "between which inputs lies an output" is exact and gradients read no output in vain.
#include <troupe/gpu/kernels/channels.hpp>
#include <troupe/gpu/kernels/image.hpp>
#include <troupe/gpu/kernels/operands.hpp>

namespace troupe_cuda {
namespace {

/// The smallest integer that is not below a / b, where b > 0.
__device__ std::int64_t ceiling(std::int64_t a, std::int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

/// One axis of an image and of the result.
struct Axis {
  std::int64_t size, out_size;

  // ---- nearest ----

  __device__ std::int64_t nearest(std::int64_t out) const { return out * size / out_size; }
  /// Which outputs are copies of input `at`.
  __device__ Range copies(std::int64_t at) const {
    return {(at * out_size + size - 1) / size, ((at + 1) * out_size + size - 1) / size};
  }

  // ---- bilinear: output o lies at (o + 1/2) size / out_size - 1/2, at least 0, of the inputs ----

  /// The two inputs that an output lies between, and the share of the upper one.
  struct Between {
    std::int64_t lower, upper;
    float share;
    __device__ float weight(std::int64_t input) const {
      return (lower == input ? 1 - share : 0) + (upper == input ? share : 0);
    }
  };
  __device__ Between between(std::int64_t out) const {
    const std::int64_t above = (2 * out + 1) * size - out_size, halves = above < 0 ? 0 : above, whole = 2 * out_size;
    const std::int64_t lower = halves / whole;
    return {lower, lower + 1 < size ? lower + 1 : lower,
            static_cast<float>(halves - lower * whole) / static_cast<float>(whole)};
  }
  /// Outputs that input `at` has a share in: those between the inputs before and behind it.
  __device__ Range touched(std::int64_t at) const {
    const std::int64_t begin = ceiling((2 * at - 1) * out_size - size, 2 * size);
    const std::int64_t end = ceiling((2 * at + 3) * out_size - size, 2 * size);
    return {at == 0 || begin < 0 ? 0 : begin, at == size - 1 || end > out_size ? out_size : end};
  }
};

struct Sizes {
  Axis h, w;
  explicit Sizes(const Call& call) : h{call.integer[0], call.integer[2]}, w{call.integer[1], call.integer[3]} {}
};

template <typename S>
struct Nearest {
  const S* x;
  S* y;
  std::int64_t cols;
  Sizes sizes;

  template <int N>
  __device__ void row(Nothing, const Spot& at) const {
    const Pixel out = pixel_of(at.row, sizes.h.out_size, sizes.w.out_size);
    const std::int64_t from =
        (out.image * sizes.h.size + sizes.h.nearest(out.h)) * sizes.w.size + sizes.w.nearest(out.w);
    store_lanes(load_lanes<N>(x, from * cols + at.column), y, at.element);
  }
};

template <typename S>
struct NearestGrad {
  const S* g;
  S* dx;
  std::int64_t cols;
  Sizes sizes;

  template <int N>
  __device__ void row(Nothing, const Spot& at) const {
    const Pixel in = pixel_of(at.row, sizes.h.size, sizes.w.size);
    const Range hs = sizes.h.copies(in.h), ws = sizes.w.copies(in.w);
    store_lanes(sum_of_pixels<N>(g, in.image, sizes.h.out_size, sizes.w.out_size, hs, ws, cols, at.column), dx,
                at.element);
  }
};

template <typename S>
struct Bilinear {
  const S* x;
  S* y;
  std::int64_t cols;
  Sizes sizes;

  template <int N>
  __device__ void row(Nothing, const Spot& at) const {
    const Pixel out = pixel_of(at.row, sizes.h.out_size, sizes.w.out_size);
    const Axis::Between h = sizes.h.between(out.h), w = sizes.w.between(out.w);
    const auto input = [&](std::int64_t line, std::int64_t pixel) {
      return load_lanes<N>(x, ((out.image * sizes.h.size + line) * sizes.w.size + pixel) * cols + at.column);
    };
    const Lanes<N> a = input(h.lower, w.lower), c = input(h.upper, w.lower);
    const Lanes<N> above = a + w.share * (input(h.lower, w.upper) - a);
    const Lanes<N> below = c + w.share * (input(h.upper, w.upper) - c);
    store_lanes(above + h.share * (below - above), y, at.element);
  }
};

template <typename S>
struct BilinearGrad {
  const S* g;
  S* dx;
  std::int64_t cols;
  Sizes sizes;

  template <int N>
  __device__ void row(Nothing, const Spot& at) const {
    const Pixel in = pixel_of(at.row, sizes.h.size, sizes.w.size);
    const Range hs = sizes.h.touched(in.h), ws = sizes.w.touched(in.w);
    Lanes<N> sum = all<N>(0);
    for (std::int64_t h = hs.begin; h < hs.end; ++h) {
      const float down = sizes.h.between(h).weight(in.h);
      const std::int64_t line = (in.image * sizes.h.out_size + h) * sizes.w.out_size;
      for (std::int64_t w = ws.begin; w < ws.end; ++w) {
        const float weight = down * sizes.w.between(w).weight(in.w);
        if (weight == 0) continue;  // so that no infinity outside of the input's reach becomes a NaN
        sum = sum + weight * load_lanes<N>(g, (line + w) * cols + at.column);
      }
    }
    store_lanes(sum, dx, at.element);
  }
};

template <template <typename> typename F>
cudaError_t resize(const Call& call, cudaStream_t stream) {
  if (!images_alike(call, 1)) return cudaErrorInvalidValue;
  const Operand &from = call.in[0], &to = call.out[0];
  return with_storage(from.dtype, [&](auto stored) {
    using S = decltype(stored);
    return over_rows(stream, rows_of(to), wide(to.cols, {from.data, to.data}),
                     F<S>{data<S>(from), data<S>(to), to.cols, Sizes(call)});
  });
}

}  // namespace

cudaError_t resize_nearest(const Call& call, cudaStream_t stream) { return resize<Nearest>(call, stream); }
cudaError_t resize_nearest_grad(const Call& call, cudaStream_t stream) { return resize<NearestGrad>(call, stream); }
cudaError_t resize_bilinear(const Call& call, cudaStream_t stream) { return resize<Bilinear>(call, stream); }
cudaError_t resize_bilinear_grad(const Call& call, cudaStream_t stream) { return resize<BilinearGrad>(call, stream); }

}  // namespace troupe_cuda
