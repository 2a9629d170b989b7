#pragma once
// out[i] = f(a[i], ...) over arrays that are stored as float or bfloat16, kLanes elements at a time where they are
// aligned so. The output may be one of the inputs.
#include <cuda_runtime.h>

#include <cstdint>

#include <troupe/gpu/kernels/lanes.hpp>

namespace troupe_cuda {

/// f of the elements of each; F: a struct with `__device__ float operator()(float, ...) const`.
template <int N, typename F, typename... In>
__device__ Lanes<N> map_lanes(F f, const In&... in) {
  Lanes<N> out;
  for (int j = 0; j < N; ++j) out.v[j] = f(in.v[j]...);
  return out;
}

template <typename F, typename To, typename... From>
__global__ void map_kernel(std::int64_t count, std::int64_t packs, F f, To* out, const From*... in) {
  over_elements(count, packs, [&](auto width, std::int64_t i) {
    constexpr int N = decltype(width)::value;
    store_lanes(map_lanes<N>(f, load_lanes<N>(in, i)...), out, i);
  });
}

template <typename F, typename To, typename... From>
cudaError_t map(cudaStream_t stream, std::int64_t count, F f, To* out, const From*... in) {
  if (count == 0) return cudaSuccess;
  const std::int64_t packs = is_aligned(out) && (is_aligned(in) && ...) ? count / kLanes : 0;
  return launch(map_kernel<F, To, From...>, blocks_for_elements(count, packs), kThreads, stream, count, packs, f, out,
                in...);
}

/// Copies and casts.
struct Same {
  __device__ float operator()(float x) const { return x; }
};

}  // namespace troupe_cuda
