#pragma once
// Kernels of images over a vector type V: values [n, h, w, c], rows of channels, that are stored as S: V's own type, or
// bfloat16 as std::uint16_t. Rules as in kernel_bodies.hpp. Everything is vectorised over channels, and gradients
// gather what an element gets, so each is written once.
#include <troupe/learner/engine/cpu/kernels/batch_norm_bodies.hpp>

namespace {

template <class V, class S>
struct ImageKernels {
  using T = typename V::T;
  using K = Kernels<V>;

  // ---- element by element, of images ----

  static void add(const KernelArgs& args) {
    const S *a = args.in[0].as<S>(), *b = args.in[1].as<S>();
    S* out = args.out[0].as<S>();
    for_vectors<V>(args.out[0].elements(),
                   [&](std::int64_t i, int n) { store(load<V>(a, i, n) + load<V>(b, i, n), out, i, n); });
  }
  /// in: a, b; integer[0]: activation.
  static void add_activation(const KernelArgs& args) {
    K::with_activation(args, [&]<class A>(A) {
      const S *a = args.in[0].as<S>(), *b = args.in[1].as<S>();
      S* out = args.out[0].as<S>();
      for_vectors<V>(args.out[0].elements(),
                     [&](std::int64_t i, int n) { store(A::forward(load<V>(a, i, n) + load<V>(b, i, n)), out, i, n); });
    });
  }
  /// in: gradient, output; integer[0]: activation; out: gradient before it.
  static void activation_grad(const KernelArgs& args) {
    K::with_activation(args, [&]<class A>(A) {
      const S *g = args.in[0].as<S>(), *y = args.in[1].as<S>();
      S* out = args.out[0].as<S>();
      for_vectors<V>(args.out[0].elements(),
                     [&](std::int64_t i, int n) { store(A::backward(load<V>(g, i, n), load<V>(y, i, n)), out, i, n); });
    });
  }
  /// in: x and, when integer[1], bias; integer[0]: activation.
  static void bias_activation(const KernelArgs& args) {
    K::with_activation(args, [&]<class A>(A) {
      const S* x = args.in[0].as<S>();
      S* out = args.out[0].as<S>();
      if (args.attr->integer[1] == 0) {
        for_vectors<V>(args.out[0].elements(),
                       [&](std::int64_t i, int n) { store(A::forward(load<V>(x, i, n)), out, i, n); });
        return;
      }
      const T* bias = args.in[1].as<T>();
      over_rows<V>(
          args.out[0].rows, args.out[0].cols, [&](std::int64_t i, int n) { return load<V>(bias, i, n); },
          [&](V b, std::int64_t at, int n) { store(A::forward(load<V>(x, at, n) + b), out, at, n); });
    });
  }
  /// in: gradient, output; out: gradient before the activation, its sum over rows (the gradient of the bias).
  static void bias_activation_grad(const KernelArgs& args) {
    K::with_activation(args, [&]<class A>(A) {
      const S *g = args.in[0].as<S>(), *y = args.in[1].as<S>();
      const std::int64_t cols = args.in[0].cols;
      if (args.out[1].data != nullptr) {
        column_sums<V>(args.in[0].rows, cols, args.out[1].as<T>(), static_cast<T*>(nullptr),
                       [&](std::int64_t row, std::int64_t i, int n) {
                         const std::int64_t at = row * cols + i;
                         return Two<V>{A::backward(load<V>(g, at, n), load<V>(y, at, n)), V::set(0)};
                       });
      }
      if (args.out[0].data != nullptr) activation_grad(args);  // last: it may lie where the gradient does
    });
  }

  // ---- a gain and an offset for each example and channel ----

