#pragma once
// Kernels of batch normalisation over a vector type V, for values that are stored as S: V's own type, or bfloat16 as
// std::uint16_t. Columns (statistics, gain, offset, their gradients) are V's own type either way. Rules as in
// kernel_bodies.hpp. All passes walk whole rows, so they run at the speed of memory.
#include <troupe/learner/engine/cpu/kernels/kernel_bodies.hpp>

namespace {

template <class V>
struct Two {
  V first, second;
};

/// Rows that are walked side by side, and elements up to which that is faster than one behind the other: several
/// streams in one page keep the processor from fetching ahead.
constexpr int kRows = 4;
constexpr std::int64_t kShortRow = 64;

/// Rows of this stripe's part of `x` that are data.
inline std::int64_t counted_rows(const KernelArgs& args, const Operand& x) {
  return args.valid == nullptr ? x.rows : args.valid->elements_of(x.rows);
}

/// Sums over `rows` rows, in first and second where they are not null, of the two values that f(row, column, lanes)
/// returns. Blocks of rows are summed in a buffer that stays in the first-level cache and then added to the result: so
/// memory is read in order, and the error grows with the number of blocks. Of short rows a few at a time are summed in
/// registers, because the buffer would have to be read again too soon.
template <class V, class F>
inline void column_sums(std::int64_t rows, std::int64_t cols, typename V::T* first, typename V::T* second, F&& f) {
  using T = typename V::T;
  constexpr std::int64_t kBlock = 256, kTile = 1024;
  Kernels<V>::zero(first, first == nullptr ? 0 : cols);
  Kernels<V>::zero(second, second == nullptr ? 0 : cols);
  for (std::int64_t from = 0; from < rows; from += kBlock) {
    const std::int64_t to = from + kBlock < rows ? from + kBlock : rows;
    for (std::int64_t tile = 0; tile < cols; tile += kTile) {
      const std::int64_t width = tile + kTile < cols ? kTile : cols - tile;
      T a[kTile], b[kTile];
      Kernels<V>::zero(a, width);
      Kernels<V>::zero(b, width);
      std::int64_t row = from;
      for (; cols <= kShortRow && row + kRows <= to; row += kRows) {
        for_vectors<V>(width, [&](std::int64_t i, int n) {
          Two<V> sum[kRows];
          for (int r = 0; r < kRows; ++r) sum[r] = f(row + r, tile + i, n);
          store(load<V>(a, i, n) + ((sum[0].first + sum[1].first) + (sum[2].first + sum[3].first)), a, i, n);
          store(load<V>(b, i, n) + ((sum[0].second + sum[1].second) + (sum[2].second + sum[3].second)), b, i, n);
        });
      }
      for (; row < to; ++row) {
        for_vectors<V>(width, [&](std::int64_t i, int n) {
          const Two<V> value = f(row, tile + i, n);
          store(load<V>(a, i, n) + value.first, a, i, n);
          store(load<V>(b, i, n) + value.second, b, i, n);
        });
      }
      for_vectors<V>(width, [&](std::int64_t i, int n) {
        if (first != nullptr) store(load<V>(first, tile + i, n) + load<V>(a, i, n), first, tile + i, n);
        if (second != nullptr) store(load<V>(second, tile + i, n) + load<V>(b, i, n), second, tile + i, n);
      });
    }
  }
}

/// Calls f(columns(column, lanes), offset, lanes) for all elements of [rows, cols], a few rows at a time, so that what
/// is the same in all rows is loaded once for them.
template <class V, class C, class F>
inline void over_rows(std::int64_t rows, std::int64_t cols, C&& columns, F&& f) {
  std::int64_t row = 0;
  for (; cols <= kShortRow && row + kRows <= rows; row += kRows) {
    for_vectors<V>(cols, [&](std::int64_t i, int n) {
      const auto same = columns(i, n);
      for (int r = 0; r < kRows; ++r) f(same, (row + r) * cols + i, n);
    });
  }
  for (; row < rows; ++row) {
    for_vectors<V>(cols, [&](std::int64_t i, int n) { f(columns(i, n), row * cols + i, n); });
  }
}

template <class V, class S>
struct BatchNormKernels {
  using T = typename V::T;
  using K = Kernels<V>;

