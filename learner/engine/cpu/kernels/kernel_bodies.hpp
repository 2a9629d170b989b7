#pragma once
// The bodies of the kernels over a vector type V (simd.hpp). Included once by each isa_*.cpp; see kernel_table.hpp for
// the rules that follow from being compiled several times. Elementwise and row kernels; products and optimisers are in
// gemm_bodies.hpp and update_bodies.hpp.
#include <troupe/learner/engine/cpu/gemm.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#include <troupe/learner/engine/cpu/kernels/simd.hpp>

namespace {

using troupe::learner::KernelArgs;
using troupe::learner::Operand;
using troupe::learner::ValidRows;

/// Calls f(offset, lanes) for whole vectors and then for the rest; load and store below take that pair.
template <class V, class F>
inline void for_vectors(std::int64_t count, F&& f) {
  std::int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) f(i, V::kLanes);
  if (i < count) f(i, static_cast<int>(count - i));
}
/// The same with a slot from 0 to 3, for sums: four of them in flight hide the latency of an addition.
constexpr int kSlots = 4;
template <class V, class F>
inline void for_vectors_in_slots(std::int64_t count, F&& f) {
  std::int64_t i = 0;
  for (; i + kSlots * V::kLanes <= count; i += kSlots * V::kLanes) {
    for (int slot = 0; slot < kSlots; ++slot) f(i + slot * V::kLanes, V::kLanes, slot);
  }
  for (; i + V::kLanes <= count; i += V::kLanes) f(i, V::kLanes, 0);
  if (i < count) f(i, static_cast<int>(count - i), 1);
}
/// Four sums that become one, always in the same order.
template <class V>
struct Sums {
  V part[kSlots] = {V::set(0), V::set(0), V::set(0), V::set(0)};
  typename V::T total() const { return ((part[0] + part[1]) + (part[2] + part[3])).sum(); }
};
template <class V>
inline V load(const typename V::T* p, std::int64_t i, int n) {
  return n == V::kLanes ? V::load(p + i) : V::load(p + i, n);
}
template <class V>
inline void store(V x, typename V::T* p, std::int64_t i, int n) {
  if (n == V::kLanes) {
    x.store(p + i);
  } else {
    x.store(p + i, n);
  }
}
// The same for values that are stored as bfloat16: kernels whose images may be so have a storage type S beside V.
template <class V>
inline V load(const std::uint16_t* p, std::int64_t i, int n) {
  return load_bf16(p + i, n);
}
inline void store(Float x, std::uint16_t* p, std::int64_t i, int n) { store_bf16(x, p + i, n); }

template <class V>
struct Kernels {
  using T = typename V::T;

  // ---- element by element ----

  template <class F>
  static void binary(const KernelArgs& args, F&& f) {
    const T *a = args.in[0].as<T>(), *b = args.in[1].as<T>();
    T* out = args.out[0].as<T>();
    for_vectors<V>(args.out[0].elements(),
                   [&](std::int64_t i, int n) { store(f(load<V>(a, i, n), load<V>(b, i, n)), out, i, n); });
  }
  static void add(const KernelArgs& args) {
    binary(args, [](V a, V b) { return a + b; });
  }
  static void sub(const KernelArgs& args) {
    binary(args, [](V a, V b) { return a - b; });
  }
  /// real[0] * a * b.
  static void mul(const KernelArgs& args) {
    const V factor = V::set(static_cast<T>(args.attr->real[0]));
    binary(args, [=](V a, V b) { return factor * (a * b); });
  }
  /// real[0] * x + real[1].
  static void affine(const KernelArgs& args) {
    const V factor = V::set(static_cast<T>(args.attr->real[0])), offset = V::set(static_cast<T>(args.attr->real[1]));
    const T* x = args.in[0].as<T>();
    T* out = args.out[0].as<T>();
    for_vectors<V>(args.out[0].elements(),
                   [&](std::int64_t i, int n) { store(factor * load<V>(x, i, n) + offset, out, i, n); });
  }
  /// To [real[0], real[1]].
  static void clip(const KernelArgs& args) {
    const V low = V::set(static_cast<T>(args.attr->real[0])), high = V::set(static_cast<T>(args.attr->real[1]));
    const T* x = args.in[0].as<T>();
    T* out = args.out[0].as<T>();
    for_vectors<V>(args.out[0].elements(),
                   [&](std::int64_t i, int n) { store(min(high, max(low, load<V>(x, i, n))), out, i, n); });
  }
  /// in: gradient, x.
  static void clip_grad(const KernelArgs& args) {
    const V low = V::set(static_cast<T>(args.attr->real[0])), high = V::set(static_cast<T>(args.attr->real[1]));
    binary(args, [=](V g, V x) { return if_greater(low, x, V::set(0), if_greater(x, high, V::set(0), g)); });
  }

