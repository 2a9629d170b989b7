// Arithmetic, activations and casts: an element of the output from the same element of each input.
#include <troupe/gpu/kernels/activation.hpp>
#include <troupe/gpu/kernels/functions.hpp>
#include <troupe/gpu/kernels/map.hpp>
#include <troupe/gpu/kernels/operands.hpp>

namespace troupe_cuda {

namespace {

// ---- arithmetic ----

template <typename S, typename F>
cudaError_t map_unary(const Call& call, cudaStream_t stream, F f) {
  return map(stream, elements(call.out[0]), f, data<S>(call.out[0]), data<const S>(call.in[0]));
}
template <typename S, typename F>
cudaError_t map_binary(const Call& call, cudaStream_t stream, F f) {
  return map(stream, elements(call.out[0]), f, data<S>(call.out[0]), data<const S>(call.in[0]),
             data<const S>(call.in[1]));
}

cudaError_t add(const Call& call, cudaStream_t stream) {
  if (!images_alike(call, 2)) return cudaErrorInvalidValue;
  return with_storage(call.in[0].dtype, [&](auto stored) { return map_binary<decltype(stored)>(call, stream, Add{}); });
}
cudaError_t sub(const Call& call, cudaStream_t stream) { return map_binary<float>(call, stream, Sub{}); }
/// real[0] * a * b.
cudaError_t mul(const Call& call, cudaStream_t stream) {
  return map_binary<float>(call, stream, Mul{static_cast<float>(call.real[0])});
}
/// real[0] * x + real[1].
cudaError_t affine(const Call& call, cudaStream_t stream) {
  return map_unary<float>(call, stream, Affine{static_cast<float>(call.real[0]), static_cast<float>(call.real[1])});
}
/// To [real[0], real[1]].
cudaError_t clip(const Call& call, cudaStream_t stream) {
  return map_unary<float>(call, stream, Clip{static_cast<float>(call.real[0]), static_cast<float>(call.real[1])});
}
/// in: gradient, x.
cudaError_t clip_grad(const Call& call, cudaStream_t stream) {
  return map_binary<float>(call, stream, ClipGrad{static_cast<float>(call.real[0]), static_cast<float>(call.real[1])});
}

// ---- activations: integer[0] is the kind ----

template <typename A>
struct BiasActivate {
  __device__ float operator()(float x, float bias) const { return A::forward(x + bias); }
};

/// out[row, col] = f(x[row, col], bias[col]), `units` of N elements each. The column is carried along, because a
/// division for each element would cost more than the rest.
template <int N, typename F, typename S>
__global__ void bias_kernel(std::int64_t units, std::int64_t units_per_row, F f, S* out, const S* x,
                            const float* bias) {
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x, step = stride % units_per_row;
  std::int64_t col = first % units_per_row;
  for (std::int64_t i = first; i < units; i += stride) {
    store_lanes(map_lanes<N>(f, load_lanes<N>(x, i * N), load_lanes<N>(bias, col * N)), out, i * N);
    col += step;
    if (col >= units_per_row) col -= units_per_row;
  }
}
template <typename S, typename F>
cudaError_t map_bias(const Call& call, cudaStream_t stream, F f) {
  S* out = data<S>(call.out[0]);
  const S* x = data<const S>(call.in[0]);
  const float* bias = data<const float>(call.in[1]);
  const std::int64_t cols = call.out[0].cols, count = elements(call.out[0]);
  if (count == 0) return cudaSuccess;
  const bool packed = cols % kLanes == 0 && is_aligned(out) && is_aligned(x) && is_aligned(bias);
  const int width = packed ? kLanes : 1;
  return launch(packed ? bias_kernel<kLanes, F, S> : bias_kernel<1, F, S>, blocks_for(count / width), kThreads, stream,
                count / width, cols / width, f, out, x, bias);
}

/// in: x and, when integer[1], bias.
cudaError_t bias_activation(const Call& call, cudaStream_t stream) {
  const bool biased = call.integer[1] != 0;
  if (!images_alike(call, 1) || (biased && !is_f32(call.in[1]))) return cudaErrorInvalidValue;
  return with_activation(call.integer[0], [&](auto activation) {
    using A = decltype(activation);
    return with_storage(call.in[0].dtype, [&](auto stored) {
      using S = decltype(stored);
      return biased ? map_bias<S>(call, stream, BiasActivate<A>{}) : map_unary<S>(call, stream, Activate<A>{});
    });
  });
}
cudaError_t add_activation(const Call& call, cudaStream_t stream) {
  if (!images_alike(call, 2)) return cudaErrorInvalidValue;
  return with_activation(call.integer[0], [&](auto activation) {
    using A = decltype(activation);
    return with_storage(call.in[0].dtype,
                        [&](auto stored) { return map_binary<decltype(stored)>(call, stream, AddActivate<A>{}); });
  });
}
/// in: gradient, output.
cudaError_t activation_grad(const Call& call, cudaStream_t stream) {
  if (!images_alike(call, 2)) return cudaErrorInvalidValue;
  return with_activation(call.integer[0], [&](auto activation) {
    using A = decltype(activation);
    return with_storage(call.in[0].dtype,
                        [&](auto stored) { return map_binary<decltype(stored)>(call, stream, ActivationGrad<A>{}); });
  });
}

// ---- casts ----

cudaError_t cast_bf16(const Call& call, cudaStream_t stream) {
  if (!is_f32(call.in[0]) || !is_type(call.out[0], TROUPE_CUDA_BF16)) return cudaErrorInvalidValue;
  return map(stream, elements(call.out[0]), Same{}, data<std::uint16_t>(call.out[0]), data<const float>(call.in[0]));
}
cudaError_t cast_f32(const Call& call, cudaStream_t stream) {
  if (!is_type(call.in[0], TROUPE_CUDA_BF16) || !is_f32(call.out[0])) return cudaErrorInvalidValue;
  return map(stream, elements(call.out[0]), Same{}, data<float>(call.out[0]), data<const std::uint16_t>(call.in[0]));
}

constexpr Kernel kKernels[] = {
    {"add", add, nullptr, Function::kAdd},
    {"sub", f32_only<sub>, nullptr, Function::kSub},
    {"mul", f32_only<mul>, nullptr, Function::kMul},
    {"affine", f32_only<affine>, nullptr, Function::kAffine},
    {"clip", f32_only<clip>, nullptr, Function::kClip},
    {"clip_grad", f32_only<clip_grad>, nullptr, Function::kClipGrad},
    {"activation", bias_activation, nullptr, Function::kActivation},
    {"bias_activation", bias_activation},
    {"add_activation", add_activation, nullptr, Function::kAddActivation},
    {"activation_grad", activation_grad, nullptr, Function::kActivationGrad},
    {"cast_bf16", cast_bf16},
    {"cast_f32", cast_f32},
};

}  // namespace

std::span<const Kernel> elementwise_kernels() { return kKernels; }

}  // namespace troupe_cuda
