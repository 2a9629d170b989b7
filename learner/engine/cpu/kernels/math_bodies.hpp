#pragma once
// The bodies of the kernels behind learner/ops/math, choice, broadcast and random. Included once by each isa_*.cpp.
#include <troupe/learner/engine/cpu/kernels/kernel_bodies.hpp>

namespace {

template <class V>
struct MathKernels {
  using T = typename V::T;
  using K = Kernels<V>;

  // ---- functions of one or two numbers ----

  template <class F>
  static void unary(const KernelArgs& args, F&& f) {
    const T* x = args.in[0].as<T>();
    T* out = args.out[0].as<T>();
    for_vectors<V>(args.out[0].elements(), [&](std::int64_t i, int n) { store(f(load<V>(x, i, n)), out, i, n); });
  }
  static V absolute(V x) { return max(x, V::set(0) - x); }
  static V sign(V x) {
    const V zero = V::set(0);
    return if_greater(x, zero, V::set(1), if_greater(zero, x, V::set(-1), x));  // a NaN passes
  }
  /// log(1 + x) for x in [0, 1]: what 1 + x has rounded off is made good by the quotient.
  static V log_of_one_plus(V x) {
    const V one = V::set(1), sum = one + x, added = sum - one;
    return if_equal(added, V::set(0), x, log(sum) * x / if_equal(added, V::set(0), one, added));
  }
  /// exp(x) for all x: at the ends of the polynomial's range by two factors that are within it.
  static V exp_of(V x) {
    if constexpr (sizeof(T) == 8) {
      return ::exp(x);
    } else {
      const V infinite = V::set(static_cast<T>(__builtin_inff()));
      const V large = ::exp(x - V::set(2)) * V::set(T(7.38905609893065));       // e^2
      const V small = ::exp(x + V::set(20)) * V::set(T(2.061153622438558e-9));  // e^-20
      const V above = if_greater(x, V::set(T(88.72284)), infinite, large);
      return if_greater(x, V::set(88), above, if_greater(V::set(-87), x, small, if_equal(x, x, ::exp(x), x)));
    }
  }
  static void exp(const KernelArgs& args) {
    unary(args, [](V x) { return exp_of(x); });
  }
  static void log_kernel(const KernelArgs& args) {
    unary(args, [](V x) { return log(x); });
  }
  static void sqrt_kernel(const KernelArgs& args) {
    unary(args, [](V x) { return sqrt(x); });
  }
  static void abs(const KernelArgs& args) {
    unary(args, [](V x) { return absolute(x); });
  }
  static void sign_kernel(const KernelArgs& args) {
    unary(args, [](V x) { return sign(x); });
  }
  /// log(1 + exp(x)), without overflow, and with small results that are right in all their digits.
  static void softplus(const KernelArgs& args) {
    unary(args, [](V x) { return max(V::set(0), x) + log_of_one_plus(exp_of(V::set(0) - absolute(x))); });
  }
  static void div(const KernelArgs& args) {
    K::binary(args, [](V a, V b) { return a / b; });
  }

  // ---- choices ----

