#pragma once
// The passes over flat parameter buffers: optimisers, gradient sums, bfloat16 copies. float32 only.
#include <troupe/learner/engine/cpu/kernels/kernel_bodies.hpp>

namespace {

using troupe::learner::UpdateArgs;

struct Update {
  /// Stripes are added in the order of learner/engine/tree_sum.hpp, which is not included here (see simd.hpp).
  static Float gradient(const float* const* gradients, std::int64_t count, std::int64_t i, int n) {
    if (count == 1) return load<Float>(gradients[0], i, n);
    std::int64_t half = 1;
    while (2 * half < count) half *= 2;
    return gradient(gradients, half, i, n) + gradient(gradients + half, count - half, i, n);
  }
  template <class F>
  static void over(std::int64_t begin, std::int64_t end, F&& f) {
    for_vectors<Float>(end - begin, [&](std::int64_t i, int n) { f(begin + i, n); });
  }

  /// Values of which the caches would keep nothing until somebody reads them: 32 MiB.
  static constexpr std::int64_t kStreamed = std::int64_t{8} << 20;

  /// Makes each value f(what it was, i, n).
  template <class F>
  static void over_values(const UpdateArgs& a, F&& f) {
    const float* const before = a.before != nullptr ? a.before : a.values;
    const auto next = [&](std::int64_t i, int n) {
      const Float value = f(load<Float>(before, i, n), i, n);
      if (a.shadow != nullptr) store_bf16(value, a.shadow + i, n);
      return value;
    };
    const auto write = [&](std::int64_t i, int n) { store(next(i, n), a.values, i, n); };
    if (a.before == nullptr || a.end - a.begin < kStreamed) return over(a.begin, a.end, write);
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(FloatVector));
    const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(a.values + a.begin)) % kBytes;
    const std::int64_t first = a.begin + (kBytes - past) % kBytes / static_cast<std::int64_t>(sizeof(float));
    const std::int64_t end = first + (a.end - first) / Float::kLanes * Float::kLanes;
    over(a.begin, first, write);
    over(first, end, [&](std::int64_t i, int n) { next(i, n).stream(a.values + i); });
    Float::fence();
    over(end, a.end, write);
  }

  static void adam(const UpdateArgs& a) {
    const Float beta1 = Float::set(a.beta1), beta2 = Float::set(a.beta2), scale = Float::set(a.gradient_scale);
    const Float rest1 = Float::set(1 - a.beta1), rest2 = Float::set(1 - a.beta2);
    const Float step = Float::set(a.step_size), epsilon = Float::set(a.epsilon);
    const Float correction = Float::set(a.inverse_sqrt_correction), keep = Float::set(1 - a.weight_decay);
    over_values(a, [&](Float old, std::int64_t i, int n) {
      const Float g = scale * gradient(a.gradients, a.gradient_count, i, n);
      const Float m = beta1 * load<Float>(a.slot0, i, n) + rest1 * g;
      const Float v = beta2 * load<Float>(a.slot1, i, n) + rest2 * (g * g);
      store(m, a.slot0, i, n);
      store(v, a.slot1, i, n);
      return keep * old - step * m / (sqrt(v) * correction + epsilon);
    });
  }
  static void sgd(const UpdateArgs& a) {
    const Float momentum = Float::set(a.momentum), scale = Float::set(a.gradient_scale);
    const Float step = Float::set(a.step_size), decay = Float::set(a.weight_decay);
    over_values(a, [&](Float old, std::int64_t i, int n) {
      Float g = scale * gradient(a.gradients, a.gradient_count, i, n) + decay * old;
      if (a.slot0 != nullptr) {
        const Float velocity = momentum * load<Float>(a.slot0, i, n) + g;
        store(velocity, a.slot0, i, n);
        g = a.nesterov ? momentum * velocity + g : velocity;
      }
      return old - step * g;
    });
  }
  static void rms_prop(const UpdateArgs& a) {
    const Float rest = Float::set(1 - a.beta2), scale = Float::set(a.gradient_scale);
    const Float step = Float::set(a.step_size), inner = Float::set(a.inner_rate), decay = Float::set(a.weight_decay);
    const Float inside = Float::set(a.inside_root), outside = Float::set(a.epsilon), momentum = Float::set(a.momentum);
    over_values(a, [&](Float old, std::int64_t i, int n) {
      const Float g = scale * gradient(a.gradients, a.gradient_count, i, n) + decay * old;
      const Float before = load<Float>(a.slot0, i, n);
      // Of two products that are added up, the compiler fuses either one, here and there another: so there is but one.
      const Float v = before + rest * (g * g - before);
      store(v, a.slot0, i, n);
      Float move = inner * g / (sqrt(v + inside) + outside);
      if (a.slot1 != nullptr) {
        move = momentum * load<Float>(a.slot1, i, n) + move;
        store(move, a.slot1, i, n);
      }
      return old - step * move;
    });
  }
  static void sum_gradients(const float* const* gradients, std::int64_t count, float* out, std::int64_t begin,
                            std::int64_t end) {
    over(begin, end, [&](std::int64_t i, int n) { store(gradient(gradients, count, i, n), out, i, n); });
  }
  static void average(const float* values, float* average, std::uint16_t* shadow, double decay, std::int64_t begin,
                      std::int64_t end) {
    const Float take =
        Float::set(static_cast<float>(1 - decay));  // in this form the rounded factor moves no fixed point
    over(begin, end, [&](std::int64_t i, int n) {
      const Float old = load<Float>(average, i, n);
      const Float mixed = old + take * (load<Float>(values, i, n) - old);
      store(mixed, average, i, n);
      if (shadow != nullptr) store_bf16(mixed, shadow + i, n);
    });
  }
  /// Blocks in float32, their sums in float64.
  static double sum_squares(const float* x, std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kBlock = 4096;
    double total = 0;
    for (std::int64_t from = begin; from < end; from += kBlock) {
      const std::int64_t to = from + kBlock < end ? from + kBlock : end;
      Float sum = Float::set(0);
      over(from, to, [&](std::int64_t i, int n) {
        const Float value = load<Float>(x, i, n);
        sum = sum + value * value;
      });
      total += sum.sum();
    }
    return total;
  }
  static void to_bf16(const float* x, std::uint16_t* out, std::int64_t begin, std::int64_t end) {
    over(begin, end, [&](std::int64_t i, int n) { store_bf16(load<Float>(x, i, n), out + i, n); });
  }
  static void cast_bf16(const KernelArgs& args) {
    to_bf16(args.in[0].as<float>(), args.out[0].as<std::uint16_t>(), 0, args.out[0].elements());
  }
  static void from_bf16(const std::uint16_t* x, float* out, std::int64_t begin, std::int64_t end) {
    over(begin, end, [&](std::int64_t i, int n) { store(load_bf16(x + i, n), out, i, n); });
  }
  static void round_bf16(const float* x, float* out, std::int64_t begin, std::int64_t end) {
    over(begin, end, [&](std::int64_t i, int n) {
      std::uint16_t half[Float::kLanes];
      store_bf16(load<Float>(x, i, n), half, n);
      store(load_bf16(half, n), out, i, n);
    });
  }
  static void cast_f32(const KernelArgs& args) {
    from_bf16(args.in[0].as<std::uint16_t>(), args.out[0].as<float>(), 0, args.out[0].elements());
  }
};

}  // namespace
