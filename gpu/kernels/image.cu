// Images: a gain and an offset for each example and channel, sums over pixels, and the table of all image kernels.
#include <troupe/gpu/kernels/activation.hpp>
#include <troupe/gpu/kernels/channels.hpp>
#include <troupe/gpu/kernels/image.hpp>
#include <troupe/gpu/kernels/operands.hpp>

namespace troupe_cuda {
namespace {

/// An image as its examples, of which `of` has a row each.
Rows examples(const Operand& image, const Operand& of) {
  return {of.rows, of.rows == 0 ? 0 : image.rows / of.rows, image.cols};
}

// ---- modulation; integer[0]: activation ----

template <typename S, typename A>
struct Modulate {
  const S* x;
  const float *gain, *offset;
  S* y;
  std::int64_t cols;

  template <int N>
  struct Columns {
    Lanes<N> gain, offset;
  };
  template <int N>
  __device__ Columns<N> columns(const Spot& at) const {
    const std::int64_t from = at.segment * cols + at.column;
    return {load_lanes<N>(gain, from), load_lanes<N>(offset, from)};
  }
  template <int N>
  __device__ void row(const Columns<N>& of, const Spot& at) const {
    store_lanes(forward<A>(of.gain * load_lanes<N>(x, at.element) + of.offset), y, at.element);
  }
};
/// in: x [n, ..., c], gain [n, c], offset [n, c].
cudaError_t modulate(const Call& call, cudaStream_t stream) {
  const Operand &x = call.in[0], &gain = call.in[1], &offset = call.in[2], &y = call.out[0];
  if (!images_alike(call, 1) || !is_f32(gain) || !is_f32(offset)) return cudaErrorInvalidValue;
  return with_storage(x.dtype, [&](auto stored) {
    return with_activation(call.integer[0], [&](auto activation) {
      using S = decltype(stored);
      return over_rows(
          stream, examples(x, gain), wide(x.cols, {x.data, gain.data, offset.data, y.data}),
          Modulate<S, decltype(activation)>{data<S>(x), data<float>(gain), data<float>(offset), data<S>(y), x.cols});
    });
  });
}

/// The gradient of x in the pass that sums those of gain and offset.
template <typename S, typename A>
struct ModulateGrad {
  static constexpr int kSums = 2, kAhead = 2;
  const S *g, *y, *x;
  const float* gain;
  S* dx;  // may be g
  float *dgain, *doffset;
  std::int64_t cols;

  template <int N>
  struct Loaded {
    Lanes<N> d, x;
  };
  template <int N>
  __device__ Lanes<N> columns(const Spot& at) const {
    return load_lanes<N>(gain, at.segment * cols + at.column);
  }
  template <int N>
  __device__ Loaded<N> load(const Spot& at) const {
    return {backward<A>(load_lanes<N>(g, at.element), load_lanes<N>(y, at.element)), load_lanes<N>(x, at.element)};
  }
  template <int N>
  __device__ void add(const Lanes<N>& factor, const Spot& at, const Loaded<N>& of, Lanes<N>* sums) const {
    if (dx != nullptr) store_lanes(factor * of.d, dx, at.element);
    sums[0] = sums[0] + of.d * of.x;
    sums[1] = sums[1] + of.d;
  }
  template <int N>
  __device__ void put(const Spot& at, const Lanes<N>* sums) const {
    if (dgain != nullptr) store_lanes(sums[0], dgain, at.segment * cols + at.column);
    if (doffset != nullptr) store_lanes(sums[1], doffset, at.segment * cols + at.column);
  }
  template <int N>
  __device__ void row(const Lanes<N>& factor, const Spot& at) const {
    store_lanes(factor * backward<A>(load_lanes<N>(g, at.element), load_lanes<N>(y, at.element)), dx, at.element);
  }
};
/// in: gradient, y, x, gain; out: gradients of x, gain, offset.
cudaError_t modulate_grad(const Call& call, cudaStream_t stream) {
  const Operand &g = call.in[0], &y = call.in[1], &x = call.in[2], &gain = call.in[3];
  const Operand &dx = call.out[0], &dgain = call.out[1], &doffset = call.out[2];
  if (!images_alike(call, 3) || !is_f32(gain) || !is_f32(dgain) || !is_f32(doffset)) return cudaErrorInvalidValue;
  const Rows shape = examples(x, gain);
  const bool is_wide = wide(x.cols, {g.data, y.data, x.data, gain.data, dx.data, dgain.data, doffset.data});
  return with_storage(x.dtype, [&](auto stored) {
    return with_activation(call.integer[0], [&](auto activation) {
      using S = decltype(stored);
      const ModulateGrad<S, decltype(activation)> f{data<S>(g),           data<S>(y),  data<S>(x),
                                                    data<float>(gain),    data<S>(dx), data<float>(dgain),
                                                    data<float>(doffset), x.cols};
      if (f.dgain == nullptr && f.doffset == nullptr) return over_rows(stream, shape, is_wide, f);
      return segment_sums(stream, shape, shape.rows, is_wide, call.workspace, f);
    });
  });
}

// ---- sums over pixels; real[0]: factor ----

template <typename S>
struct GlobalSum {
  static constexpr int kSums = 1, kAhead = 4;
  const S* x;
  float* out;
  float factor;
  std::int64_t cols;

