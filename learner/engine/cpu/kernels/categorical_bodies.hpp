#pragma once
// Kernels of value distributions over evenly spaced atoms (C51, D4PG) over a vector type V; rules as in
// kernel_bodies.hpp. Of all of them real[0] is the lowest atom and real[1] the distance of atoms.
#include <troupe/learner/engine/cpu/kernels/kernel_bodies.hpp>

namespace {

template <class V>
struct CategoricalKernels {
  using T = typename V::T;
  using K = Kernels<V>;

  /// The values of a vector of atoms from `first` on.
  static V atoms(const KernelArgs& args, std::int64_t first) {
    T lane[V::kLanes];
    for (int i = 0; i < V::kLanes; ++i) {
      lane[i] = static_cast<T>(args.attr->real[0] + static_cast<double>(first + i) * args.attr->real[1]);
    }
    return V::load(lane);
  }
  /// in: logits; out: mean over the atoms, softmax of the logits.
  static void categorical_mean(const KernelArgs& args) {
    const std::int64_t cols = args.in[0].cols;
    const T* x = args.in[0].as<T>();
    T* probs = args.out[1].as<T>();
    for (std::int64_t row = 0; row < args.in[0].rows; ++row, x += cols) {
      const T maximum = K::reduce_max(x, cols);
      V sum = V::set(0), weighted = V::set(0);
      for_vectors<V>(cols, [&](std::int64_t i, int n) {
        V value = exp(load<V>(x, i, n) - V::set(maximum));
        if (n != V::kLanes) value = value.keep(n, 0);
        if (probs != nullptr) store(value, probs, i, n);
        sum = sum + value;
        weighted = weighted + value * atoms(args, i);
      });
      const T scale = T(1) / sum.sum();
      if (args.out[0].data != nullptr) args.out[0].as<T>()[row] = weighted.sum() * scale;
      if (probs != nullptr) {
        K::scale_row(probs, cols, scale);
        probs += cols;
      }
    }
  }
  /// in: gradient of each row's mean, softmax of the logits, mean. g p (z - mean).
  static void categorical_mean_grad(const KernelArgs& args) {
    const std::int64_t cols = args.in[1].cols;
    const T *g = args.in[0].as<T>(), *probs = args.in[1].as<T>(), *mean = args.in[2].as<T>();
    T* out = args.out[0].as<T>();
    for (std::int64_t row = 0; row < args.in[1].rows; ++row, probs += cols, out += cols) {
      const V factor = V::set(g[row]), centre = V::set(mean[row]);
      for_vectors<V>(cols, [&](std::int64_t i, int n) {
        store(factor * load<V>(probs, i, n) * (atoms(args, i) - centre), out, i, n);
      });
    }
  }

  /// in: logits, next logits, reward, discount; out: loss of each row, its gradient by the logits. Bellemare et al.
  /// 2017, Alg. 1: each next atom falls between two atoms, which share its probability.
  static void categorical_td(const KernelArgs& args) {
    const std::int64_t cols = args.in[0].cols;
    const T *x = args.in[0].as<T>(), *next = args.in[1].as<T>();
    T *loss = args.out[0].as<T>(), *gradient = args.out[1].as<T>();
    for (std::int64_t row = 0; row < args.in[0].rows; ++row, x += cols, next += cols) {
      T* const to = gradient == nullptr ? nullptr : gradient + row * cols;
      const T value = td_row(args, row, x, next, to);
      if (loss != nullptr) loss[row] = value;
    }
  }
  /// The target is gathered where the gradient will be; without one each part of it goes straight into the loss.
  static T td_row(const KernelArgs& args, std::int64_t row, const T* x, const T* next, T* gradient) {
    const std::int64_t cols = args.in[0].cols;
    const T reward = args.in[2].as<T>()[row], discount = args.in[3].as<T>()[row];
    const T low = static_cast<T>(args.attr->real[0]), step = static_cast<T>(args.attr->real[1]);
    const T inverse = static_cast<T>(1 / args.attr->real[1]), last = static_cast<T>(cols - 1);
    // Atom i falls to start + i * stride, in units of atoms: (reward + discount * z_i - low) / step.
    const V start = V::set((reward + discount * low - low) * inverse), stride = V::set(discount * step * inverse);
    const auto of = K::softmax_row(x, nullptr, cols);
    const T shift = of.shift(), next_maximum = K::reduce_max(next, cols);
    if (gradient != nullptr) K::zero(gradient, cols);
    T loss = 0;
    V sum = V::set(0);
    for_vectors<V>(cols, [&](std::int64_t i, int n) {
      V weight = exp(load<V>(next, i, n) - V::set(next_maximum));
      if (n != V::kLanes) weight = weight.keep(n, 0);
      sum = sum + weight;
      // Clipped to the support. A NaN stays one, so that the row shows it, but lies within the row.
      const V at = min(V::set(last), max(V::set(0), start + V::count_from(static_cast<T>(i)) * stride));
      const V lower = min(round(at - V::set(T(0.5))), V::set(last - 1)), upper_share = at - lower;
      T place[V::kLanes], lower_part[V::kLanes], upper_part[V::kLanes];
      lower.store(place);
      (weight * (V::set(1) - upper_share)).store(lower_part);
      (weight * upper_share).store(upper_part);
      for (int lane = 0; lane < n; ++lane) {
        const auto atom = static_cast<std::int64_t>(place[lane]);
        if (gradient != nullptr) {
          gradient[atom] += lower_part[lane];
          gradient[atom + 1] += upper_part[lane];
        } else {
          loss += lower_part[lane] * (shift - x[atom]) + upper_part[lane] * (shift - x[atom + 1]);
        }
      }
    });
    const T total = sum.sum();  // in which the parts of the target are measured
    if (gradient == nullptr) return loss / total;
    const V scale = V::set(T(1) / of.total), target_scale = V::set(T(1) / total);
    loss = K::reduce_sum(cols, [&](std::int64_t i, int n) {
      const V logit = load<V>(x, i, n), target = load<V>(gradient, i, n) * target_scale;
      store(exp(logit - V::set(of.maximum)) * scale - target, gradient, i, n);
      return target * (V::set(shift) - logit);
    });
    if (loss != loss) {  // what has no loss must not look as if it had a target
      for_vectors<V>(cols, [&](std::int64_t i, int n) { store(V::set(loss), gradient, i, n); });
    }
    return loss;
  }
  /// in: gradient of each row's loss, the loss's own by the logits.
  static void categorical_td_grad(const KernelArgs& args) {
    const std::int64_t cols = args.in[1].cols;
    const T *g = args.in[0].as<T>(), *gradient = args.in[1].as<T>();
    T* out = args.out[0].as<T>();
    for (std::int64_t row = 0; row < args.in[1].rows; ++row, gradient += cols, out += cols) {
      const V factor = V::set(g[row]);
      for_vectors<V>(cols, [&](std::int64_t i, int n) { store(factor * load<V>(gradient, i, n), out, i, n); });
    }
  }
};

}  // namespace