  // ---- activations: integer[0] is the kind, which is decided once a call ----

  struct None {
    static V forward(V x) { return x; }
    static V backward(V g, V) { return g; }
  };
  struct Tanh {
    static V forward(V x) { return tanh(x); }
    static V backward(V g, V y) { return g - g * (y * y); }
  };
  struct Elu {
    static V forward(V x) { return if_greater(x, V::set(0), x, expm1(x)); }
    static V backward(V g, V y) { return if_greater(y, V::set(0), g, g * y + g); }
  };
  struct Relu {
    static V forward(V x) { return max(V::set(0), x); }
    static V backward(V g, V y) { return if_greater(y, V::set(0), g, V::set(0)); }
  };
  struct Sigmoid {
    static V forward(V x) { return V::set(1) / (V::set(1) + exp(V::set(0) - x)); }
    static V backward(V g, V y) { return g * (y - y * y); }
  };
  struct LeakyRelu {
    static V forward(V x) { return max(V::set(T(0.1)) * x, x); }
    static V backward(V g, V y) { return if_greater(y, V::set(0), g, V::set(T(0.1)) * g); }
  };
  template <class F>
  static void with_activation(const KernelArgs& args, F&& f) {
    switch (args.attr->integer[0]) {
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
        return f(None{});
    }
  }

  template <class A>
  static void bias_activation_rows(const T* x, const T* bias, T* out, std::int64_t rows, std::int64_t cols) {
    if (bias == nullptr) {
      for_vectors<V>(rows * cols, [&](std::int64_t i, int n) { store(A::forward(load<V>(x, i, n)), out, i, n); });
      return;
    }
    for (std::int64_t row = 0; row < rows; ++row, x += cols, out += cols) {
      for_vectors<V>(
          cols, [&](std::int64_t i, int n) { store(A::forward(load<V>(x, i, n) + load<V>(bias, i, n)), out, i, n); });
    }
  }
  /// in: x and, when integer[1], bias.
  static void bias_activation(const KernelArgs& args) {
    const T* bias = args.attr->integer[1] != 0 ? args.in[1].as<T>() : nullptr;
    with_activation(args, [&]<class A>(A) {
      bias_activation_rows<A>(args.in[0].as<T>(), bias, args.out[0].as<T>(), args.out[0].rows, args.out[0].cols);
    });
  }
  /// in: x, weight, bias. The product goes to the output and is finished there.
  static void linear(const KernelArgs& args) {
    T* out = args.out[0].as<T>();
    args.gemm->run(args.in[0].data, args.in[1].data, out, args.workspace);
    with_activation(args, [&]<class A>(A) {
      bias_activation_rows<A>(out, args.in[2].as<T>(), out, args.out[0].rows, args.out[0].cols);
    });
  }
  static void matmul(const KernelArgs& args) {
    args.gemm->run(args.in[0].data, args.in[1].data, args.out[0].data, args.workspace);
  }

  /// in: gradient, output; out: gradient before the activation, its sum over rows (the gradient of the bias).
  static void bias_activation_grad(const KernelArgs& args) {
    const Operand& in = args.in[0];
    T *dx = args.out[0].as<T>(), *dbias = args.out[1].as<T>();
    if (dbias != nullptr) zero(dbias, in.cols);
    with_activation(args, [&]<class A>(A) {
      const T *g = in.as<T>(), *y = args.in[1].as<T>();
      for (std::int64_t row = 0; row < in.rows; ++row, g += in.cols, y += in.cols) {
        for_vectors<V>(in.cols, [&](std::int64_t i, int n) {
          const V d = A::backward(load<V>(g, i, n), load<V>(y, i, n));
          if (dx != nullptr) store(d, dx + row * in.cols, i, n);
          if (dbias != nullptr) store(load<V>(dbias, i, n) + d, dbias, i, n);
        });
      }
    });
  }
  static void zero(T* out, std::int64_t count) {
    for_vectors<V>(count, [&](std::int64_t i, int n) { store(V::set(0), out, i, n); });
  }