  /// in: x, shift; out: [2 cols + 1]: sums of x - shift, of its square, and the rows that counted.
  static void batch_sums(const KernelArgs& args) {
    const std::int64_t cols = args.in[0].cols, rows = counted_rows(args, args.in[0]);
    const S* x = args.in[0].as<S>();
    const T* shift = args.in[1].as<T>();
    T* out = args.out[0].as<T>();
    column_sums<V>(rows, cols, out, out + cols, [&](std::int64_t row, std::int64_t i, int n) {
      const V centred = load<V>(x + row * cols, i, n) - load<V>(shift, i, n);
      return Two<V>{centred, centred * centred};
    });
    out[2 * cols] = static_cast<T>(rows);
  }
  /// in: gradient of the sums, x, shift and, when integer[0], another gradient of x; out: gradient of x, to which rows
  /// that did not count add nothing.
  static void batch_sums_grad(const KernelArgs& args) {
    if (args.attr->integer[0] != 0) {
      batch_sums_grad_to(args, [other = args.in[3].as<S>()](V value, std::int64_t at, int n) {
        return load<V>(other, at, n) + value;
      });
    } else {
      batch_sums_grad_to(args, [](V value, std::int64_t, int) { return value; });
    }
  }
  template <class F>
  static void batch_sums_grad_to(const KernelArgs& args, F&& plus_other) {
    const std::int64_t cols = args.in[1].cols, rows = counted_rows(args, args.in[1]);
    const T *g = args.in[0].as<T>(), *shift = args.in[2].as<T>();
    const S* x = args.in[1].as<S>();
    S* dx = args.out[0].as<S>();
    // g0 + 2 g1 (x - shift)
    const auto line = [&](std::int64_t i, int n) {
      const V half = load<V>(g + cols, i, n), slope = half + half;
      return Two<V>{load<V>(g, i, n) - slope * load<V>(shift, i, n), slope};
    };
    over_rows<V>(rows, cols, line, [&](const Two<V>& of, std::int64_t at, int n) {
      store(plus_other(of.first + of.second * load<V>(x, at, n), at, n), dx, at, n);
    });
    const std::int64_t counted = rows * cols;
    for_vectors<V>(args.in[1].elements() - counted,
                   [&](std::int64_t i, int n) { store(plus_other(V::set(0), counted + i, n), dx, counted + i, n); });
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
      const S* x = args.in[0].as<S>();
      const T *mean = args.in[1].as<T>(), *inverse = args.in[2].as<T>();
      const T *gain = args.in[3].as<T>(), *offset = args.in[4].as<T>();
      S* y = args.out[0].as<S>();
      struct Columns {
        V mean, scale, offset;
      };
      const auto columns = [&](std::int64_t i, int n) {
        return Columns{load<V>(mean, i, n), load<V>(inverse, i, n) * load<V>(gain, i, n), load<V>(offset, i, n)};
      };
      over_rows<V>(rows, cols, columns, [&](const Columns& c, std::int64_t at, int n) {
        store(A::forward((load<V>(x, at, n) - c.mean) * c.scale + c.offset), y, at, n);
      });
    });
  }
  /// in: gradient, y, x, mean, 1 / standard deviation, gain; out: gradient of x with the statistics fixed; sums over
  /// rows of the gradient d before the activation, and of d (x - mean).
  static void normalise_grad(const KernelArgs& args) {
    K::with_activation(args, [&]<class A>(A) {
      const std::int64_t rows = args.in[0].rows, cols = args.in[0].cols;
      const S *g = args.in[0].as<S>(), *y = args.in[1].as<S>(), *x = args.in[2].as<S>();
      const T *mean = args.in[3].as<T>(), *inverse = args.in[4].as<T>(), *gain = args.in[5].as<T>();
      S* dx = args.out[0].as<S>();
      T *sum = args.out[1].as<T>(), *product = args.out[2].as<T>();
      if (sum != nullptr || product != nullptr) {
        column_sums<V>(rows, cols, sum, product, [&](std::int64_t row, std::int64_t i, int n) {
          const V d = A::backward(load<V>(g + row * cols, i, n), load<V>(y + row * cols, i, n));
          return Two<V>{d, d * (load<V>(x + row * cols, i, n) - load<V>(mean, i, n))};
        });
      }
      if (dx == nullptr) return;  // comes last, because it may lie where the gradient does
      const auto scale = [&](std::int64_t i, int n) { return load<V>(inverse, i, n) * load<V>(gain, i, n); };
      over_rows<V>(rows, cols, scale, [&](V factor, std::int64_t at, int n) {
        store(factor * A::backward(load<V>(g, at, n), load<V>(y, at, n)), dx, at, n);
      });
    });
  }
};

}  // namespace
