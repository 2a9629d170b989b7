#pragma once
// Kernels of batch normalisation, spectral normalisation, embeddings and integer labels over a vector type V; rules as
// in kernel_bodies.hpp.
#include <troupe/learner/kernels/kernel_bodies.hpp>

namespace {

template <class V>
struct NormKernels {
  using T = typename V::T;
  using K = Kernels<V>;

  /// Rows of this shard's part of `x` that are data.
  static std::int64_t counted_rows(const KernelArgs& args, const Operand& x) {
    return args.valid == nullptr ? x.rows : args.valid->elements_of(x.rows);
  }

  // ---- sums over rows, of each column ----

  /// Sums in first and second, where they are not null, what f(row, column, lanes) returns, over `rows` rows. Blocks of
  /// rows are summed in registers and then added, so that the error grows with their number and not with that of the
  /// rows.
  template <class F>
  static void column_sums(std::int64_t rows, std::int64_t cols, T* first, T* second, F&& f) {
    constexpr std::int64_t kBlock = 64;
    if (first != nullptr) K::zero(first, cols);
    if (second != nullptr) K::zero(second, cols);
    for (std::int64_t from = 0; from < rows; from += kBlock) {
      const std::int64_t to = from + kBlock < rows ? from + kBlock : rows;
      for_vectors<V>(cols, [&](std::int64_t i, int n) {
        V a = V::set(0), b = V::set(0);
        for (std::int64_t row = from; row < to; ++row) {
          const auto [x, y] = f(row, i, n);
          a = a + x;
          b = b + y;
        }
        if (first != nullptr) store(load<V>(first, i, n) + a, first, i, n);
        if (second != nullptr) store(load<V>(second, i, n) + b, second, i, n);
      });
    }
  }
  struct Two {
    V first, second;
  };

  // ---- batch normalisation ----