  /// in: x [n, ..., c], gain [n, c], offset [n, c]; integer[0]: activation.
  static void modulate(const KernelArgs& args) {
    K::with_activation(args, [&]<class A>(A) {
      const Operand& gains = args.in[1];
      const std::int64_t examples = gains.rows, cols = gains.cols;
      const std::int64_t pixels = examples == 0 ? 0 : args.in[0].rows / examples;
      const S* x = args.in[0].as<S>();
      const T *gain = gains.as<T>(), *offset = args.in[2].as<T>();
      S* y = args.out[0].as<S>();
      for (std::int64_t e = 0; e < examples;
           ++e, x += pixels * cols, y += pixels * cols, gain += cols, offset += cols) {
        over_rows<V>(
            pixels, cols,
            [&](std::int64_t i, int n) {
              return Two<V>{load<V>(gain, i, n), load<V>(offset, i, n)};
            },
            [&](const Two<V>& c, std::int64_t at, int n) {
              store(A::forward(c.first * load<V>(x, at, n) + c.second), y, at, n);
            });
      }
    });
  }
  /// in: gradient, y, x, gain; out: gradients of x, gain, offset.
  static void modulate_grad(const KernelArgs& args) {
    K::with_activation(args, [&]<class A>(A) {
      const Operand& gains = args.in[3];
      const std::int64_t examples = gains.rows, cols = gains.cols;
      const std::int64_t pixels = examples == 0 ? 0 : args.in[2].rows / examples, step = pixels * cols;
      const S *g = args.in[0].as<S>(), *y = args.in[1].as<S>(), *x = args.in[2].as<S>();
      const T* gain = gains.as<T>();
      S* dx = args.out[0].as<S>();
      T *dgain = args.out[1].as<T>(), *doffset = args.out[2].as<T>();
      for (std::int64_t e = 0; e < examples; ++e, g += step, y += step, x += step) {
        if (dgain != nullptr || doffset != nullptr) {
          column_sums<V>(pixels, cols, dgain == nullptr ? nullptr : dgain + e * cols,
                         doffset == nullptr ? nullptr : doffset + e * cols,
                         [&](std::int64_t row, std::int64_t i, int n) {
                           const std::int64_t at = row * cols + i;
                           const V d = A::backward(load<V>(g, at, n), load<V>(y, at, n));
                           return Two<V>{d * load<V>(x, at, n), d};
                         });
        }
        if (dx == nullptr) continue;  // comes last, because it may lie where the gradient does
        over_rows<V>(
            pixels, cols, [&](std::int64_t i, int n) { return load<V>(gain + e * cols, i, n); },
            [&](V factor, std::int64_t at, int n) {
              store(factor * A::backward(load<V>(g, at, n), load<V>(y, at, n)), dx + e * step, at, n);
            });
      }
    });
  }

  // ---- sums over pixels ----

  /// real[0] times the sum over the pixels of each image: [n, h, w, c] -> [n, c].
  static void global_sum(const KernelArgs& args) {
    const std::int64_t images = args.out[0].rows, cols = args.in[0].cols;
    const std::int64_t pixels = images == 0 ? 0 : args.in[0].rows / images;
    const S* x = args.in[0].as<S>();
    T* out = args.out[0].as<T>();
    for (std::int64_t image = 0; image < images; ++image, x += pixels * cols, out += cols) {
      column_sums<V>(pixels, cols, out, static_cast<T*>(nullptr), [&](std::int64_t row, std::int64_t i, int n) {
        return Two<V>{load<V>(x + row * cols, i, n), V::set(0)};
      });
      K::scale_row(out, cols, static_cast<T>(args.attr->real[0]));
    }
  }
  /// real[0] times the gradient of each image at all its pixels.
  static void global_sum_grad(const KernelArgs& args) {
    const std::int64_t images = args.in[0].rows, cols = args.in[0].cols;
    const std::int64_t pixels = images == 0 ? 0 : args.out[0].rows / images;
    const V factor = V::set(static_cast<T>(args.attr->real[0]));
    const T* g = args.in[0].as<T>();
    S* dx = args.out[0].as<S>();
    for (std::int64_t image = 0; image < images; ++image, g += cols, dx += pixels * cols) {
      over_rows<V>(
          pixels, cols, [&](std::int64_t i, int n) { return factor * load<V>(g, i, n); },
          [&](V value, std::int64_t at, int n) { store(value, dx, at, n); });
    }
  }

  // ---- pooling; integer: h, w, kernel, stride, padding ----

