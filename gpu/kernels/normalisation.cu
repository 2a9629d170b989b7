// Batch norm and spectral norm. Values are stored as float32 or, images in bfloat16 programs, as bfloat16; columns
// (statistics, gain, offset, their gradients) and weights are float32 either way.
#include <cmath>

#include <troupe/gpu/kernels/activation.hpp>
#include <troupe/gpu/kernels/channels.hpp>
#include <troupe/gpu/kernels/operands.hpp>
#include <troupe/gpu/kernels/spectral_norm.hpp>

namespace troupe_cuda {
namespace {

// ---- batch norm ----

template <typename S>
struct BatchSums {
  static constexpr int kSums = 2, kAhead = 4;
  const S* x;
  const float* shift;
  float* out;
  std::int64_t cols, counted;

  template <int N>
  __device__ Lanes<N> columns(const Spot& at) const {
    return load_lanes<N>(shift, at.column);
  }
  template <int N>
  __device__ Lanes<N> load(const Spot& at) const {
    return load_lanes<N>(x, at.element);
  }
  template <int N>
  __device__ void add(const Lanes<N>& shift_of, const Spot&, const Lanes<N>& of, Lanes<N>* sums) const {
    const Lanes<N> centred = of - shift_of;
    sums[0] = sums[0] + centred;
    sums[1] = sums[1] + centred * centred;
  }
  template <int N>
  __device__ void put(const Spot& at, const Lanes<N>* sums) const {
    store_lanes(sums[0], out, at.column);
    store_lanes(sums[1], out, cols + at.column);
    if (at.column == 0) out[2 * cols] = static_cast<float>(counted);
  }
};
/// in: x, shift; out: [2 cols + 1]: sums of x - shift, of its square, and the rows that counted.
cudaError_t batch_sums(const Call& call, cudaStream_t stream) {
  const Operand &x = call.in[0], &shift = call.in[1], &out = call.out[0];
  if (!is_storage(x.dtype) || !is_f32(shift) || !is_f32(out)) return cudaErrorInvalidValue;
  const std::int64_t counted = valid_elements(call, x.rows);
  return with_storage(x.dtype, [&](auto stored) {
    using S = decltype(stored);
    return segment_sums(stream, rows_of(x), counted, wide(x.cols, {x.data, shift.data, out.data}), call.workspace,
                        BatchSums<S>{data<S>(x), data<float>(shift), data<float>(out), x.cols, counted});
  });
}

template <typename S>
struct BatchSumsGrad {
  const float* g;
  const S* x;
  const float* shift;
  const S* other;  // null, or what is added; may be dx
  S* dx;
  std::int64_t cols, counted;

  /// g0 + 2 g1 (x - shift) as a line.
  template <int N>
  struct Line {
    Lanes<N> start, slope;
  };
  template <int N>
  __device__ Line<N> columns(const Spot& at) const {
    const Lanes<N> half = load_lanes<N>(g, cols + at.column), slope = half + half;
    return {load_lanes<N>(g, at.column) - slope * load_lanes<N>(shift, at.column), slope};
  }
  template <int N>
  __device__ void row(const Line<N>& line, const Spot& at) const {
    Lanes<N> value = all<N>(0);
    if (at.row < counted) value = line.start + line.slope * load_lanes<N>(x, at.element);
    if (other != nullptr) value = load_lanes<N>(other, at.element) + value;
    store_lanes(value, dx, at.element);
  }
};
/// in: gradient of the sums, x, shift and, when integer[0], another gradient of x; out: gradient of x, to which rows
/// that did not count add nothing.
cudaError_t batch_sums_grad(const Call& call, cudaStream_t stream) {
  const Operand &g = call.in[0], &x = call.in[1], &shift = call.in[2], &dx = call.out[0];
  const bool adds = call.integer[0] != 0;
  const void* const other = adds ? call.in[3].data : nullptr;
  if (!is_storage(x.dtype) || !is_f32(g) || !is_f32(shift) || !is_type(dx, x.dtype)) return cudaErrorInvalidValue;
  if (adds && !is_type(call.in[3], x.dtype)) return cudaErrorInvalidValue;
  return with_storage(x.dtype, [&](auto stored) {
    using S = decltype(stored);
    return over_rows(stream, rows_of(x), wide(x.cols, {g.data, x.data, shift.data, other, dx.data}),
                     BatchSumsGrad<S>{data<float>(g), data<S>(x), data<float>(shift), static_cast<const S*>(other),
                                      data<S>(dx), x.cols, valid_elements(call, x.rows)});
  });
}

__device__ float at_least(float x, float bound) { return x < bound ? bound : x; }

struct BatchMoments {
  const float *sums, *old_mean, *old_variance;
  float *mean, *inverse, *new_mean, *new_variance;  // each may be null
  std::int64_t cols;
  float epsilon, momentum;