  // ---- layer normalisation; in: x, bias, gain, offset; out: y, normalised x, 1 / standard deviation of each row ----

  static void layer_norm(const KernelArgs& args) {
    with_activation(args, [&]<class A>(A) { layer_norm_with<A>(args); });
  }
  template <class A>
  static void layer_norm_with(const KernelArgs& args) {
    const std::int64_t rows = args.in[0].rows, cols = args.in[0].cols;
    const T *x = args.in[0].as<T>(), *bias = args.in[1].as<T>();
    const T *gain = args.in[2].as<T>(), *offset = args.in[3].as<T>();
    T *y = args.out[0].as<T>(), *normalised = args.out[1].as<T>(), *inverse = args.out[2].as<T>();
    const T count = static_cast<T>(cols), epsilon = static_cast<T>(args.attr->real[0]);
    for (std::int64_t row = 0; row < rows; ++row, x += cols, y += cols) {
      T* z = normalised != nullptr ? normalised + row * cols : y;  // scratch that ends up as the normalised row
      const T mean = reduce_sum(cols,
                                [&](std::int64_t i, int n) {
                                  const V value = load<V>(x, i, n) + load<V>(bias, i, n);
                                  store(value, z, i, n);
                                  return value;
                                }) /
                     count;
      const T squares = reduce_sum(cols, [&](std::int64_t i, int n) {
        const V difference = load<V>(z, i, n) - V::set(mean);
        return difference * difference;
      });
      const T scale = T(1) / root(squares / count + epsilon);
      if (inverse != nullptr) inverse[row] = scale;
      for_vectors<V>(cols, [&](std::int64_t i, int n) {
        const V value = (load<V>(z, i, n) - V::set(mean)) * V::set(scale);
        if (normalised != nullptr) store(value, z, i, n);
        store(A::forward(value * load<V>(gain, i, n) + load<V>(offset, i, n)), y, i, n);
      });
    }
  }
  static float root(float x) { return __builtin_sqrtf(x); }
  static double root(double x) { return __builtin_sqrt(x); }

  /// in: gradient, y, normalised x, 1 / standard deviation, gain; out: gradients of x, gain, offset, bias.
  static void layer_norm_grad(const KernelArgs& args) {
    with_activation(args, [&]<class A>(A) { layer_norm_grad_with<A>(args); });
  }
  template <class A>
  static void layer_norm_grad_with(const KernelArgs& args) {
    const std::int64_t rows = args.in[0].rows, cols = args.in[0].cols;
    const T *g = args.in[0].as<T>(), *y = args.in[1].as<T>(), *normalised = args.in[2].as<T>();
    const T *inverse = args.in[3].as<T>(), *gain = args.in[4].as<T>();
    T* dx = args.out[0].as<T>();
    T *dgain = args.out[1].as<T>(), *doffset = args.out[2].as<T>(), *dbias = args.out[3].as<T>();
    if (dgain != nullptr) zero(dgain, cols);
    if (doffset != nullptr) zero(doffset, cols);
    if (dbias != nullptr) zero(dbias, cols);
    for (std::int64_t row = 0; row < rows; ++row, g += cols, y += cols, normalised += cols) {
      Sums<V> sum, product;
      for_vectors_in_slots<V>(cols, [&](std::int64_t i, int n, int slot) {
        const V d = A::backward(load<V>(g, i, n), load<V>(y, i, n)), z = load<V>(normalised, i, n);
        if (dgain != nullptr) store(load<V>(dgain, i, n) + d * z, dgain, i, n);
        if (doffset != nullptr) store(load<V>(doffset, i, n) + d, doffset, i, n);
        const V scaled = d * load<V>(gain, i, n);
        sum.part[slot] = sum.part[slot] + scaled;
        product.part[slot] = product.part[slot] + scaled * z;
      });
      if (dx == nullptr && dbias == nullptr) continue;
      const V mean = V::set(sum.total() / static_cast<T>(cols)), slope = V::set(product.total() / static_cast<T>(cols));
      const V scale = V::set(inverse[row]);
      for_vectors<V>(cols, [&](std::int64_t i, int n) {
        const V scaled = A::backward(load<V>(g, i, n), load<V>(y, i, n)) * load<V>(gain, i, n);
        const V d = scale * (scaled - mean - load<V>(normalised, i, n) * slope);
        if (dx != nullptr) store(d, dx + row * cols, i, n);
        if (dbias != nullptr) store(load<V>(dbias, i, n) + d, dbias, i, n);
      });
    }
  }

