#pragma once
// out[i] = f(a[i], ...) over arrays that are stored as float or bfloat16, four elements at a time where they are
// aligned so. The output may be one of the inputs.
#include <cuda_runtime.h>

#include <cstdint>

#include <troupe/learner/cuda/kernels/launch.hpp>

namespace troupe_cuda {

constexpr int kPack = 4;
/// Elements that are read or written at once.
template <typename S>
struct alignas(kPack * sizeof(S)) Pack {
  S at[kPack];
};

template <typename S>
bool is_aligned(const S* p) {
  return reinterpret_cast<std::uintptr_t>(p) % sizeof(Pack<S>) == 0;
}

template <typename To, typename F, typename... From>
__device__ Pack<To> map_pack(F f, Pack<From>... in) {
  Pack<To> out;
  for (int k = 0; k < kPack; ++k) store(out.at, k, f(load(in.at, k)...));
  return out;
}

template <typename F, typename To, typename... From>
__global__ void map_kernel(std::int64_t count, std::int64_t packs, F f, To* out, const From*... in) {
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = first; i < packs; i += stride) {
    reinterpret_cast<Pack<To>*>(out)[i] = map_pack<To>(f, reinterpret_cast<const Pack<From>*>(in)[i]...);
  }
  for (std::int64_t i = packs * kPack + first; i < count; i += stride) store(out, i, f(load(in, i)...));
}

/// F: a struct with `__device__ float operator()(float, ...) const`.
template <typename F, typename To, typename... From>
cudaError_t map(cudaStream_t stream, std::int64_t count, F f, To* out, const From*... in) {
  if (count == 0) return cudaSuccess;
  const bool aligned = is_aligned(out) && (is_aligned(in) && ...);
  const std::int64_t packs = aligned ? count / kPack : 0;
  const std::int64_t threads = aligned && packs > 0 ? packs : count;
  return launch(map_kernel<F, To, From...>, blocks_for(threads), kThreads, stream, count, packs, f, out, in...);
}

}  // namespace troupe_cuda
