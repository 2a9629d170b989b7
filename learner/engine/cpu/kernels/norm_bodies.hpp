#pragma once
// Kernels of spectral normalisation, embeddings and integer labels over a vector type V; rules as in kernel_bodies.hpp.
#include <troupe/learner/engine/cpu/kernels/kernel_bodies.hpp>

namespace {

template <class V>
struct NormKernels {
  using T = typename V::T;
  using K = Kernels<V>;

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
      const auto of = K::softmax_row(x, probs == nullptr ? nullptr : probs + row * cols, cols);
      if (loss == nullptr) continue;
      const T shift = of.shift();
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
  /// in: logits, labels; out: 1 where fewer than integer[0] logits are larger than the label's, or as large and before
  /// it, else 0, also for a label that is none.
  static void is_in_top(const KernelArgs& args) {
    const std::int64_t cols = args.in[0].cols;
    const T* x = args.in[0].as<T>();
    for (std::int64_t row = 0; row < args.in[0].rows; ++row, x += cols) {
      const std::int32_t label = args.in[1].as<std::int32_t>()[row];
      const bool known = label >= 0 && label < cols && x[label] == x[label];  // and no NaN
      std::int64_t ahead = known ? 0 : cols;
      for (std::int64_t i = 0; ahead < cols && i < cols; ++i)
        ahead += x[i] > x[label] || (x[i] == x[label] && i < label);
      args.out[0].as<T>()[row] = known && ahead < args.attr->integer[0] ? T(1) : T(0);
    }
  }
};

}  // namespace