  // ---- moving ----

  static void copy_elements(const T* from, T* to, std::int64_t count) {
    __builtin_memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
  }
  static void copy(const KernelArgs& args) {
    copy_elements(args.in[0].as<T>(), args.out[0].as<T>(), args.out[0].elements());
  }
  static void concat(const KernelArgs& args) {
    const Operand &a = args.in[0], &b = args.in[1], &out = args.out[0];
    for (std::int64_t row = 0; row < out.rows; ++row) {
      copy_elements(a.as<T>() + row * a.cols, out.as<T>() + row * out.cols, a.cols);
      copy_elements(b.as<T>() + row * b.cols, out.as<T>() + row * out.cols + a.cols, b.cols);
    }
  }
  /// From column integer[0] on.
  static void slice(const KernelArgs& args) {
    const Operand &in = args.in[0], &out = args.out[0];
    for (std::int64_t row = 0; row < out.rows; ++row) {
      copy_elements(in.as<T>() + row * in.cols + args.attr->integer[0], out.as<T>() + row * out.cols, out.cols);
    }
  }
  /// Zeros with the input at column integer[0].
  static void pad(const KernelArgs& args) {
    const Operand &in = args.in[0], &out = args.out[0];
    zero(out.as<T>(), out.elements());
    for (std::int64_t row = 0; row < out.rows; ++row) {
      copy_elements(in.as<T>() + row * in.cols, out.as<T>() + row * out.cols + args.attr->integer[0], in.cols);
    }
  }
  static void fill(const KernelArgs& args) {
    const V value = V::set(*args.in[0].as<T>());
    T* out = args.out[0].as<T>();
    for_vectors<V>(args.out[0].elements(), [&](std::int64_t i, int n) { store(value, out, i, n); });
  }
  /// What a mean over rows multiplies its sum with. attr: real: the factor for a whole batch; integer 1: elements of a
  /// row, or 0 where the factor is fixed.
  static T row_factor(const KernelArgs& args) {
    const std::int64_t per_row = args.attr->integer[1];
    if (per_row == 0 || args.valid == nullptr || args.valid->replica == args.valid->batch) {
      return static_cast<T>(args.attr->real[0]);
    }
    const std::int64_t count = per_row * args.valid->replica;
    return count == 0 ? T(0) : static_cast<T>(1.0 / static_cast<double>(count));
  }
  /// Elements that count, when attr.integer[0] says that the value is split by rows.
  static std::int64_t counted(const KernelArgs& args, std::int64_t elements) {
    return args.attr->integer[0] == 0 || args.valid == nullptr ? elements : args.valid->elements_of(elements);
  }
  static void fill_rows(const KernelArgs& args) {
    const V value = V::set(row_factor(args) * *args.in[0].as<T>());
    T* out = args.out[0].as<T>();
    const std::int64_t count = counted(args, args.out[0].elements());
    for_vectors<V>(count, [&](std::int64_t i, int n) { store(value, out, i, n); });
    zero(out + count, args.out[0].elements() - count);
  }
  static void mask_rows(const KernelArgs& args) {
    const std::int64_t elements = args.in[0].elements();
    const std::int64_t count = args.valid == nullptr ? elements : args.valid->elements_of(elements);
    T* out = args.out[0].as<T>();
    if (out != args.in[0].as<T>()) copy(args);
    zero(out + count, elements - count);
  }
  static void count_rows(const KernelArgs& args) { *args.out[0].as<T>() = static_cast<T>(args.valid->stripe); }
  /// Spread over the stripes where that is exact, so that the sum has the same bits for several replicas with fewer
  /// stripes each; else on the first one.
  static void as_partial(const KernelArgs& args) {
    if ((args.stripes & (args.stripes - 1)) == 0) {
      const V share = V::set(T(1) / static_cast<T>(args.stripes));
      const T* x = args.in[0].as<T>();
      T* out = args.out[0].as<T>();
      for_vectors<V>(args.in[0].elements(), [&](std::int64_t i, int n) { store(share * load<V>(x, i, n), out, i, n); });
    } else if (args.stripe == 0) {
      copy(args);
    } else {
      zero(args.out[0].as<T>(), args.out[0].elements());
    }
  }

  // ---- reductions ----