  __device__ void operator()(std::int64_t i) const {
    const float count = sums[2 * cols], inverse_count = 1 / at_least(count, 1);
    const float offset = inverse_count * sums[i], squares = inverse_count * sums[cols + i] - offset * offset;
    const float variance = 0 > squares ? 0 : squares, before = old_variance[i];  // a NaN is passed on
    if (mean != nullptr) mean[i] = old_mean[i] + offset;
    if (inverse != nullptr) inverse[i] = 1 / sqrtf(variance + epsilon);
    if (new_mean != nullptr) new_mean[i] = old_mean[i] + (count > 0 ? momentum : 0) * offset;
    if (new_variance != nullptr) {
      const float unbias = count / at_least(count - 1, 1);
      new_variance[i] = before + (count > 1 ? momentum : 0) * (unbias * variance - before);
    }
  }
};
/// in: sums, running mean, running variance; real: epsilon, momentum; out: mean, 1 / standard deviation, and the new
/// running mean and variance (unbiased; unchanged where no row or only one counted). The shift was the running mean.
cudaError_t batch_moments(const Call& call, cudaStream_t stream) {
  const std::int64_t cols = elements(call.in[1]);
  return for_each(
      stream, cols,
      BatchMoments{data<float>(call.in[0]), data<float>(call.in[1]), data<float>(call.in[2]), data<float>(call.out[0]),
                   data<float>(call.out[1]), data<float>(call.out[2]), data<float>(call.out[3]), cols,
                   static_cast<float>(call.real[0]), static_cast<float>(call.real[1])});
}

struct BatchMomentsGrad {
  const float *dmean, *dinverse, *sums, *inverse;
  float* out;
  std::int64_t cols;

  __device__ void operator()(std::int64_t i) const {
    const float scale = 1 / at_least(sums[2 * cols], 1), root = inverse[i], offset = scale * sums[i];
    const float dvariance = -0.5F * dinverse[i] * (root * root * root);
    out[i] = scale * (dmean[i] - (offset + offset) * dvariance);
    out[cols + i] = scale * dvariance;
    if (i == 0) out[2 * cols] = 0;
  }
};
/// in: gradients of mean and 1 / standard deviation, sums, 1 / standard deviation; out: gradient of the sums.
cudaError_t batch_moments_grad(const Call& call, cudaStream_t stream) {
  const std::int64_t cols = elements(call.in[0]);
  return for_each(stream, cols,
                  BatchMomentsGrad{data<float>(call.in[0]), data<float>(call.in[1]), data<float>(call.in[2]),
                                   data<float>(call.in[3]), data<float>(call.out[0]), cols});
}

struct InverseRoot {
  const float* x;
  float* out;
  float epsilon;
  __device__ void operator()(std::int64_t i) const { out[i] = 1 / sqrtf(x[i] + epsilon); }
};
/// 1 / sqrt(x + real[0]).
cudaError_t inverse_root(const Call& call, cudaStream_t stream) {
  return for_each(stream, elements(call.out[0]),
                  InverseRoot{data<float>(call.in[0]), data<float>(call.out[0]), static_cast<float>(call.real[0])});
}

template <typename S, typename A>
struct Normalise {
  const S* x;
  const float *mean, *inverse, *gain, *offset;
  S* y;

  template <int N>
  struct Columns {
    Lanes<N> mean, scale, offset;
  };
  template <int N>
  __device__ Columns<N> columns(const Spot& at) const {
    return {load_lanes<N>(mean, at.column), load_lanes<N>(inverse, at.column) * load_lanes<N>(gain, at.column),
            load_lanes<N>(offset, at.column)};
  }
  template <int N>
  __device__ void row(const Columns<N>& of, const Spot& at) const {
    store_lanes(forward<A>((load_lanes<N>(x, at.element) - of.mean) * of.scale + of.offset), y, at.element);
  }
};
/// in: x, mean, 1 / standard deviation, gain, offset; integer[0]: activation; out: y.
cudaError_t normalise(const Call& call, cudaStream_t stream) {
  const Operand &x = call.in[0], &mean = call.in[1], &inverse = call.in[2], &gain = call.in[3], &offset = call.in[4];
  const Operand& y = call.out[0];
  if (!images_alike(call, 1)) return cudaErrorInvalidValue;
  if (!is_f32(mean) || !is_f32(inverse) || !is_f32(gain) || !is_f32(offset)) return cudaErrorInvalidValue;
  const bool is_wide = wide(x.cols, {x.data, mean.data, inverse.data, gain.data, offset.data, y.data});
  return with_storage(x.dtype, [&](auto stored) {
    return with_activation(call.integer[0], [&](auto activation) {
      using S = decltype(stored);
      return over_rows(stream, rows_of(x), is_wide,
                       Normalise<S, decltype(activation)>{data<S>(x), data<float>(mean), data<float>(inverse),
                                                          data<float>(gain), data<float>(offset), data<S>(y)});
    });
  });
}

/// The gradient of x in the pass that makes the sums.
template <typename S, typename A>
struct NormaliseGrad {
  static constexpr int kSums = 2, kAhead = 2;
  const S *g, *y, *x;
  const float *mean, *inverse, *gain;
  S* dx;  // may be g
  float *sum, *product;