  struct Window {
    std::int64_t h, w, kernel, stride, padding, out_h, out_w;
    explicit Window(const KernelArgs& args)
        : h(args.attr->integer[0]),
          w(args.attr->integer[1]),
          kernel(args.attr->integer[2]),
          stride(args.attr->integer[3]),
          padding(args.attr->integer[4]),
          out_h((h + 2 * padding - kernel) / stride + 1),
          out_w((w + 2 * padding - kernel) / stride + 1) {}
    std::int64_t images(std::int64_t rows) const { return rows / (h * w); }
  };
  struct Range {
    std::int64_t begin, end;
  };
  /// What output `at` of one axis reads.
  static Range reads(const Window& window, std::int64_t at, std::int64_t size) {
    const std::int64_t begin = at * window.stride - window.padding, end = begin + window.kernel;
    return {begin < 0 ? 0 : begin, end > size ? size : end};
  }
  /// Which outputs of one axis read input `at`.
  static Range read_by(const Window& window, std::int64_t at, std::int64_t out_size) {
    const std::int64_t last = (at + window.padding) / window.stride, before = at + window.padding - window.kernel;
    const std::int64_t begin = before < 0 ? 0 : before / window.stride + 1;
    return {begin, last + 1 > out_size ? out_size : last + 1};
  }

  static void average_pool(const KernelArgs& args) {
    const Window window(args);
    const std::int64_t cols = args.in[0].cols, images = window.images(args.in[0].rows);
    const V factor = V::set(T(1) / static_cast<T>(window.kernel * window.kernel));
    S* y = args.out[0].as<S>();
    for (std::int64_t image = 0; image < images; ++image) {
      const S* x = args.in[0].as<S>() + image * window.h * window.w * cols;
      for (std::int64_t oh = 0; oh < window.out_h; ++oh) {
        const Range hs = reads(window, oh, window.h);
        for (std::int64_t ow = 0; ow < window.out_w; ++ow, y += cols) {
          const Range ws = reads(window, ow, window.w);
          for_vectors<V>(cols, [&](std::int64_t i, int n) {
            V sum = V::set(0);
            for (std::int64_t h = hs.begin; h < hs.end; ++h) {
              for (std::int64_t w = ws.begin; w < ws.end; ++w) {
                sum = sum + load<V>(x + (h * window.w + w) * cols, i, n);
              }
            }
            store(factor * sum, y, i, n);
          });
        }
      }
    }
  }
  static void average_pool_grad(const KernelArgs& args) {
    const Window window(args);
    const std::int64_t cols = args.out[0].cols, images = window.images(args.out[0].rows);
    const V factor = V::set(T(1) / static_cast<T>(window.kernel * window.kernel));
    S* dx = args.out[0].as<S>();
    for (std::int64_t image = 0; image < images; ++image) {
      const S* g = args.in[0].as<S>() + image * window.out_h * window.out_w * cols;
      for (std::int64_t h = 0; h < window.h; ++h) {
        const Range hs = read_by(window, h, window.out_h);
        for (std::int64_t w = 0; w < window.w; ++w, dx += cols) {
          const Range ws = read_by(window, w, window.out_w);
          for_vectors<V>(cols, [&](std::int64_t i, int n) {
            V sum = V::set(0);
            for (std::int64_t oh = hs.begin; oh < hs.end; ++oh) {
              for (std::int64_t ow = ws.begin; ow < ws.end; ++ow) {
                sum = sum + load<V>(g + (oh * window.out_w + ow) * cols, i, n);
              }
            }
            store(factor * sum, dx, i, n);
          });
        }
      }
    }
  }
  /// out: the maximum; which place of the window the first one has, row by row: at most 256 places, exact as bfloat16.
  static void max_pool(const KernelArgs& args) {
    const Window window(args);
    const std::int64_t cols = args.in[0].cols, images = window.images(args.in[0].rows);
    S *y = args.out[0].as<S>(), *which = args.out[1].as<S>();
    for (std::int64_t image = 0, at = 0; image < images; ++image) {
      const S* x = args.in[0].as<S>() + image * window.h * window.w * cols;
      for (std::int64_t oh = 0; oh < window.out_h; ++oh) {
        const Range hs = reads(window, oh, window.h);
        const std::int64_t top = oh * window.stride - window.padding;
        for (std::int64_t ow = 0; ow < window.out_w; ++ow, at += cols) {
          const Range ws = reads(window, ow, window.w);
          const std::int64_t left = ow * window.stride - window.padding;
          for_vectors<V>(cols, [&](std::int64_t i, int n) {
            V best = V::set(-static_cast<T>(__builtin_inf())), place = V::set(-1);
            for (std::int64_t h = hs.begin; h < hs.end; ++h) {
              for (std::int64_t w = ws.begin; w < ws.end; ++w) {
                const V value = load<V>(x + (h * window.w + w) * cols, i, n);
                const V here = V::set(static_cast<T>((h - top) * window.kernel + w - left));
                place = if_above(value, best, here, place);
                best = if_above(value, best, value, best);
              }
            }
            if (y != nullptr) store(best, y, at + i, n);
            if (which != nullptr) store(place, which, at + i, n);
          });
        }
      }
    }
  }
  /// in: gradient, which place.
  static void max_pool_grad(const KernelArgs& args) {
    const Window window(args);
    const std::int64_t cols = args.out[0].cols, images = window.images(args.out[0].rows);
    S* dx = args.out[0].as<S>();
    for (std::int64_t image = 0; image < images; ++image) {
      const std::int64_t from = image * window.out_h * window.out_w * cols;
      const S *g = args.in[0].as<S>() + from, *which = args.in[1].as<S>() + from;
      for (std::int64_t h = 0; h < window.h; ++h) {
        const Range hs = read_by(window, h, window.out_h);
        for (std::int64_t w = 0; w < window.w; ++w, dx += cols) {
          const Range ws = read_by(window, w, window.out_w);
          for_vectors<V>(cols, [&](std::int64_t i, int n) {
            V sum = V::set(0);
            for (std::int64_t oh = hs.begin; oh < hs.end; ++oh) {
              for (std::int64_t ow = ws.begin; ow < ws.end; ++ow) {
                const std::int64_t row = h - oh * window.stride + window.padding;
                const std::int64_t column = w - ow * window.stride + window.padding;
                const V here = V::set(static_cast<T>(row * window.kernel + column));
                const std::int64_t at = (oh * window.out_w + ow) * cols;
                sum = sum + if_equal(load<V>(which + at, i, n), here, load<V>(g + at, i, n), V::set(0));
              }
            }
            store(sum, dx, i, n);
          });
        }
      }
    }
  }