  template <class F>
  static T reduce_sum(std::int64_t count, F&& value) {
    Sums<V> sum;
    for_vectors_in_slots<V>(count, [&](std::int64_t i, int n, int slot) {
      const V x = value(i, n);
      sum.part[slot] = sum.part[slot] + (n == V::kLanes ? x : x.keep(n, 0));
    });
    return sum.total();
  }
  static T reduce_max(const T* x, std::int64_t count) {
    V best = V::set(x[0]);
    for_vectors<V>(count, [&](std::int64_t i, int n) {
      const V value = load<V>(x, i, n);
      best = max(best, n == V::kLanes ? value : value.keep(n, x[0]));
    });
    return best.max();
  }
  /// real[0] * sum.
  static void sum_all(const KernelArgs& args) {
    const T* x = args.in[0].as<T>();
    *args.out[0].as<T>() = row_factor(args) * reduce_sum(counted(args, args.in[0].elements()),
                                                         [&](std::int64_t i, int n) { return load<V>(x, i, n); });
  }
  static void greatest(const KernelArgs& args) {
    const std::int64_t count = counted(args, args.in[0].elements());
    const T lowest = T(-3.402823466e38F);  // of float32, also in float64
    *args.out[0].as<T>() = count == 0 ? lowest : reduce_max(args.in[0].as<T>(), count);
  }
  static void sum_last(const KernelArgs& args) {
    const T* x = args.in[0].as<T>();
    for (std::int64_t row = 0; row < args.in[0].rows; ++row, x += args.in[0].cols) {
      args.out[0].as<T>()[row] = reduce_sum(args.in[0].cols, [&](std::int64_t i, int n) { return load<V>(x, i, n); });
    }
  }

  // ---- distributions over the last dimension ----

  static float log_of(float x) { return __builtin_logf(x); }
  static double log_of(double x) { return __builtin_log(x); }