  /// in: x, shift; out: [2 cols + 1]: sums of x - shift, of its square, and the rows that counted.
  static void batch_sums(const KernelArgs& args) {
    const std::int64_t cols = args.in[0].cols, rows = counted_rows(args, args.in[0]);
    const T *x = args.in[0].as<T>(), *shift = args.in[1].as<T>();
    T* out = args.out[0].as<T>();
    column_sums(rows, cols, out, out + cols, [&](std::int64_t row, std::int64_t i, int n) {
      const V centred = load<V>(x + row * cols, i, n) - load<V>(shift, i, n);
      return Two{centred, centred * centred};
    });
    out[2 * cols] = static_cast<T>(rows);
  }
  /// in: gradient of the sums, x, shift; out: gradient of x, zero in rows that did not count.
  static void batch_sums_grad(const KernelArgs& args) {
    const std::int64_t cols = args.in[1].cols, rows = counted_rows(args, args.in[1]);
    const T *g = args.in[0].as<T>(), *x = args.in[1].as<T>(), *shift = args.in[2].as<T>();
    T* dx = args.out[0].as<T>();
    for (std::int64_t row = 0; row < rows; ++row, x += cols, dx += cols) {
      for_vectors<V>(cols, [&](std::int64_t i, int n) {
        const V slope = load<V>(g + cols, i, n);
        store(load<V>(g, i, n) + (slope + slope) * (load<V>(x, i, n) - load<V>(shift, i, n)), dx, i, n);
      });
    }
    K::zero(dx, (args.in[1].rows - rows) * cols);
  }
  static T atleast(T x, T bound) { return x < bound ? bound : x; }
  /// in: sums, running mean, running variance; real: epsilon, momentum; out: mean, 1 / standard deviation, and the new
  /// running mean and variance (unbiased; unchanged where no row or only one counted). The shift was the running mean.
  static void batch_moments(const KernelArgs& args) {
    const std::int64_t cols = args.in[1].elements();
    const T *sums = args.in[0].as<T>(), *old_mean = args.in[1].as<T>(), *old_variance = args.in[2].as<T>();
    const T epsilon = static_cast<T>(args.attr->real[0]), momentum = static_cast<T>(args.attr->real[1]);
    const T count = sums[2 * cols], inverse_count = T(1) / atleast(count, 1);
    const V unbias = V::set(count / atleast(count - 1, 1));
    const V take_mean = V::set(count > 0 ? momentum : T(0)), take_variance = V::set(count > 1 ? momentum : T(0));
    for_vectors<V>(cols, [&](std::int64_t i, int n) {
      const V offset = V::set(inverse_count) * load<V>(sums, i, n), centre = load<V>(old_mean, i, n);
      const V squares = V::set(inverse_count) * load<V>(sums + cols, i, n);
      const V variance = max(V::set(0), squares - offset * offset), before = load<V>(old_variance, i, n);
      const auto put = [&](int index, V value) {
        if (args.out[index].data != nullptr) store(value, args.out[index].as<T>(), i, n);
      };
      put(0, centre + offset);
      put(1, V::set(1) / sqrt(variance + V::set(epsilon)));
      put(2, centre + take_mean * offset);
      put(3, before + take_variance * (unbias * variance - before));
    });
  }
  /// in: gradients of mean and 1 / standard deviation, sums, 1 / standard deviation; out: gradient of the sums.
  static void batch_moments_grad(const KernelArgs& args) {
    const std::int64_t cols = args.in[0].elements();
    const T *dmean = args.in[0].as<T>(), *dinverse = args.in[1].as<T>();
    const T *sums = args.in[2].as<T>(), *inverse = args.in[3].as<T>();
    T* out = args.out[0].as<T>();
    const V scale = V::set(T(1) / atleast(sums[2 * cols], 1));
    for_vectors<V>(cols, [&](std::int64_t i, int n) {
      const V root = load<V>(inverse, i, n);
      const V dvariance = V::set(T(-0.5)) * load<V>(dinverse, i, n) * (root * root * root);
      const V offset = scale * load<V>(sums, i, n);
      store(scale * (load<V>(dmean, i, n) - (offset + offset) * dvariance), out, i, n);
      store(scale * dvariance, out + cols, i, n);
    });
    out[2 * cols] = 0;
  }
  /// 1 / sqrt(x + real[0]).
  static void inverse_root(const KernelArgs& args) {
    const V epsilon = V::set(static_cast<T>(args.attr->real[0]));
    const T* x = args.in[0].as<T>();
    T* out = args.out[0].as<T>();
    for_vectors<V>(args.out[0].elements(),
                   [&](std::int64_t i, int n) { store(V::set(1) / sqrt(load<V>(x, i, n) + epsilon), out, i, n); });
  }
  /// in: x, mean, 1 / standard deviation, gain, offset; out: y.
  static void normalise(const KernelArgs& args) {
    K::with_activation(args, [&]<class A>(A) {
      const std::int64_t rows = args.in[0].rows, cols = args.in[0].cols;
      const T *x = args.in[0].as<T>(), *mean = args.in[1].as<T>(), *inverse = args.in[2].as<T>();
      const T *gain = args.in[3].as<T>(), *offset = args.in[4].as<T>();
      T* y = args.out[0].as<T>();
      for (std::int64_t row = 0; row < rows; ++row, x += cols, y += cols) {
        for_vectors<V>(cols, [&](std::int64_t i, int n) {
          const V scale = load<V>(inverse, i, n) * load<V>(gain, i, n);
          store(A::forward((load<V>(x, i, n) - load<V>(mean, i, n)) * scale + load<V>(offset, i, n)), y, i, n);
        });
      }
    });
  }
  /// in: gradient, y, x, mean, 1 / standard deviation, gain; out: gradient of x with the statistics fixed; sums over
  /// rows of the gradient d before the activation, and of d (x - mean).
  static void normalise_grad(const KernelArgs& args) {
    K::with_activation(args, [&]<class A>(A) {
      const std::int64_t rows = args.in[0].rows, cols = args.in[0].cols;
      const T *g = args.in[0].as<T>(), *y = args.in[1].as<T>(), *x = args.in[2].as<T>(), *mean = args.in[3].as<T>();
      const T *inverse = args.in[4].as<T>(), *gain = args.in[5].as<T>();
      T *dx = args.out[0].as<T>(), *sum = args.out[1].as<T>(), *product = args.out[2].as<T>();
      if (sum != nullptr || product != nullptr) {
        column_sums(rows, cols, sum, product, [&](std::int64_t row, std::int64_t i, int n) {
          const V d = A::backward(load<V>(g + row * cols, i, n), load<V>(y + row * cols, i, n));
          return Two{d, d * (load<V>(x + row * cols, i, n) - load<V>(mean, i, n))};
        });
      }
      if (dx == nullptr) return;  // comes last, because it may lie where the gradient does
      for (std::int64_t row = 0; row < rows; ++row, g += cols, y += cols, dx += cols) {
        for_vectors<V>(cols, [&](std::int64_t i, int n) {
          const V scale = load<V>(inverse, i, n) * load<V>(gain, i, n);
          store(scale * A::backward(load<V>(g, i, n), load<V>(y, i, n)), dx, i, n);
        });
      }
    });
  }

