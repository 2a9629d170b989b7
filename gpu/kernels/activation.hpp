#pragma once
// The activations as the CPU's kernels have them (learner/engine/cpu/kernels/kernel_bodies.hpp): forward(x), and
// backward(gradient, output). A NaN passes each of them, so that the learner sees it; fmaxf() would hide it.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace troupe_cuda {

struct NoActivation {
  static __device__ float forward(float x) { return x; }
  static __device__ float backward(float g, float) { return g; }
};
struct Tanh {
  static __device__ float forward(float x) { return tanhf(x); }
  static __device__ float backward(float g, float y) { return g - g * (y * y); }
};
struct Elu {
  static __device__ float forward(float x) { return x > 0 ? x : expm1f(x); }
  static __device__ float backward(float g, float y) { return y > 0 ? g : g * y + g; }
};
struct Relu {
  static __device__ float forward(float x) { return 0 > x ? 0 : x; }
  static __device__ float backward(float g, float y) { return y > 0 ? g : 0; }
};
struct Sigmoid {
  static __device__ float forward(float x) { return 1 / (1 + expf(-x)); }
  static __device__ float backward(float g, float y) { return g * (y - y * y); }
};
struct LeakyRelu {
  static __device__ float forward(float x) { return 0.1F * x > x ? 0.1F * x : x; }
  static __device__ float backward(float g, float y) { return y > 0 ? g : 0.1F * g; }
};

/// For map().
template <typename A>
struct Activate {
  __device__ float operator()(float x) const { return A::forward(x); }
};

/// f(A{}) with the activation that has this number in Activation (learner/ops/linear.hpp). On the host, for kernels
/// that are compiled for each,
template <typename F>
cudaError_t with_activation(std::int64_t kind, F f) {
  switch (kind) {
    case 0:
      return f(NoActivation{});
    case 1:
      return f(Tanh{});
    case 2:
      return f(Elu{});
    case 3:
      return f(Relu{});
    case 4:
      return f(Sigmoid{});
    case 5:
      return f(LeakyRelu{});
    default:
      return cudaErrorInvalidValue;
  }
}
/// and within a kernel.
template <typename F>
__device__ float by_activation(std::int32_t kind, F f) {
  switch (kind) {
    case 1:
      return f(Tanh{});
    case 2:
      return f(Elu{});
    case 3:
      return f(Relu{});
    case 4:
      return f(Sigmoid{});
    case 5:
      return f(LeakyRelu{});
    default:
      return f(NoActivation{});
  }
}

}  // namespace troupe_cuda
