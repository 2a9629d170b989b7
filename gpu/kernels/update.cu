// The passes over flat parameter buffers, and what decides about them: learner/engine/cpu/kernels/update_bodies.hpp and
// the end of a step in learner/engine/cpu/cpu_update.cpp. A step that is skipped is known to the device alone, so every
// kernel looks for itself.
#include <cmath>

#include <troupe/gpu/kernels/map.hpp>
#include <troupe/gpu/kernels/reduce.hpp>
#include <troupe/gpu/kernels/update.hpp>

namespace troupe_cuda {
namespace {

/// How many groups of kLanes elements a pass over buffers at these addresses begins with; single ones are left.
std::int64_t packs_of(std::int64_t count, std::initializer_list<const void*> addresses) {
  return wide(kLanes, addresses) ? count / kLanes : 0;
}

/// What one kernel does to several parts: blockIdx.y is the part, of which each has as many blocks as the largest
/// needs.
constexpr std::int32_t kMostParts = 16;
template <typename P>
struct Parts {
  P of[kMostParts];
};
/// run(parts, blocks) for some of them at a time. make(given): the part; blocks_of(part): how many blocks it needs; one
/// that needs none is left out.
template <typename G, typename M, typename B, typename R>
cudaError_t by_parts(const G* given, std::int32_t count, M make, B blocks_of, R run) {
  Parts<decltype(make(*given))> parts{};
  dim3 blocks(0, 0);
  for (std::int32_t i = 0; i < count; ++i) {
    const auto part = make(given[i]);
    if (const unsigned needs = blocks_of(part); needs > 0) {
      parts.of[blocks.y++] = part;
      blocks.x = needs > blocks.x ? needs : blocks.x;
    }
    if (blocks.y == 0 || (blocks.y < kMostParts && i + 1 < count)) continue;
    if (const cudaError_t error = run(parts, blocks)) return error;
    blocks = dim3(0, 0);
  }
  return cudaSuccess;
}

// ---- deciding ----

constexpr int kNormThreads = 256;

struct SquaresPart {
  TroupeCudaSquares of;
  bool wide;
};
/// This thread's share of the squares of elements begin .. end - 1.
template <int N>
__device__ float squares_of(const float* values, std::int64_t begin, std::int64_t end) {
  float sum = 0;
  for (std::int64_t i = begin + N * threadIdx.x; i < end; i += N * kNormThreads) {
    if (i + N <= end) {
      const Lanes<N> value = load_lanes<N>(values, i);
      for (int j = 0; j < N; ++j) sum += value.v[j] * value.v[j];
    } else {
      for (std::int64_t j = i; j < end; ++j) sum += values[j] * values[j];
    }
  }
  return sum;
}
__global__ void __launch_bounds__(kNormThreads) sum_squares_kernel(Parts<SquaresPart> parts) {
  const SquaresPart& part = parts.of[blockIdx.y];
  const std::int64_t begin = std::int64_t{blockIdx.x} * TROUPE_CUDA_NORM_BLOCK, rest = part.of.count - begin;
  if (rest <= 0) return;
  const std::int64_t end = begin + (rest < TROUPE_CUDA_NORM_BLOCK ? rest : std::int64_t{TROUPE_CUDA_NORM_BLOCK});
  const float sum =
      block_sum(part.wide ? squares_of<kLanes>(part.of.values, begin, end) : squares_of<1>(part.of.values, begin, end));
  if (threadIdx.x == 0) part.of.squares[blockIdx.x] = static_cast<double>(sum);
}

constexpr int kDecideThreads = 256;
struct Gradients {
  TroupeCudaGradient of[TROUPE_CUDA_MAX_MINIMIZED];
};
__global__ void __launch_bounds__(kDecideThreads)
    decide_kernel(Gradients gradients, std::int32_t count, TroupeCudaControl* control) {
  // Only thread 0 reads and writes it.
  const std::int32_t taken = threadIdx.x == 0 ? control->taken + (control->skip == 0 ? 1 : 0) : 0;
  float broken = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    const TroupeCudaGradient& gradient = gradients.of[i];
    double sum = 0;
    for (std::int64_t block = threadIdx.x; block < gradient.blocks; block += kDecideThreads) {
      const double squares = gradient.squares[block];
      if (!(squares - squares == 0)) broken = 1;  // infinite or no number
      if (block < gradient.norm_blocks) sum += squares;
    }
    sum = block_sum(sum);
    if (threadIdx.x != 0) continue;
    const double most = gradient.norm_blocks > 0 ? gradient.rules[taken].max_global_norm : 0, norm = sqrt(sum);
    control->scale[i] = most > 0 && norm > most ? static_cast<float>(most / norm) : 1;
  }
  broken = block_sum(broken);
  if (threadIdx.x != 0) return;
  control->taken = taken;
  control->skip = broken > 0 ? 1 : 0;
}

constexpr int kRateThreads = 256;
__global__ void __launch_bounds__(kRateThreads) lars_rate_kernel(TroupeCudaLars variable, float* rate) {
  const TroupeCudaControl& control = *variable.control;
  if (control.skip != 0) return;
  double values = 0, gradient = 0;
  for (std::int64_t block = threadIdx.x; block < variable.blocks; block += kRateThreads) {
    values += variable.value_squares[block];
    gradient += variable.gradient_squares[block];
  }
  values = block_sum(values);
  gradient = block_sum(gradient);
  if (threadIdx.x != 0) return;
  const TroupeCudaRule& rule = variable.rules[control.taken];
  const double value_norm = sqrt(values), gradient_norm = control.scale[variable.minimized] * sqrt(gradient);
  const double shrunk = gradient_norm + rule.weight_decay * value_norm;
  *rate = value_norm > 0 && gradient_norm > 0 ? static_cast<float>(rule.trust_coefficient * value_norm / shrunk) : 1;
}

// ---- copies and averages ----

/// A target or an average, on its way to the values it follows.
struct Follower {
  float* values;
  std::uint16_t* shadow;
  float take;
  bool copies;