  static V if_nan(V x, V yes, V no) { return if_equal(x, x, no, yes); }
  /// The smaller one; a NaN passes, whichever it is.
  static void minimum(const KernelArgs& args) {
    K::binary(args, [](V a, V b) { return if_nan(a, a, min(a, b)); });
  }
  static void maximum(const KernelArgs& args) {
    K::binary(args, [](V a, V b) { return if_nan(a, a, max(a, b)); });
  }
  /// 1 where a > b, real[0] where they are equal, else 0.
  static void greater(const KernelArgs& args) {
    const V equal = V::set(static_cast<T>(args.attr->real[0]));
    K::binary(args, [=](V a, V b) { return if_greater(a, b, V::set(1), if_equal(a, b, equal, V::set(0))); });
  }
  /// in: condition, a, b: a where the condition is not 0.
  static void where(const KernelArgs& args) {
    const T *condition = args.in[0].as<T>(), *a = args.in[1].as<T>(), *b = args.in[2].as<T>();
    T* out = args.out[0].as<T>();
    for_vectors<V>(args.out[0].elements(), [&](std::int64_t i, int n) {
      store(if_equal(load<V>(condition, i, n), V::set(0), load<V>(b, i, n), load<V>(a, i, n)), out, i, n);
    });
  }
  /// in: x, condition: x where the condition is not 0, or where it is if integer[0] says so; else 0.
  static void keep_where(const KernelArgs& args) {
    const V zero = V::set(0);
    if (args.attr->integer[0] != 0) {
      K::binary(args, [=](V x, V condition) { return if_equal(condition, zero, x, zero); });
    } else {
      K::binary(args, [=](V x, V condition) { return if_equal(condition, zero, zero, x); });
    }
  }
  /// in: x [items, choices, width], index [items]; integer: choices, width. NaN where there is no such choice.
  static void gather(const KernelArgs& args) {
    const std::int64_t choices = args.attr->integer[0], width = args.attr->integer[1];
    const T* x = args.in[0].as<T>();
    const auto* index = args.in[1].as<std::int32_t>();
    T* out = args.out[0].as<T>();
    for (std::int64_t item = 0; item < args.in[1].elements(); ++item, x += choices * width, out += width) {
      if (index[item] >= 0 && index[item] < choices) {
        K::copy_elements(x + index[item] * width, out, width);
      } else {
        for (std::int64_t i = 0; i < width; ++i) out[i] = static_cast<T>(__builtin_nan(""));
      }
    }
  }
  /// in: gradient [items, width], index [items]: zeros, and the gradient at the index.
  static void gather_grad(const KernelArgs& args) {
    const std::int64_t choices = args.attr->integer[0], width = args.attr->integer[1];
    const T* g = args.in[0].as<T>();
    const auto* index = args.in[1].as<std::int32_t>();
    T* out = args.out[0].as<T>();
    K::zero(out, args.out[0].elements());
    for (std::int64_t item = 0; item < args.in[1].elements(); ++item, g += width, out += choices * width) {
      if (index[item] >= 0 && index[item] < choices) K::copy_elements(g, out + index[item] * width, width);
    }
  }

  // ---- broadcasting ----

  /// Calls f(offset in whole, offset in part, stride of the last dimension in part) for each row of `whole`, whose last
  /// dimension has `cols` elements. Where `part` lacks a dimension or has 1 there, its elements repeat.
  template <class F>
  static void for_rows_of(const troupe::learner::Operand& whole, const troupe::learner::Operand& part, F&& f) {
    const int rank = whole.shape->rank(), missing = rank - part.shape->rank();
    std::int64_t strides[8] = {}, at[8] = {}, stride = 1;
    for (int d = rank - 1; d >= missing; --d) {
      const std::int64_t size = (*part.shape)[d - missing];
      strides[d] = size == 1 ? 0 : stride;
      stride *= size;
    }
    const std::int64_t cols = rank == 0 ? 1 : (*whole.shape)[rank - 1];
    std::int64_t offset = 0;
    for (std::int64_t done = 0; done < whole.elements(); done += cols) {
      f(done, offset, rank == 0 ? 0 : strides[rank - 1], cols);
      for (int d = rank - 2; d >= 0; --d) {
        offset += strides[d];
        if (++at[d] < (*whole.shape)[d]) break;
        offset -= strides[d] * at[d];
        at[d] = 0;
      }
    }
  }
  static void broadcast(const KernelArgs& args) {
    const T* x = args.in[0].as<T>();
    T* out = args.out[0].as<T>();
    for_rows_of(args.out[0], args.in[0],
                [&](std::int64_t to, std::int64_t from, std::int64_t stride, std::int64_t cols) {
                  if (stride != 0) return K::copy_elements(x + from, out + to, cols);
                  const V value = V::set(x[from]);
                  for_vectors<V>(cols, [&](std::int64_t i, int n) { store(value, out + to, i, n); });
                });
  }
  static void sum_to(const KernelArgs& args) {
    const T* x = args.in[0].as<T>();
    T* out = args.out[0].as<T>();
    K::zero(out, args.out[0].elements());
    for_rows_of(args.in[0], args.out[0],
                [&](std::int64_t from, std::int64_t to, std::int64_t stride, std::int64_t cols) {
                  if (stride == 0) {
                    out[to] += K::reduce_sum(cols, [&](std::int64_t i, int n) { return load<V>(x + from, i, n); });
                  } else {
                    for_vectors<V>(cols, [&](std::int64_t i, int n) {
                      store(load<V>(out + to, i, n) + load<V>(x + from, i, n), out + to, i, n);
                    });
                  }
                });
  }
  static void log_sum_exp(const KernelArgs& args) {
    const std::int64_t cols = args.in[0].cols;
    const T* x = args.in[0].as<T>();
    for (std::int64_t row = 0; row < args.in[0].rows; ++row, x += cols) {
      args.out[0].as<T>()[row] = K::softmax_row(x, nullptr, cols).shift();
    }
  }

