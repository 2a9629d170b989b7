// Functions of one number, choices between several, and random numbers.
#include <troupe/gpu/kernels/functions.hpp>
#include <troupe/gpu/kernels/map.hpp>
#include <troupe/gpu/kernels/operands.hpp>

namespace troupe_cuda {

namespace {

template <typename F>
cudaError_t unary(const Call& call, cudaStream_t stream, F f) {
  return map(stream, elements(call.out[0]), f, data<float>(call.out[0]), data<const float>(call.in[0]));
}
template <typename F>
cudaError_t function(const Call& call, cudaStream_t stream) {
  return unary(call, stream, F{});
}
template <typename F>
cudaError_t binary(const Call& call, cudaStream_t stream, F f) {
  return map(stream, elements(call.out[0]), f, data<float>(call.out[0]), data<const float>(call.in[0]),
             data<const float>(call.in[1]));
}
template <typename F>
cudaError_t pairwise(const Call& call, cudaStream_t stream) {
  return binary(call, stream, F{});
}
/// real[0]: where both are equal.
cudaError_t greater(const Call& call, cudaStream_t stream) {
  return binary(call, stream, Greater{static_cast<float>(call.real[0])});
}
/// in: x, condition. integer[0]: x stays where the condition is 0 instead of where it is not.
cudaError_t keep_where(const Call& call, cudaStream_t stream) {
  return binary(call, stream, KeepWhere{call.integer[0] != 0});
}
/// in: condition, a, b.
cudaError_t where(const Call& call, cudaStream_t stream) {
  return map(stream, elements(call.out[0]), Where{}, data<float>(call.out[0]), data<const float>(call.in[0]),
             data<const float>(call.in[1]), data<const float>(call.in[2]));
}

/// in: x [items, choices, width], index [items]; integer: choices, width. NaN where there is no such choice.
cudaError_t gather(const Call& call, cudaStream_t stream) {
  const float* x = data<const float>(call.in[0]);
  const auto* index = data<const std::int32_t>(call.in[1]);
  float* out = data<float>(call.out[0]);
  const std::int64_t choices = call.integer[0], width = call.integer[1];
  return for_each(stream, elements(call.out[0]), [=] __device__(std::int64_t i) {
    const std::int64_t item = i / width, chosen = index[item];
    out[i] = chosen >= 0 && chosen < choices ? x[(item * choices + chosen) * width + i % width] : NAN;
  });
}
/// in: gradient [items, width], index [items]; out: [items, choices, width].
cudaError_t gather_grad(const Call& call, cudaStream_t stream) {
  const float* g = data<const float>(call.in[0]);
  const auto* index = data<const std::int32_t>(call.in[1]);
  float* out = data<float>(call.out[0]);
  const std::int64_t choices = call.integer[0], width = call.integer[1];
  return for_each(stream, elements(call.out[0]), [=] __device__(std::int64_t i) {
    const std::int64_t item = i / (choices * width), choice = i / width % choices;
    out[i] = choice == index[item] ? g[item * width + i % width] : 0;
  });
}

// ---- random numbers: those of the processor's kernel (learner/engine/cpu/kernels/math_bodies.hpp) ----

struct Words {
  std::uint32_t first, second;
};
__device__ inline std::uint32_t rotate(std::uint32_t x, int by) { return (x << by) | (x >> (32 - by)); }
/// Threefry-2x32 with 20 rounds (Salmon et al. 2011).
__device__ inline Words threefry(std::uint32_t key0, std::uint32_t key1, Words x) {
  const std::uint32_t keys[3] = {key0, key1, key0 ^ key1 ^ 0x1bd11bdaU};
  const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  x.first += keys[0];
  x.second += keys[1];
  for (std::uint32_t group = 0; group < 5; ++group) {
    for (int i = 0; i < 4; ++i) {
      x.first += x.second;
      x.second = rotate(x.second, rotations[group % 2][i]) ^ x.first;
    }
    x.first += keys[(group + 1) % 3];
    x.second += keys[(group + 2) % 3] + group + 1;
  }
  return x;
}
__device__ inline float unit(std::uint32_t bits) { return static_cast<float>(bits >> 8) * (1.0F / 16777216.0F); }

/// in: seed, count of the step. integer: stream, first row of the replica, elements of a row, 1 for normal numbers.
cudaError_t random(const Call& call, cudaStream_t stream) {
  const float *seed = data<const float>(call.in[0]), *count = data<const float>(call.in[1]);
  float* out = data<float>(call.out[0]);
  const auto sequence = static_cast<std::uint32_t>(call.integer[0]);
  const auto first = static_cast<std::uint32_t>(call.integer[1] * call.integer[2]);
  const bool normal = call.integer[3] != 0;
  return for_each(stream, elements(call.out[0]), [=] __device__(std::int64_t i) {
    std::uint32_t key;
    memcpy(&key, seed, sizeof(key));
    const std::uint32_t step = static_cast<std::uint32_t>(count[0]) + (static_cast<std::uint32_t>(count[1]) << 20);
    const Words words = threefry(key, sequence, {first + static_cast<std::uint32_t>(i), step});
    if (normal) {
      const float radius = sqrtf(-2 * logf(unit(words.first) + 1.0F / 33554432.0F));
      out[i] = radius * cosf(6.283185307179586F * unit(words.second));
    } else {
      out[i] = unit(words.first);
    }
  });
}
/// in, out: low and high, of which low counts to 2^20.
cudaError_t count_step(const Call& call, cudaStream_t stream) {
  const float* in = data<const float>(call.in[0]);
  float* out = data<float>(call.out[0]);
  return for_each(stream, 1, [=] __device__(std::int64_t) {
    const bool carries = in[0] + 1 >= 1048576;
    const float high = in[1];
    out[0] = carries ? 0 : in[0] + 1;
    out[1] = carries ? high + 1 : high;
  });
}

constexpr Kernel kKernels[] = {
    {"exp", f32_only<function<Exp>>, nullptr, Function::kExp},
    {"log", f32_only<function<Log>>, nullptr, Function::kLog},
    {"sqrt", f32_only<function<Sqrt>>, nullptr, Function::kSqrt},
    {"abs", f32_only<function<Abs>>, nullptr, Function::kAbs},
    {"sign", f32_only<function<Sign>>, nullptr, Function::kSign},
    {"softplus", f32_only<function<Softplus>>, nullptr, Function::kSoftplus},
    {"div", f32_only<pairwise<Div>>, nullptr, Function::kDiv},
    {"minimum", f32_only<pairwise<Minimum>>, nullptr, Function::kMinimum},
    {"maximum", f32_only<pairwise<Maximum>>, nullptr, Function::kMaximum},
    {"greater", f32_only<greater>, nullptr, Function::kGreater},
    {"where", f32_only<where>, nullptr, Function::kWhere},
    {"keep_where", f32_only<keep_where>, nullptr, Function::kKeepWhere},
    {"gather", f32_only<gather, 1>},
    {"gather_grad", f32_only<gather_grad, 1>},
    {"random", f32_only<random>},
    {"count_step", f32_only<count_step>},
};

}  // namespace

std::span<const Kernel> math_kernels() { return kKernels; }

}  // namespace troupe_cuda