  template <int N>
  __device__ Lanes<N> load(const Spot& at) const {
    return load_lanes<N>(x, at.element);
  }
  template <int N>
  __device__ void add(Nothing, const Spot&, const Lanes<N>& of, Lanes<N>* sums) const {
    sums[0] = sums[0] + of;
  }
  template <int N>
  __device__ void put(const Spot& at, const Lanes<N>* sums) const {
    store_lanes(factor * sums[0], out, at.segment * cols + at.column);
  }
};
/// [n, h, w, c] -> [n, c].
cudaError_t global_sum(const Call& call, cudaStream_t stream) {
  const Operand &x = call.in[0], &out = call.out[0];
  if (!is_storage(x.dtype) || !is_f32(out)) return cudaErrorInvalidValue;
  const Rows shape = examples(x, out);
  return with_storage(x.dtype, [&](auto stored) {
    using S = decltype(stored);
    return segment_sums(stream, shape, shape.rows, wide(x.cols, {x.data, out.data}), call.workspace,
                        GlobalSum<S>{data<S>(x), data<float>(out), static_cast<float>(call.real[0]), x.cols});
  });
}

template <typename S>
struct GlobalSumGrad {
  const float* g;
  S* dx;
  float factor;
  std::int64_t cols;

  template <int N>
  __device__ Lanes<N> columns(const Spot& at) const {
    return factor * load_lanes<N>(g, at.segment * cols + at.column);
  }
  template <int N>
  __device__ void row(const Lanes<N>& value, const Spot& at) const {
    store_lanes(value, dx, at.element);
  }
};
cudaError_t global_sum_grad(const Call& call, cudaStream_t stream) {
  const Operand &g = call.in[0], &dx = call.out[0];
  if (!is_f32(g) || !is_storage(dx.dtype)) return cudaErrorInvalidValue;
  return with_storage(dx.dtype, [&](auto stored) {
    using S = decltype(stored);
    return over_rows(stream, examples(dx, g), wide(dx.cols, {g.data, dx.data}),
                     GlobalSumGrad<S>{data<float>(g), data<S>(dx), static_cast<float>(call.real[0]), dx.cols});
  });
}

constexpr Kernel kKernels[] = {
    {"modulate", modulate},
    {"modulate_grad", modulate_grad,
     [](const Call& call) { return segment_sums_bytes(examples(call.in[2], call.in[3]), 2); }},
    {"global_sum", global_sum,
     [](const Call& call) { return segment_sums_bytes(examples(call.in[0], call.out[0]), 1); }},
    {"global_sum_grad", global_sum_grad},
    {"average_pool", average_pool},
    {"average_pool_grad", average_pool_grad},
    {"max_pool", max_pool},
    {"max_pool_grad", max_pool_grad},
    {"resize_nearest", resize_nearest},
    {"resize_nearest_grad", resize_nearest_grad},
    {"resize_bilinear", resize_bilinear},
    {"resize_bilinear_grad", resize_bilinear_grad},
    {"from_bytes", from_bytes},
    {"shift", shift},
    {"shift_bytes", shift_bytes},
    {"shift_grad", shift_grad},
    {"box_kernel", f32_only<box_kernel>},
    {"box_kernel_grad", f32_only<box_kernel_grad>},
    {"pack_weight", pack_weight},
};

}  // namespace

std::span<const Kernel> image_kernels() { return kKernels; }

}  // namespace troupe_cuda
