#pragma once
// A few neighbouring elements as one value, so that a thread moves 16 bytes (8 of bfloat16) at a time: the device's
// counterpart of simd.hpp. What is written for N elements runs with one where sizes or addresses allow no more.
#include <initializer_list>

#include <troupe/gpu/kernels/launch.hpp>

namespace troupe_cuda {

constexpr int kLanes = 4;

template <int N>
struct Lanes {
  float v[N];
};
template <typename S, int N>
struct alignas(N * sizeof(S)) StoredLanes {
  S v[N];
};

template <typename S>
bool is_aligned(const S* p) {
  return reinterpret_cast<std::uintptr_t>(p) % sizeof(StoredLanes<S, kLanes>) == 0;
}

/// Elements i to i + N - 1, where i is a multiple of N and p is aligned (see wide()).
template <int N, typename S>
__device__ Lanes<N> load_lanes(const S* p, std::int64_t i) {
  const StoredLanes<S, N> stored = *reinterpret_cast<const StoredLanes<S, N>*>(p + i);
  Lanes<N> x;
  for (int j = 0; j < N; ++j) x.v[j] = load(stored.v, j);
  return x;
}
template <int N, typename S>
__device__ void store_lanes(const Lanes<N>& x, S* p, std::int64_t i) {
  StoredLanes<S, N> stored;
  for (int j = 0; j < N; ++j) store(stored.v, j, x.v[j]);
  *reinterpret_cast<StoredLanes<S, N>*>(p + i) = stored;
}
template <int N>
__device__ Lanes<N> all(float value) {
  Lanes<N> x;
  for (int j = 0; j < N; ++j) x.v[j] = value;
  return x;
}
template <int N>
__device__ Lanes<N> operator+(const Lanes<N>& a, const Lanes<N>& b) {
  Lanes<N> x;
  for (int j = 0; j < N; ++j) x.v[j] = a.v[j] + b.v[j];
  return x;
}
template <int N>
__device__ Lanes<N> operator-(const Lanes<N>& a, const Lanes<N>& b) {
  Lanes<N> x;
  for (int j = 0; j < N; ++j) x.v[j] = a.v[j] - b.v[j];
  return x;
}
template <int N>
__device__ Lanes<N> operator*(const Lanes<N>& a, const Lanes<N>& b) {
  Lanes<N> x;
  for (int j = 0; j < N; ++j) x.v[j] = a.v[j] * b.v[j];
  return x;
}
template <int N>
__device__ Lanes<N> operator*(float a, const Lanes<N>& b) {
  return all<N>(a) * b;
}
/// With A an activation (activation.hpp).
template <typename A, int N>
__device__ Lanes<N> forward(const Lanes<N>& x) {
  Lanes<N> y;
  for (int j = 0; j < N; ++j) y.v[j] = A::forward(x.v[j]);
  return y;
}
template <typename A, int N>
__device__ Lanes<N> backward(const Lanes<N>& g, const Lanes<N>& y) {
  Lanes<N> x;
  for (int j = 0; j < N; ++j) x.v[j] = A::backward(g.v[j], y.v[j]);
  return x;
}

template <int N>
struct Width {
  static constexpr int value = N;
};
/// f(Width<N>{}, i) for elements i to i + N - 1, by a thread each: `packs` times kLanes of them, then single ones.
template <typename F>
__device__ void over_elements(std::int64_t count, std::int64_t packs, F f) {
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = first; i < packs; i += stride) f(Width<kLanes>{}, i * kLanes);
  for (std::int64_t i = packs * kLanes + first; i < count; i += stride) f(Width<1>{}, i);
}
/// The blocks for that.
inline unsigned blocks_for_elements(std::int64_t count, std::int64_t packs) {
  return blocks_for(packs > 0 ? packs : count);
}

/// Whether rows of `cols` elements that begin at these addresses may be read kLanes at a time.
inline bool wide(std::int64_t cols, std::initializer_list<const void*> addresses) {
  bool aligned = cols % kLanes == 0;
  for (const void* address : addresses) {
    aligned = aligned && reinterpret_cast<std::uintptr_t>(address) % (kLanes * sizeof(float)) == 0;
  }
  return aligned;
}

}  // namespace troupe_cuda