  // ---- spectral normalisation ----

  /// in: weight [in, out], a vector; integer[0]: transposed. out: weight^T vector or weight vector, over its length.
  static void direction(const KernelArgs& args) {
    const std::int64_t rows = args.in[0].rows, cols = args.in[0].cols;
    const T *weight = args.in[0].as<T>(), *from = args.in[1].as<T>();
    T* out = args.out[0].as<T>();
    const std::int64_t count = args.out[0].elements();
    if (args.attr->integer[0] != 0) {
      K::zero(out, count);
      for (std::int64_t row = 0; row < rows; ++row, weight += cols) {
        const V factor = V::set(from[row]);
        for_vectors<V>(cols, [&](std::int64_t i, int n) {
          store(load<V>(out, i, n) + factor * load<V>(weight, i, n), out, i, n);
        });
      }
    } else {
      for (std::int64_t row = 0; row < rows; ++row, weight += cols) out[row] = dot(weight, from, cols);
    }
    const T length = K::root(dot(out, out, count)), least = static_cast<T>(args.attr->real[0]);
    K::scale_row(out, count, T(1) / (length < least ? least : length));
  }
  static T dot(const T* a, const T* b, std::int64_t count) {
    return K::reduce_sum(count, [&](std::int64_t i, int n) { return load<V>(a, i, n) * load<V>(b, i, n); });
  }
  /// in: weight, v [in], u [out]; out: weight / sigma, sigma = v^T weight u.
  static void spectral_scale(const KernelArgs& args) {
    const std::int64_t rows = args.in[0].rows, cols = args.in[0].cols;
    const T *weight = args.in[0].as<T>(), *v = args.in[1].as<T>(), *u = args.in[2].as<T>();
    T sigma = 0;
    for (std::int64_t row = 0; row < rows; ++row) sigma += v[row] * dot(weight + row * cols, u, cols);
    if (args.out[1].data != nullptr) *args.out[1].as<T>() = sigma;
    if (args.out[0].data == nullptr) return;
    const V inverse = V::set(T(1) / sigma);
    T* out = args.out[0].as<T>();
    for_vectors<V>(rows * cols, [&](std::int64_t i, int n) { store(inverse * load<V>(weight, i, n), out, i, n); });
  }
  /// in: gradient of weight / sigma, weight / sigma, v, u, sigma; out: (g - <g, weight / sigma> v u^T) / sigma.
  static void spectral_scale_grad(const KernelArgs& args) {
    const std::int64_t rows = args.in[0].rows, cols = args.in[0].cols;
    const T *g = args.in[0].as<T>(), *scaled = args.in[1].as<T>();
    const T *v = args.in[2].as<T>(), *u = args.in[3].as<T>();
    T* out = args.out[0].as<T>();
    const T inverse = T(1) / *args.in[4].as<T>(), product = dot(g, scaled, rows * cols);
    for (std::int64_t row = 0; row < rows; ++row, g += cols, out += cols) {
      const V factor = V::set(product * v[row]);
      for_vectors<V>(cols, [&](std::int64_t i, int n) {
        store(V::set(inverse) * (load<V>(g, i, n) - factor * load<V>(u, i, n)), out, i, n);
      });
    }
  }

  // ---- integers: rows of a table, and labels ----