  template <int N>
  struct Columns {
    Lanes<N> mean, scale;
  };
  template <int N>
  struct Loaded {
    Lanes<N> d, x;
  };
  template <int N>
  __device__ Columns<N> columns(const Spot& at) const {
    return {load_lanes<N>(mean, at.column), load_lanes<N>(inverse, at.column) * load_lanes<N>(gain, at.column)};
  }
  template <int N>
  __device__ Loaded<N> load(const Spot& at) const {
    return {backward<A>(load_lanes<N>(g, at.element), load_lanes<N>(y, at.element)), load_lanes<N>(x, at.element)};
  }
  template <int N>
  __device__ void add(const Columns<N>& of, const Spot& at, const Loaded<N>& loaded, Lanes<N>* sums) const {
    if (dx != nullptr) store_lanes(of.scale * loaded.d, dx, at.element);
    sums[0] = sums[0] + loaded.d;
    sums[1] = sums[1] + loaded.d * (loaded.x - of.mean);
  }
  template <int N>
  __device__ void put(const Spot& at, const Lanes<N>* sums) const {
    if (sum != nullptr) store_lanes(sums[0], sum, at.column);
    if (product != nullptr) store_lanes(sums[1], product, at.column);
  }
  template <int N>
  __device__ void row(const Columns<N>& of, const Spot& at) const {
    store_lanes(of.scale * backward<A>(load_lanes<N>(g, at.element), load_lanes<N>(y, at.element)), dx, at.element);
  }
};
/// in: gradient, y, x, mean, 1 / standard deviation, gain; integer[0]: activation; out: gradient of x with the
/// statistics fixed; sums over rows of the gradient d before the activation, and of d (x - mean).
cudaError_t normalise_grad(const Call& call, cudaStream_t stream) {
  const Operand &g = call.in[0], &y = call.in[1], &x = call.in[2], &mean = call.in[3], &inverse = call.in[4];
  const Operand &gain = call.in[5], &dx = call.out[0], &sum = call.out[1], &product = call.out[2];
  if (!images_alike(call, 3) || !is_f32(mean) || !is_f32(inverse) || !is_f32(gain)) return cudaErrorInvalidValue;
  if (!is_f32(sum) || !is_f32(product)) return cudaErrorInvalidValue;
  const Rows shape = rows_of(x);
  const bool is_wide =
      wide(x.cols, {g.data, y.data, x.data, mean.data, inverse.data, gain.data, dx.data, sum.data, product.data});
  return with_storage(x.dtype, [&](auto stored) {
    return with_activation(call.integer[0], [&](auto activation) {
      using S = decltype(stored);
      const NormaliseGrad<S, decltype(activation)> f{data<S>(g),        data<S>(y),           data<S>(x),
                                                     data<float>(mean), data<float>(inverse), data<float>(gain),
                                                     data<S>(dx),       data<float>(sum),     data<float>(product)};
      if (f.sum == nullptr && f.product == nullptr) return over_rows(stream, shape, is_wide, f);
      return segment_sums(stream, shape, shape.rows, is_wide, call.workspace, f);
    });
  });
}

constexpr Kernel kKernels[] = {
    {"batch_sums", batch_sums, [](const Call& call) { return segment_sums_bytes(rows_of(call.in[0]), 2); }},
    {"batch_sums_grad", batch_sums_grad},
    {"batch_moments", f32_only<batch_moments>},
    {"batch_moments_grad", f32_only<batch_moments_grad>},
    {"inverse_root", f32_only<inverse_root>},
    {"normalise", normalise},
    {"normalise_grad", normalise_grad, [](const Call& call) { return segment_sums_bytes(rows_of(call.in[2]), 2); }},
    {"direction", f32_only<direction>, direction_bytes},
    {"spectral_scale", f32_only<spectral_scale>, spectral_scale_bytes},
    {"spectral_scale_grad", f32_only<spectral_scale_grad>, spectral_scale_bytes},
};

}  // namespace

std::span<const Kernel> normalisation_kernels() { return kKernels; }

}  // namespace troupe_cuda