  /// In this form the rounded factor moves no fixed point.
  static Follower of(float* values, std::uint16_t* shadow, double decay) {
    return {values, shadow, static_cast<float>(1 - decay), decay == 0};
  }
  template <int N>
  __device__ void move(Lanes<N> value, std::int64_t i) const {
    if (!copies) {
      const Lanes<N> old = load_lanes<N>(values, i);
      value = old + take * (value - old);
    }
    store_lanes(value, values, i);
    if (shadow != nullptr) store_lanes(value, shadow, i);
  }
};

__global__ void follow_kernel(const float* values, Follower follower, std::int64_t count, std::int64_t packs,
                              const std::int32_t* due, const TroupeCudaControl* control) {
  if (control->skip != 0 || due[control->taken] == 0) return;
  over_elements(count, packs,
                [&](auto width, std::int64_t i) { follower.move(load_lanes<decltype(width)::value>(values, i), i); });
}

// ---- optimisers ----

struct Pass {
  TroupeCudaUpdate buffers;
  Follower follower;
  bool follows;
  TroupeCudaRule rule;
  float scale;  ///< of the gradient: clipping's, and what the rule does to gradient and decay alike

  template <int N>
  __device__ void finish(const Lanes<N>& value, std::int64_t i) const {
    store_lanes(value, buffers.values, i);
    if (buffers.shadow != nullptr) store_lanes(value, buffers.shadow, i);
    if (follows) follower.move(value, i);
  }
  /// Weight decay scales the value.
  template <int N>
  __device__ void adam(std::int64_t i, float weight_decay) const {
    const Lanes<N> g = scale * load_lanes<N>(buffers.gradient, i), old = load_lanes<N>(buffers.values, i);
    const Lanes<N> m = rule.beta1 * load_lanes<N>(buffers.slot0, i) + (1 - rule.beta1) * g;
    const Lanes<N> v = rule.beta2 * load_lanes<N>(buffers.slot1, i) + (1 - rule.beta2) * (g * g);
    Lanes<N> value;
    for (int j = 0; j < N; ++j) {
      const float step = rule.step_size * m.v[j] / (sqrtf(v.v[j]) * rule.inverse_sqrt_correction + rule.epsilon);
      value.v[j] = (1 - weight_decay) * old.v[j] - step;
    }
    store_lanes(m, buffers.slot0, i);
    store_lanes(v, buffers.slot1, i);
    finish(value, i);
  }
  /// Weight decay is a part of the gradient.
  template <int N>
  __device__ void sgd(std::int64_t i, float weight_decay) const {
    const Lanes<N> old = load_lanes<N>(buffers.values, i);
    Lanes<N> g = scale * load_lanes<N>(buffers.gradient, i) + weight_decay * old;
    if (buffers.slot0 != nullptr) {
      const Lanes<N> velocity = rule.momentum * load_lanes<N>(buffers.slot0, i) + g;
      store_lanes(velocity, buffers.slot0, i);
      g = rule.nesterov != 0 ? rule.momentum * velocity + g : velocity;
    }
    finish(old - rule.step_size * g, i);
  }
  template <int N>
  __device__ void rms_prop(std::int64_t i, float weight_decay) const {
    const Lanes<N> old = load_lanes<N>(buffers.values, i);
    const Lanes<N> g = scale * load_lanes<N>(buffers.gradient, i) + weight_decay * old;
    const Lanes<N> v = rule.beta2 * load_lanes<N>(buffers.slot0, i) + (1 - rule.beta2) * (g * g);
    Lanes<N> move;
    for (int j = 0; j < N; ++j) {
      move.v[j] = rule.inner_rate * g.v[j] / (sqrtf(v.v[j] + rule.inside_root) + rule.epsilon);
    }
    store_lanes(v, buffers.slot0, i);
    if (buffers.slot1 != nullptr) {
      move = rule.momentum * load_lanes<N>(buffers.slot1, i) + move;
      store_lanes(move, buffers.slot1, i);
    }
    finish(old - rule.step_size * move, i);
  }
};
struct UpdatePart {
  TroupeCudaUpdate buffers;
  Follower follower;
  std::int64_t packs;
};
__global__ void __launch_bounds__(kThreads) update_kernel(Parts<UpdatePart> parts) {
  const UpdatePart& part = parts.of[blockIdx.y];
  const TroupeCudaUpdate& buffers = part.buffers;
  const std::int64_t packs = part.packs;
  const TroupeCudaControl& control = *buffers.control;
  if (control.skip != 0) return;
  const bool follows = buffers.follower != nullptr && buffers.due[control.taken] != 0;
  const TroupeCudaRule& rule = buffers.rules[control.taken];
  const float rate = rule.gradient_scale * (buffers.rate != nullptr ? *buffers.rate : 1);
  const Pass pass{buffers, part.follower, follows, rule, control.scale[buffers.minimized] * rate};
  const float weight_decay = buffers.decays != 0 ? rule.weight_decay * rate : 0;
  if (rule.pass == TROUPE_CUDA_ADAM) {
    over_elements(buffers.count, packs,
                  [&](auto width, std::int64_t i) { pass.adam<decltype(width)::value>(i, weight_decay); });
  } else if (rule.pass == TROUPE_CUDA_RMS_PROP) {
    over_elements(buffers.count, packs,
                  [&](auto width, std::int64_t i) { pass.rms_prop<decltype(width)::value>(i, weight_decay); });
  } else {
    over_elements(buffers.count, packs,
                  [&](auto width, std::int64_t i) { pass.sgd<decltype(width)::value>(i, weight_decay); });
  }
}

// ---- lengths ----

constexpr int kKeptThreads = 256;

struct KeptPart {
  TroupeCudaKept of;
  int width;
};
/// A block takes `width` columns, whose rows its threads share: thread t has column t % width.
__global__ void __launch_bounds__(kKeptThreads) keep_length_kernel(Parts<KeptPart> parts) {
  const TroupeCudaKept& kept = parts.of[blockIdx.y].of;
  const int width = parts.of[blockIdx.y].width;
  __shared__ double part[kKeptThreads];
  if (kept.control->skip != 0 || std::int64_t{blockIdx.x} * width >= kept.columns) return;
  const int thread = static_cast<int>(threadIdx.x), lanes = kKeptThreads / width;
  const std::int64_t column = std::int64_t{blockIdx.x} * width + thread % width;
  const bool has_column = column < kept.columns;
  double sum = 0;
  for (int p = 0; p < TROUPE_CUDA_KEPT_PARTS && has_column; ++p) {
    for (std::int64_t row = thread / width; row < kept.rows[p]; row += lanes) {
      const double x = kept.values[p][row * kept.columns + column];
      sum += x * x;
    }
  }
  part[thread] = sum;
  for (int half = lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half * width) part[thread] += part[thread + half * width];
  }
  __syncthreads();
  const double length = sqrt(part[thread % width]), factor = kept.length / (length > 1e-8 ? length : 1e-8);
  for (int p = 0; p < TROUPE_CUDA_KEPT_PARTS && has_column; ++p) {
    for (std::int64_t row = thread / width; row < kept.rows[p]; row += lanes) {
      const std::int64_t at = row * kept.columns + column;
      const auto value = static_cast<float>(kept.values[p][at] * factor);
      kept.values[p][at] = value;
      if (kept.shadow[p] != nullptr) store_lanes(Lanes<1>{{value}}, kept.shadow[p], at);
    }
  }
}