  static T not_a_number() { return static_cast<T>(__builtin_nan("")); }
  /// in: table, indices; out: rows of the table, NaN for an index outside it.
  static void embedding(const KernelArgs& args) {
    const Operand& table = args.in[0];
    const std::int32_t* index = args.in[1].as<std::int32_t>();
    T* out = args.out[0].as<T>();
    for (std::int64_t row = 0; row < args.out[0].rows; ++row, out += table.cols) {
      if (index[row] >= 0 && index[row] < table.rows) {
        K::copy_elements(table.as<T>() + index[row] * table.cols, out, table.cols);
      } else {
        for (std::int64_t i = 0; i < table.cols; ++i) out[i] = not_a_number();
      }
    }
  }
  /// in: gradient, indices; out: gradient of the table, with a NaN for an index outside it.
  static void embedding_grad(const KernelArgs& args) {
    const Operand& table = args.out[0];
    const std::int32_t* index = args.in[1].as<std::int32_t>();
    const T* g = args.in[0].as<T>();
    K::zero(table.as<T>(), table.elements());
    bool inside = true;
    for (std::int64_t row = 0; row < args.in[0].rows; ++row, g += table.cols) {
      if (index[row] < 0 || index[row] >= table.rows) {
        inside = false;
        continue;
      }
      T* to = table.as<T>() + index[row] * table.cols;
      for_vectors<V>(table.cols, [&](std::int64_t i, int n) { store(load<V>(to, i, n) + load<V>(g, i, n), to, i, n); });
    }
    if (!inside) table.as<T>()[0] = not_a_number();
  }
  /// in: logits, labels; real[0]: smoothing s; out: loss of each row to the target (1 - s) onehot + s / cols, which is
  /// NaN for a label that is none; softmax of the logits.
  static void label_cross_entropy(const KernelArgs& args) {
    const std::int64_t cols = args.in[0].cols;
    const T* x = args.in[0].as<T>();
    const std::int32_t* label = args.in[1].as<std::int32_t>();
    T *loss = args.out[0].as<T>(), *probs = args.out[1].as<T>();
    const T smoothing = static_cast<T>(args.attr->real[0]);
    for (std::int64_t row = 0; row < args.in[0].rows; ++row, x += cols) {
      const T maximum = K::reduce_max(x, cols);
      T total;
      if (probs != nullptr) {
        total = K::exp_row(x, probs, cols, maximum);
        K::scale_row(probs, cols, T(1) / total);
        probs += cols;
      } else {
        total = K::reduce_sum(cols, [&](std::int64_t i, int n) { return exp(load<V>(x, i, n) - V::set(maximum)); });
      }
      if (loss == nullptr) continue;
      const T shift = maximum + K::log_of(total);
      const bool known = label[row] >= 0 && label[row] < cols;
      T value = known ? (T(1) - smoothing) * (shift - x[label[row]]) : not_a_number();
      if (smoothing != 0) {
        const V from = V::set(shift);
        value += smoothing / static_cast<T>(cols) *
                 K::reduce_sum(cols, [&](std::int64_t i, int n) { return from - load<V>(x, i, n); });
      }
      loss[row] = value;
    }
  }
  /// in: gradient of each row's loss, softmax of the logits, labels. g (p - target), NaN as above.
  static void label_cross_entropy_grad(const KernelArgs& args) {
    const std::int64_t cols = args.in[1].cols;
    const T *g = args.in[0].as<T>(), *probs = args.in[1].as<T>();
    const std::int32_t* label = args.in[2].as<std::int32_t>();
    T* out = args.out[0].as<T>();
    const T smoothing = static_cast<T>(args.attr->real[0]);
    const V base = V::set(smoothing / static_cast<T>(cols));
    for (std::int64_t row = 0; row < args.in[1].rows; ++row, probs += cols, out += cols) {
      const V factor = V::set(g[row]);
      for_vectors<V>(cols, [&](std::int64_t i, int n) { store(factor * (load<V>(probs, i, n) - base), out, i, n); });
      const bool known = label[row] >= 0 && label[row] < cols;
      out[known ? label[row] : 0] -= known ? g[row] * (T(1) - smoothing) : not_a_number();
    }
  }
  /// in: logits, labels; out: 1 where the first of the largest logits is the label's, else 0.
  static void is_correct(const KernelArgs& args) {
    const std::int64_t cols = args.in[0].cols;
    const T* x = args.in[0].as<T>();
    for (std::int64_t row = 0; row < args.in[0].rows; ++row, x += cols) {
      std::int64_t best = 0;
      for (std::int64_t i = 1; i < cols; ++i) best = x[i] > x[best] ? i : best;
      args.out[0].as<T>()[row] = best == args.in[1].as<std::int32_t>()[row] ? T(1) : T(0);
    }
  }
};

}  // namespace