  // ---- random numbers ----

  using Bits = typename V::Bits;
  static Bits rotate(Bits x, int by) { return (x << by) | (x >> (32 - by)); }
  struct Words {
    Bits first, second;
  };
  /// Threefry-2x32 with 20 rounds (Salmon et al. 2011, section 3.3), which only adds, rotates and combines.
  static Words threefry(const std::uint32_t (&key)[2], Words x) {
    const std::uint32_t keys[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1bd11bdaU};
    constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    x.first += keys[0];
    x.second += keys[1];
    for (std::uint32_t group = 0; group < 5; ++group) {
      for (const int by : kRotations[group % 2]) {
        x.first += x.second;
        x.second = rotate(x.second, by) ^ x.first;
      }
      x.first += keys[(group + 1) % 3];
      x.second += keys[(group + 2) % 3] + group + 1;
    }
    return x;
  }
  /// The upper 24 bits: a multiple of 2^-24 in [0, 1).
  static V unit(Bits bits) { return V::of_bits(bits >> 8) * V::set(T(1) / T(16777216)); }

  /// in: seed [1], count of the step [2], low and high. integer: stream, first row of the replica, elements of a row,
  /// 1 for normal numbers. An element depends on these and on its row within the global batch, not on who computes it.
  static void random(const KernelArgs& args) {
    const T* seed = args.in[0].as<T>();
    const T* count = args.in[1].as<T>();
    const float bits = static_cast<float>(*seed);
    std::uint32_t key[2];
    __builtin_memcpy(&key[0], &bits, sizeof bits);
    key[1] = static_cast<std::uint32_t>(args.attr->integer[0]);
    const std::uint32_t step =
        static_cast<std::uint32_t>(count[0]) + (static_cast<std::uint32_t>(count[1]) << kCountBits);
    const std::int64_t first_row = args.attr->integer[1] + (args.valid == nullptr ? 0 : args.valid->first);
    const auto first = static_cast<std::uint32_t>(first_row * args.attr->integer[2]);
    const bool normal = args.attr->integer[3] != 0;
    T* out = args.out[0].as<T>();
    for_vectors<V>(args.out[0].elements(), [&](std::int64_t i, int n) {
      const Words words = threefry(key, {V::bits_from(first + static_cast<std::uint32_t>(i)), Bits{} + step});
      if (!normal) return store(unit(words.first), out, i, n);
      // Box and Muller 1958; the logarithm's argument is above 0.
      const V radius = sqrt(V::set(-2) * log(unit(words.first) + V::set(T(1) / T(33554432))));
      store(radius * cos_of_turn(unit(words.second)), out, i, n);
    });
  }
  static constexpr int kCountBits = 20;
  /// in, out: low and high. Counts by one, exactly in floats up to 2^44.
  static void count_step(const KernelArgs& args) {
    const T* in = args.in[0].as<T>();
    T* out = args.out[0].as<T>();
    const T low = in[0] + 1, high = in[1];
    const bool carries = low >= T(1 << kCountBits);
    out[0] = carries ? T(0) : low;
    out[1] = carries ? high + 1 : high;
  }
};

}  // namespace