  // ---- resizing; integer: h, w, height and width of the result ----

  struct Sizes {
    std::int64_t h, w, out_h, out_w;
    explicit Sizes(const KernelArgs& args)
        : h(args.attr->integer[0]),
          w(args.attr->integer[1]),
          out_h(args.attr->integer[2]),
          out_w(args.attr->integer[3]) {}
  };
  static void copy_row(const S* from, S* to, std::int64_t cols) {
    __builtin_memcpy(to, from, static_cast<std::size_t>(cols) * sizeof(S));
  }
  static void resize_nearest(const KernelArgs& args) {
    const Sizes sizes(args);
    const std::int64_t cols = args.in[0].cols, images = args.in[0].rows / (sizes.h * sizes.w);
    S* y = args.out[0].as<S>();
    for (std::int64_t image = 0; image < images; ++image) {
      const S* x = args.in[0].as<S>() + image * sizes.h * sizes.w * cols;
      for (std::int64_t oh = 0; oh < sizes.out_h; ++oh) {
        const S* row = x + oh * sizes.h / sizes.out_h * sizes.w * cols;
        for (std::int64_t ow = 0; ow < sizes.out_w; ++ow, y += cols) {
          copy_row(row + ow * sizes.w / sizes.out_w * cols, y, cols);
        }
      }
    }
  }
  /// Which outputs of an axis are copies of input `at`.
  static Range copies(std::int64_t at, std::int64_t size, std::int64_t out_size) {
    return {(at * out_size + size - 1) / size, ((at + 1) * out_size + size - 1) / size};
  }
  static void resize_nearest_grad(const KernelArgs& args) {
    const Sizes sizes(args);
    const std::int64_t cols = args.out[0].cols, images = args.out[0].rows / (sizes.h * sizes.w);
    S* dx = args.out[0].as<S>();
    for (std::int64_t image = 0; image < images; ++image) {
      const S* g = args.in[0].as<S>() + image * sizes.out_h * sizes.out_w * cols;
      for (std::int64_t h = 0; h < sizes.h; ++h) {
        const Range hs = copies(h, sizes.h, sizes.out_h);
        for (std::int64_t w = 0; w < sizes.w; ++w, dx += cols) {
          const Range ws = copies(w, sizes.w, sizes.out_w);
          for_vectors<V>(cols, [&](std::int64_t i, int n) {
            V sum = V::set(0);
            for (std::int64_t oh = hs.begin; oh < hs.end; ++oh) {
              for (std::int64_t ow = ws.begin; ow < ws.end; ++ow) {
                sum = sum + load<V>(g + (oh * sizes.out_w + ow) * cols, i, n);
              }
            }
            store(sum, dx, i, n);
          });
        }
      }
    }
  }
  /// The two inputs of an axis that output `at` lies between, and the share of the upper one.
  struct Between {
    std::int64_t lower, upper;
    T share;
    T weight(std::int64_t input) const {
      return (lower == input ? T(1) - share : T(0)) + (upper == input ? share : T(0));
    }
  };
  static Between between(std::int64_t at, std::int64_t size, std::int64_t out_size) {
    double source = (static_cast<double>(at) + 0.5) * static_cast<double>(size) / static_cast<double>(out_size) - 0.5;
    source = source < 0 ? 0 : source;
    std::int64_t lower = static_cast<std::int64_t>(source);
    lower = lower > size - 1 ? size - 1 : lower;
    return {lower, lower + 1 < size ? lower + 1 : lower, static_cast<T>(source - static_cast<double>(lower))};
  }
  static void resize_bilinear(const KernelArgs& args) {
    const Sizes sizes(args);
    const std::int64_t cols = args.in[0].cols, images = args.in[0].rows / (sizes.h * sizes.w);
    S* y = args.out[0].as<S>();
    for (std::int64_t image = 0; image < images; ++image) {
      const S* x = args.in[0].as<S>() + image * sizes.h * sizes.w * cols;
      for (std::int64_t oh = 0; oh < sizes.out_h; ++oh) {
        const Between h = between(oh, sizes.h, sizes.out_h);
        const S *top = x + h.lower * sizes.w * cols, *bottom = x + h.upper * sizes.w * cols;
        for (std::int64_t ow = 0; ow < sizes.out_w; ++ow, y += cols) {
          const Between w = between(ow, sizes.w, sizes.out_w);
          const std::int64_t left = w.lower * cols, right = w.upper * cols;
          const V across = V::set(w.share), down = V::set(h.share);
          for_vectors<V>(cols, [&](std::int64_t i, int n) {
            const V a = load<V>(top + left, i, n), c = load<V>(bottom + left, i, n);
            const V above = a + across * (load<V>(top + right, i, n) - a);
            const V below = c + across * (load<V>(bottom + right, i, n) - c);
            store(above + down * (below - above), y, i, n);
          });
        }
      }
    }
  }
  /// Outputs of an axis that input `at` may have a share in.
  static Range touched(std::int64_t at, std::int64_t size, std::int64_t out_size) {
    // Between inputs at - 1 and at + 1, rounded outwards.
    const std::int64_t begin = ((2 * at - 1) * out_size - size) / (2 * size) - 1;
    const std::int64_t end = ((2 * at + 3) * out_size) / (2 * size) + 2;
    return {begin < 0 || at == 0 ? 0 : begin, end > out_size || at == size - 1 ? out_size : end};
  }
  static void resize_bilinear_grad(const KernelArgs& args) {
    const Sizes sizes(args);
    const std::int64_t cols = args.out[0].cols, images = args.out[0].rows / (sizes.h * sizes.w);
    S* dx = args.out[0].as<S>();
    for (std::int64_t image = 0; image < images; ++image) {
      const S* g = args.in[0].as<S>() + image * sizes.out_h * sizes.out_w * cols;
      for (std::int64_t h = 0; h < sizes.h; ++h) {
        const Range hs = touched(h, sizes.h, sizes.out_h);
        for (std::int64_t w = 0; w < sizes.w; ++w, dx += cols) {
          const Range ws = touched(w, sizes.w, sizes.out_w);
          for_vectors<V>(cols, [&](std::int64_t i, int n) {
            V sum = V::set(0);
            for (std::int64_t oh = hs.begin; oh < hs.end; ++oh) {
              const T down = between(oh, sizes.h, sizes.out_h).weight(h);
              if (down == 0) continue;
              for (std::int64_t ow = ws.begin; ow < ws.end; ++ow) {
                const T across = between(ow, sizes.w, sizes.out_w).weight(w);
                if (across == 0) continue;
                sum = sum + V::set(down * across) * load<V>(g + (oh * sizes.out_w + ow) * cols, i, n);
              }
            }
            store(sum, dx, i, n);
          });
        }
      }
    }
  }