// ---- states and gradients ----

struct AssignPart {
  TroupeCudaAssign of;
  std::int64_t packs;
};
__global__ void __launch_bounds__(kThreads) assign_kernel(Parts<AssignPart> parts, const TroupeCudaControl* control) {
  if (control->skip != 0) return;
  const auto& [of, packs] = parts.of[blockIdx.y];
  const float* const from = of.from;
  float* const to = of.to;
  over_elements(of.count, packs,
                [&](auto width, std::int64_t i) { store_lanes(load_lanes<decltype(width)::value>(from, i), to, i); });
}

__global__ void accumulate_kernel(float* gradient, float* sum, std::int64_t count, std::int64_t packs, float weight,
                                  float share, bool last) {
  over_elements(count, packs, [&](auto width, std::int64_t i) {
    constexpr int N = decltype(width)::value;
    const Lanes<N> total = load_lanes<N>(sum, i) + weight * load_lanes<N>(gradient, i);
    if (last) {
      store_lanes(share * total, gradient, i);
    } else {
      store_lanes(total, sum, i);
    }
  });
}

}  // namespace

cudaError_t sum_squares(const TroupeCudaSquares* given, std::int32_t count, cudaStream_t stream) {
  return by_parts(
      given, count,
      [](const TroupeCudaSquares& part) {
        return SquaresPart{part, packs_of(part.count, {part.values}) > 0};
      },
      [](const SquaresPart& part) {
        return static_cast<unsigned>((part.of.count + TROUPE_CUDA_NORM_BLOCK - 1) / TROUPE_CUDA_NORM_BLOCK);
      },
      [&](const auto& parts, dim3 blocks) { return launch(sum_squares_kernel, blocks, kNormThreads, stream, parts); });
}

