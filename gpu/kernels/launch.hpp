#pragma once
// How kernels are started, and how they read and write elements that are stored as float or as bfloat16.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

namespace troupe_cuda {

/// The grid's threads run `kernel`. dim3 for both sizes; no dynamic shared memory.
template <typename... P, typename... A>
cudaError_t launch(void (*kernel)(P...), dim3 blocks, dim3 threads, cudaStream_t stream, A... args) {
#ifdef __CUDACC__
  kernel<<<blocks, threads, 0, stream>>>(static_cast<P>(args)...);
  return cudaGetLastError();
#else
  return emulated_launch(blocks, threads, stream, [=] { kernel(static_cast<P>(args)...); });
#endif
}

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 4096;  // kernels stride over the rest

inline unsigned blocks_for(std::int64_t count, int per_block = kThreads) {
  const std::int64_t blocks = (count + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

template <typename F>
__global__ void for_each_kernel(std::int64_t count, F f) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) f(i);
}
/// f(i) for i in [0, count), by a thread each: `for_each(stream, n, [=] __device__(std::int64_t i) { ... })`.
template <typename F>
cudaError_t for_each(cudaStream_t stream, std::int64_t count, F f) {
  if (count == 0) return cudaSuccess;
  return launch(for_each_kernel<F>, blocks_for(count), kThreads, stream, count, f);
}

// ---- elements: float, or bfloat16 in a std::uint16_t, rounded to nearest even and computed with in float ----

__host__ __device__ inline float load(const float* p, std::int64_t i) { return p[i]; }
__host__ __device__ inline float load(const std::uint16_t* p, std::int64_t i) {
  const std::uint32_t bits = std::uint32_t{p[i]} << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}
__host__ __device__ inline void store(float* p, std::int64_t i, float value) { p[i] = value; }
__host__ __device__ inline void store(std::uint16_t* p, std::int64_t i, float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  p[i] = static_cast<std::uint16_t>(nan ? bits >> 16 | 0x40U : (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

/// f(S{}) with S = float or std::uint16_t: the type that images are stored in.
template <typename F>
cudaError_t with_storage(std::int32_t dtype, F f) {
  return dtype == 2 ? f(std::uint16_t{}) : f(float{});  // TROUPE_CUDA_BF16
}
/// Whether it is one of these two types.
inline bool is_storage(std::int32_t dtype) { return dtype == 0 || dtype == 2; }  // TROUPE_CUDA_F32

}  // namespace troupe_cuda