  // ---- bytes ----

  /// in: bytes; real: factor, offset.
  static void from_bytes(const KernelArgs& args) {
    const auto* bytes = args.in[0].as<std::uint8_t>();
    S* out = args.out[0].as<S>();
    const V factor = V::set(static_cast<T>(args.attr->real[0])), offset = V::set(static_cast<T>(args.attr->real[1]));
    for_vectors<V>(args.out[0].elements(), [&](std::int64_t i, int n) {
      T x[V::kLanes];
      if (n == V::kLanes) {
        for (int lane = 0; lane < V::kLanes; ++lane) x[lane] = static_cast<T>(bytes[i + lane]);
      } else {
        for (int lane = 0; lane < n; ++lane) x[lane] = static_cast<T>(bytes[i + lane]);
      }
      store(factor * load<V>(x, 0, n) + offset, out, i, n);
    });
  }

  // ---- shifts; integer: h, w, padding ----

  /// By how many lines (axis 0) or pixels (axis 1) the window of image `image` lies behind the padded one's first: of a
  /// number in [0, 1) one of 0 .. 2 padding, all alike.
  static std::int64_t draw_of(const KernelArgs& args, std::int64_t image, int axis) {
    const std::int64_t most = 2 * args.attr->integer[2];
    const double scaled = static_cast<double>(args.in[1].as<T>()[2 * image + axis]) * static_cast<double>(most + 1);
    return scaled >= static_cast<double>(most) ? most : scaled > 0 ? static_cast<std::int64_t>(scaled) : 0;
  }
  static std::int64_t within(std::int64_t at, std::int64_t size) { return at < 0 ? 0 : at < size ? at : size - 1; }
  /// in: images, draws [images, 2].
  static void shift(const KernelArgs& args) {
    const std::int64_t h = args.attr->integer[0], w = args.attr->integer[1], padding = args.attr->integer[2];
    const std::int64_t cols = args.in[0].cols, images = args.in[0].rows / (h * w);
    const S* x = args.in[0].as<S>();
    S* y = args.out[0].as<S>();
    for (std::int64_t image = 0; image < images; ++image, x += h * w * cols) {
      const std::int64_t down = draw_of(args, image, 0) - padding, right = draw_of(args, image, 1) - padding;
      // Pixels [begin, end) of a line are a piece of one of the image's; those beside them repeat its ends.
      const std::int64_t begin = right < 0 ? (-right < w ? -right : w) : 0;
      const std::int64_t end = right > 0 ? (right < w ? w - right : 0) : w;
      for (std::int64_t line = 0; line < h; ++line) {
        const S* from = x + within(line + down, h) * w * cols;
        for (std::int64_t pixel = 0; pixel < begin; ++pixel, y += cols) copy_row(from, y, cols);
        if (begin < end) {
          copy_row(from + (begin + right) * cols, y, (end - begin) * cols);
          y += (end - begin) * cols;
        }
        for (std::int64_t pixel = end; pixel < w; ++pixel, y += cols) copy_row(from + (w - 1) * cols, y, cols);
      }
    }
  }
  /// Which of the window's lines, or pixels of a line, are copies of `at`.
  static Range shifted_to(std::int64_t at, std::int64_t by, std::int64_t size) {
    const std::int64_t begin = at == 0 ? 0 : at - by, end = at == size - 1 ? size : at - by + 1;
    return {begin < 0 ? 0 : begin, end > size ? size : end};
  }
  /// in: gradient, draws.
  static void shift_grad(const KernelArgs& args) {
    const std::int64_t h = args.attr->integer[0], w = args.attr->integer[1], padding = args.attr->integer[2];
    const std::int64_t cols = args.out[0].cols, images = args.out[0].rows / (h * w);
    const S* g = args.in[0].as<S>();
    S* dx = args.out[0].as<S>();
    for (std::int64_t image = 0; image < images; ++image, g += h * w * cols) {
      const std::int64_t down = draw_of(args, image, 0) - padding, right = draw_of(args, image, 1) - padding;
      for (std::int64_t line = 0; line < h; ++line) {
        const Range hs = shifted_to(line, down, h);
        for (std::int64_t pixel = 0; pixel < w; ++pixel, dx += cols) {
          const Range ws = shifted_to(pixel, right, w);
          for_vectors<V>(cols, [&](std::int64_t i, int n) {
            V sum = V::set(0);
            for (std::int64_t oh = hs.begin; oh < hs.end; ++oh) {
              for (std::int64_t ow = ws.begin; ow < ws.end; ++ow) sum = sum + load<V>(g + (oh * w + ow) * cols, i, n);
            }
            store(sum, dx, i, n);
          });
        }
      }
    }
  }
};

}  // namespace
