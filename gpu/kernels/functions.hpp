#pragma once
// Functions of single elements: what an element of the output is of the same element of each input. elementwise.cu and
// math.cu make kernels of them; chain.cu runs several one after the other.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

namespace troupe_cuda {

/// Which it is, for chain.cu. What it has of real[] and integer[] is said where its kernel is.
enum class Function : std::int32_t {
  kNone,
  kAdd,
  kSub,
  kMul,
  kAffine,
  kClip,
  kClipGrad,
  kActivation,
  kAddActivation,
  kActivationGrad,
  kExp,
  kLog,
  kSqrt,
  kAbs,
  kSign,
  kSoftplus,
  kDiv,
  kMinimum,
  kMaximum,
  kGreater,
  kWhere,
  kKeepWhere,
};

// ---- arithmetic ----

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Sub {
  __device__ float operator()(float a, float b) const { return a - b; }
};
struct Mul {
  float factor;
  __device__ float operator()(float a, float b) const { return factor * (a * b); }
};
struct Affine {
  float factor, offset;
  __device__ float operator()(float x) const { return factor * x + offset; }
};
/// A NaN passes.
struct Clip {
  float low, high;
  __device__ float operator()(float x) const {
    const float above = low > x ? low : x;
    return high < above ? high : above;
  }
};
struct ClipGrad {
  float low, high;
  __device__ float operator()(float g, float x) const { return low > x || x > high ? 0 : g; }
};
struct Div {
  __device__ float operator()(float a, float b) const { return a / b; }
};

// ---- functions ----

struct Exp {
  __device__ float operator()(float x) const { return expf(x); }
};
struct Log {
  __device__ float operator()(float x) const { return logf(x); }
};
struct Sqrt {
  __device__ float operator()(float x) const { return sqrtf(x); }
};
struct Abs {
  __device__ float operator()(float x) const { return fabsf(x); }
};
/// A NaN passes.
struct Sign {
  __device__ float operator()(float x) const { return x > 0 ? 1 : x < 0 ? -1 : x; }
};
struct Softplus {
  __device__ float operator()(float x) const { return (x < 0 ? 0 : x) + log1pf(expf(-fabsf(x))); }
};

// ---- choices ----

struct Minimum {
  __device__ float operator()(float a, float b) const { return a < b || a != a ? a : b; }
};
struct Maximum {
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};
struct Greater {
  float equal;
  __device__ float operator()(float a, float b) const { return a > b ? 1 : a == b ? equal : 0; }
};
struct Where {
  __device__ float operator()(float condition, float a, float b) const { return condition == 0 ? b : a; }
};
struct KeepWhere {
  bool where_zero;
  __device__ float operator()(float x, float condition) const { return (condition == 0) == where_zero ? x : 0; }
};

// ---- activations ----

template <typename A>
struct AddActivate {
  __device__ float operator()(float a, float b) const { return A::forward(a + b); }
};
template <typename A>
struct ActivationGrad {
  __device__ float operator()(float g, float y) const { return A::backward(g, y); }
};

}  // namespace troupe_cuda