  /// out = exp(x - max); returns its sum.
  static T exp_row(const T* x, T* out, std::int64_t cols, T maximum) {
    return reduce_sum(cols, [&](std::int64_t i, int n) {
      const V value = exp(load<V>(x, i, n) - V::set(maximum));
      store(value, out, i, n);
      return value;
    });
  }
  static void scale_row(T* x, std::int64_t cols, T factor) {
    for_vectors<V>(cols, [&](std::int64_t i, int n) { store(load<V>(x, i, n) * V::set(factor), x, i, n); });
  }
  /// The softmax of a row is exp(x - maximum) / total.
  struct Normaliser {
    T maximum, total;
    /// What is subtracted from a logit to make it the logarithm of a probability.
    T shift() const { return maximum + log_of(total); }
  };
  /// Of a row, whose softmax goes to `probs` unless that is null.
  static Normaliser softmax_row(const T* x, T* probs, std::int64_t cols) {
    const T maximum = reduce_max(x, cols);
    if (probs == nullptr) {
      return {maximum,
              reduce_sum(cols, [&](std::int64_t i, int n) { return exp(load<V>(x, i, n) - V::set(maximum)); })};
    }
    const T total = exp_row(x, probs, cols, maximum);
    scale_row(probs, cols, T(1) / total);
    return {maximum, total};
  }
  static void softmax(const KernelArgs& args) {
    const std::int64_t cols = args.in[0].cols;
    for (std::int64_t row = 0; row < args.in[0].rows; ++row) {
      softmax_row(args.in[0].as<T>() + row * cols, args.out[0].as<T>() + row * cols, cols);
    }
  }
  /// in: gradient, output. y * (g - sum(g y)).
  static void softmax_grad(const KernelArgs& args) {
    const std::int64_t cols = args.in[0].cols;
    const T *g = args.in[0].as<T>(), *y = args.in[1].as<T>();
    T* out = args.out[0].as<T>();
    for (std::int64_t row = 0; row < args.in[0].rows; ++row, g += cols, y += cols, out += cols) {
      const V dot =
          V::set(reduce_sum(cols, [&](std::int64_t i, int n) { return load<V>(g, i, n) * load<V>(y, i, n); }));
      for_vectors<V>(cols,
                     [&](std::int64_t i, int n) { store(load<V>(y, i, n) * (load<V>(g, i, n) - dot), out, i, n); });
    }
  }
  static void log_softmax(const KernelArgs& args) {
    const std::int64_t cols = args.in[0].cols;
    const T* x = args.in[0].as<T>();
    T* out = args.out[0].as<T>();
    for (std::int64_t row = 0; row < args.in[0].rows; ++row, x += cols, out += cols) {
      const V shift = V::set(softmax_row(x, nullptr, cols).shift());
      for_vectors<V>(cols, [&](std::int64_t i, int n) { store(load<V>(x, i, n) - shift, out, i, n); });
    }
  }
  /// in: gradient, output. g - exp(y) * sum(g).
  static void log_softmax_grad(const KernelArgs& args) {
    const std::int64_t cols = args.in[0].cols;
    const T *g = args.in[0].as<T>(), *y = args.in[1].as<T>();
    T* out = args.out[0].as<T>();
    for (std::int64_t row = 0; row < args.in[0].rows; ++row, g += cols, y += cols, out += cols) {
      const V total = V::set(reduce_sum(cols, [&](std::int64_t i, int n) { return load<V>(g, i, n); }));
      for_vectors<V>(
          cols, [&](std::int64_t i, int n) { store(load<V>(g, i, n) - exp(load<V>(y, i, n)) * total, out, i, n); });
    }
  }
  /// in: logits, target; out: loss of each row, softmax of the logits.
  static void softmax_cross_entropy(const KernelArgs& args) {
    const std::int64_t cols = args.in[0].cols;
    const T *x = args.in[0].as<T>(), *target = args.in[1].as<T>();
    T *loss = args.out[0].as<T>(), *probs = args.out[1].as<T>();
    for (std::int64_t row = 0; row < args.in[0].rows; ++row, x += cols, target += cols) {
      const Normaliser of = softmax_row(x, probs == nullptr ? nullptr : probs + row * cols, cols);
      if (loss == nullptr) continue;
      const V shift = V::set(of.shift());
      loss[row] =
          reduce_sum(cols, [&](std::int64_t i, int n) { return load<V>(target, i, n) * (shift - load<V>(x, i, n)); });
    }
  }
  /// in: gradient of each row's loss, softmax of the logits, target. g * (p sum(target) - target).
  static void softmax_cross_entropy_grad(const KernelArgs& args) {
    const std::int64_t cols = args.in[1].cols;
    const T *g = args.in[0].as<T>(), *probs = args.in[1].as<T>(), *target = args.in[2].as<T>();
    T* out = args.out[0].as<T>();
    for (std::int64_t row = 0; row < args.in[1].rows; ++row, probs += cols, target += cols, out += cols) {
      const V total = V::set(reduce_sum(cols, [&](std::int64_t i, int n) { return load<V>(target, i, n); }));
      const V factor = V::set(g[row]);
      for_vectors<V>(cols, [&](std::int64_t i, int n) {
        store(factor * (load<V>(probs, i, n) * total - load<V>(target, i, n)), out, i, n);
      });
    }
  }
  // ---- gradients ----

  /// Rows longer than real[0] are scaled down to it.
  static void clip_row_norm(const KernelArgs& args) {
    const std::int64_t cols = args.in[0].cols;
    const ValidRows* valid = args.valid;
    const bool whole = valid == nullptr || valid->replica == valid->batch || valid->replica == 0;
    const double share = whole ? 1 : static_cast<double>(valid->batch) / static_cast<double>(valid->replica);
    const T limit = static_cast<T>(args.attr->real[0] * share);
    const T* x = args.in[0].as<T>();
    T* out = args.out[0].as<T>();
    for (std::int64_t row = 0; row < args.in[0].rows; ++row, x += cols, out += cols) {
      const T norm = root(reduce_sum(cols, [&](std::int64_t i, int n) { return load<V>(x, i, n) * load<V>(x, i, n); }));
      const V factor = V::set(norm > limit ? limit / norm : T(1));
      for_vectors<V>(cols, [&](std::int64_t i, int n) { store(load<V>(x, i, n) * factor, out, i, n); });
    }
  }

  static void math(int function, const void* x, void* y, std::int64_t count) {
    for_vectors<V>(count, [&](std::int64_t i, int n) {
      const V value = load<V>(static_cast<const T*>(x), i, n);
      const V result = function == 0   ? exp(value)
                       : function == 1 ? expm1(value)
                       : function == 2 ? tanh(value)
                       : function == 3 ? log(value)
                                       : cos_of_turn(value);
      store(result, static_cast<T*>(y), i, n);
    });
  }
};

}  // namespace