cudaError_t decide(const TroupeCudaGradient* gradients, std::int32_t count, TroupeCudaControl* control,
                   cudaStream_t stream) {
  if (count < 0 || count > TROUPE_CUDA_MAX_MINIMIZED) return cudaErrorInvalidValue;
  Gradients by_value{};
  for (std::int32_t i = 0; i < count; ++i) by_value.of[i] = gradients[i];
  return launch(decide_kernel, 1, kDecideThreads, stream, by_value, count, control);
}

cudaError_t lars_rate(const TroupeCudaLars& variable, float* rate, cudaStream_t stream) {
  if (variable.minimized < 0 || variable.minimized >= TROUPE_CUDA_MAX_MINIMIZED) return cudaErrorInvalidValue;
  return launch(lars_rate_kernel, 1, kRateThreads, stream, variable, rate);
}

cudaError_t update(const TroupeCudaUpdate* given, std::int32_t count, cudaStream_t stream) {
  for (std::int32_t i = 0; i < count; ++i) {
    if (given[i].minimized < 0 || given[i].minimized >= TROUPE_CUDA_MAX_MINIMIZED) return cudaErrorInvalidValue;
  }
  return by_parts(
      given, count,
      [](const TroupeCudaUpdate& part) {
        return UpdatePart{part, Follower::of(part.follower, part.follower_shadow, part.decay),
                          packs_of(part.count, {part.values, part.slot0, part.slot1, part.gradient, part.shadow,
                                                part.follower, part.follower_shadow})};
      },
      [](const UpdatePart& part) { return blocks_for_elements(part.buffers.count, part.packs); },
      [&](const auto& parts, dim3 blocks) { return launch(update_kernel, blocks, kThreads, stream, parts); });
}

cudaError_t keep_length(const TroupeCudaKept* given, std::int32_t count, cudaStream_t stream) {
  return by_parts(
      given, count,
      [](const TroupeCudaKept& part) {
        return KeptPart{part, part.columns == 1 ? 1 : 8};  // 32 bytes of each row, and many blocks for few columns
      },
      [](const KeptPart& part) { return static_cast<unsigned>((part.of.columns + part.width - 1) / part.width); },
      [&](const auto& parts, dim3 blocks) { return launch(keep_length_kernel, blocks, kKeptThreads, stream, parts); });
}

cudaError_t follow(const float* values, float* average, std::uint16_t* shadow, double decay, std::int64_t count,
                   const std::int32_t* due, const TroupeCudaControl* control, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const std::int64_t packs = packs_of(count, {values, average, shadow});
  return launch(follow_kernel, blocks_for_elements(count, packs), kThreads, stream, values,
                Follower::of(average, shadow, decay), count, packs, due, control);
}

cudaError_t assign(const TroupeCudaAssign* given, std::int32_t count, const TroupeCudaControl* control,
                   cudaStream_t stream) {
  return by_parts(
      given, count,
      [](const TroupeCudaAssign& part) {
        return AssignPart{part, packs_of(part.count, {part.from, part.to})};
      },
      [](const AssignPart& part) { return blocks_for_elements(part.of.count, part.packs); },
      [&](const auto& parts, dim3 blocks) { return launch(assign_kernel, blocks, kThreads, stream, parts, control); });
}

cudaError_t accumulate(float* gradient, float* sum, std::int64_t count, float weight, float share, std::int32_t last,
                       cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const std::int64_t packs = packs_of(count, {gradient, sum});
  return launch(accumulate_kernel, blocks_for_elements(count, packs), kThreads, stream, gradient, sum, count, packs,
                weight, share, last != 0);
}

cudaError_t to_bf16(const float* from, std::uint16_t* to, std::int64_t count, cudaStream_t stream) {
  return map(stream, count, Same{}, to, from);
}

}  // namespace troupe_cuda
