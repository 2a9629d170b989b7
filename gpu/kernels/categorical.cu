// Distributions over the last dimension, a warp for each: softmax, losses to targets and to labels, values on atoms.
#include <cmath>

#include <troupe/gpu/kernels/operands.hpp>
#include <troupe/gpu/kernels/rows.hpp>

namespace troupe_cuda {

namespace {

// ---- softmax ----

/// The softmax of a row is exp(x - maximum) / total, in every lane of its warp.
struct Normaliser {
  float maximum, total;
  __device__ float exp_of(float x) const { return expf(x - maximum); }
  /// What is subtracted from a logit to make it the logarithm of a probability.
  __device__ float shift() const { return maximum + logf(total); }
};
__device__ Normaliser normaliser(int lane, std::int64_t cols, const float* x) {
  const auto fetch = [&](std::int64_t i) { return x[i]; };
  Normaliser row{x[0], 0};
  over_row(lane, cols, fetch, [&](std::int64_t, float value) {
    if (value > row.maximum) row.maximum = value;
  });
  row.maximum = warp_max(row.maximum);
  row.total = row_sum(lane, cols, [&](std::int64_t i) { return row.exp_of(x[i]); });
  return row;
}
__device__ void write_softmax(int lane, std::int64_t cols, const float* x, const Normaliser& row, float* out) {
  const float scale = 1 / row.total;
  over_row(
      lane, cols, [&](std::int64_t i) { return x[i]; },
      [&](std::int64_t i, float value) { out[i] = row.exp_of(value) * scale; });
}

cudaError_t softmax(const Call& call, cudaStream_t stream) {
  const float* x = data<const float>(call.in[0]);
  float* out = data<float>(call.out[0]);
  const std::int64_t cols = call.in[0].cols;
  return for_each_row(stream, call.in[0].rows, [=] __device__(std::int64_t row, int lane) {
    const float* from = x + row * cols;
    write_softmax(lane, cols, from, normaliser(lane, cols, from), out + row * cols);
  });
}

/// What the gradients of a row are made of: two values at each place.
struct Pair {
  float first, second;
};

/// in: gradient, output. y * (g - sum(g y)).
cudaError_t softmax_grad(const Call& call, cudaStream_t stream) {
  const float *g = data<const float>(call.in[0]), *y = data<const float>(call.in[1]);
  float* out = data<float>(call.out[0]);
  const std::int64_t cols = call.in[0].cols;
  return for_each_row(stream, call.in[0].rows, [=] __device__(std::int64_t row, int lane) {
    const std::int64_t at = row * cols;
    const float dot = row_sum(lane, cols, [&](std::int64_t i) { return g[at + i] * y[at + i]; });
    over_row(
        lane, cols,
        [&](std::int64_t i) {
          return Pair{g[at + i], y[at + i]};
        },
        [&](std::int64_t i, const Pair& in) { out[at + i] = in.second * (in.first - dot); });
  });
}
cudaError_t log_softmax(const Call& call, cudaStream_t stream) {
  const float* x = data<const float>(call.in[0]);
  float* out = data<float>(call.out[0]);
  const std::int64_t cols = call.in[0].cols;
  return for_each_row(stream, call.in[0].rows, [=] __device__(std::int64_t row, int lane) {
    const std::int64_t at = row * cols;
    const float shift = normaliser(lane, cols, x + at).shift();
    over_row(
        lane, cols, [&](std::int64_t i) { return x[at + i]; },
        [&](std::int64_t i, float value) { out[at + i] = value - shift; });
  });
}
cudaError_t log_sum_exp(const Call& call, cudaStream_t stream) {
  const float* x = data<const float>(call.in[0]);
  float* out = data<float>(call.out[0]);
  const std::int64_t cols = call.in[0].cols;
  return for_each_row(stream, call.in[0].rows, [=] __device__(std::int64_t row, int lane) {
    const float shift = normaliser(lane, cols, x + row * cols).shift();
    if (lane == 0) out[row] = shift;
  });
}
/// in: gradient, output. g - exp(y) * sum(g).
cudaError_t log_softmax_grad(const Call& call, cudaStream_t stream) {
  const float *g = data<const float>(call.in[0]), *y = data<const float>(call.in[1]);
  float* out = data<float>(call.out[0]);
  const std::int64_t cols = call.in[0].cols;
  return for_each_row(stream, call.in[0].rows, [=] __device__(std::int64_t row, int lane) {
    const std::int64_t at = row * cols;
    const float total = row_sum(lane, cols, [&](std::int64_t i) { return g[at + i]; });
    over_row(
        lane, cols,
        [&](std::int64_t i) {
          return Pair{g[at + i], y[at + i]};
        },
        [&](std::int64_t i, const Pair& in) { out[at + i] = in.first - expf(in.second) * total; });
  });
}

// ---- cross entropy to a distribution ----

/// in: logits, target; out: loss of each row, softmax of the logits.
cudaError_t softmax_cross_entropy(const Call& call, cudaStream_t stream) {
  const float *x = data<const float>(call.in[0]), *target = data<const float>(call.in[1]);
  float *loss = data<float>(call.out[0]), *probs = data<float>(call.out[1]);
  const std::int64_t cols = call.in[0].cols;
  return for_each_row(stream, call.in[0].rows, [=] __device__(std::int64_t row, int lane) {
    const std::int64_t at = row * cols;
    const Normaliser normal = normaliser(lane, cols, x + at);
    if (probs != nullptr) write_softmax(lane, cols, x + at, normal, probs + at);
    if (loss == nullptr) return;
    const float shift = normal.shift();
    const float total = row_sum(lane, cols, [&](std::int64_t i) { return target[at + i] * (shift - x[at + i]); });
    if (lane == 0) loss[row] = total;
  });
}
/// in: gradient of each row's loss, softmax of the logits, target. g * (p sum(target) - target).
cudaError_t softmax_cross_entropy_grad(const Call& call, cudaStream_t stream) {
  const float* g = data<const float>(call.in[0]);
  const float *probs = data<const float>(call.in[1]), *target = data<const float>(call.in[2]);
  float* out = data<float>(call.out[0]);
  const std::int64_t cols = call.in[1].cols;
  return for_each_row(stream, call.in[1].rows, [=] __device__(std::int64_t row, int lane) {
    const std::int64_t at = row * cols;
    const float total = row_sum(lane, cols, [&](std::int64_t i) { return target[at + i]; }), factor = g[row];
    over_row(
        lane, cols,
        [&](std::int64_t i) {
          return Pair{probs[at + i], target[at + i]};
        },
        [&](std::int64_t i, const Pair& in) { out[at + i] = factor * (in.first * total - in.second); });
  });
}

// ---- labels ----

/// in: logits, labels; real[0]: smoothing s; out: loss of each row to the target (1 - s) onehot + s / cols, which is
/// NaN for a label that is none; softmax of the logits.
cudaError_t label_cross_entropy(const Call& call, cudaStream_t stream) {
  const float* x = data<const float>(call.in[0]);
  const auto* labels = data<const std::int32_t>(call.in[1]);
  float *loss = data<float>(call.out[0]), *probs = data<float>(call.out[1]);
  const std::int64_t cols = call.in[0].cols;
  const auto smoothing = static_cast<float>(call.real[0]);
  return for_each_row(stream, call.in[0].rows, [=] __device__(std::int64_t row, int lane) {
    const float* from = x + row * cols;
    const Normaliser normal = normaliser(lane, cols, from);
    if (probs != nullptr) write_softmax(lane, cols, from, normal, probs + row * cols);
    if (loss == nullptr) return;
    const float shift = normal.shift();
    const std::int32_t label = labels[row];
    float value = label >= 0 && label < cols ? (1 - smoothing) * (shift - from[label]) : NAN;
    if (smoothing != 0) {
      const float rest = row_sum(lane, cols, [&](std::int64_t i) { return shift - from[i]; });
      value += smoothing / static_cast<float>(cols) * rest;
    }
    if (lane == 0) loss[row] = value;
  });
}
/// in: gradient of each row's loss, softmax of the logits, labels. g (p - target), NaN as above.
cudaError_t label_cross_entropy_grad(const Call& call, cudaStream_t stream) {
  const float *g = data<const float>(call.in[0]), *probs = data<const float>(call.in[1]);
  const auto* labels = data<const std::int32_t>(call.in[2]);
  float* out = data<float>(call.out[0]);
  const std::int64_t cols = call.in[1].cols;
  const auto smoothing = static_cast<float>(call.real[0]);
  const float base = smoothing / static_cast<float>(cols);
  return for_each_row(stream, call.in[1].rows, [=] __device__(std::int64_t row, int lane) {
    const std::int64_t at = row * cols;
    const float factor = g[row];
    const std::int32_t label = labels[row];
    const bool known = label >= 0 && label < cols;
    const std::int64_t special = known ? label : 0;
    const float taken = known ? factor * (1 - smoothing) : NAN;
    over_row(
        lane, cols, [&](std::int64_t i) { return probs[at + i]; },
        [&](std::int64_t i, float p) { out[at + i] = factor * (p - base) - (i == special ? taken : 0); });
  });
}
/// in: logits, labels; out: 1 where fewer than integer[0] logits are larger than the label's, or as large and before
/// it, else 0, also for a label that is none.
cudaError_t is_in_top(const Call& call, cudaStream_t stream) {
  const float* x = data<const float>(call.in[0]);
  const auto* labels = data<const std::int32_t>(call.in[1]);
  float* out = data<float>(call.out[0]);
  const std::int64_t cols = call.in[0].cols, top = call.integer[0];
  return for_each_row(stream, call.in[0].rows, [=] __device__(std::int64_t row, int lane) {
    const float* from = x + row * cols;
    const std::int32_t label = labels[row];
    const bool inside = label >= 0 && label < cols;
    const float chosen = inside ? from[label] : 0;
    const bool known = inside && chosen == chosen;  // and no NaN
    int ahead = 0;
    over_row(
        lane, cols, [&](std::int64_t i) { return from[i]; },
        [&](std::int64_t i, float value) { ahead += value > chosen || (value == chosen && i < label); });
    ahead = warp_sum(ahead);
    if (lane == 0) out[row] = known && ahead < top ? 1 : 0;
  });
}

// ---- values on atoms: real[0] is the lowest, real[1] their distance ----

struct Atoms {
  double low, step;
  __device__ float at(std::int64_t i) const { return static_cast<float>(low + static_cast<double>(i) * step); }
};

/// in: logits; out: mean over the atoms, softmax of the logits.
cudaError_t categorical_mean(const Call& call, cudaStream_t stream) {
  const float* x = data<const float>(call.in[0]);
  float *mean = data<float>(call.out[0]), *probs = data<float>(call.out[1]);
  const std::int64_t cols = call.in[0].cols;
  const Atoms atoms{call.real[0], call.real[1]};
  return for_each_row(stream, call.in[0].rows, [=] __device__(std::int64_t row, int lane) {
    const float* from = x + row * cols;
    const Normaliser normal = normaliser(lane, cols, from);
    if (probs != nullptr) write_softmax(lane, cols, from, normal, probs + row * cols);
    if (mean == nullptr) return;
    const float sum = row_sum(lane, cols, [&](std::int64_t i) { return normal.exp_of(from[i]) * atoms.at(i); });
    if (lane == 0) mean[row] = sum * (1 / normal.total);
  });
}
/// in: gradient of each row's mean, softmax of the logits, mean. g p (z - mean).
cudaError_t categorical_mean_grad(const Call& call, cudaStream_t stream) {
  const float* g = data<const float>(call.in[0]);
  const float *probs = data<const float>(call.in[1]), *mean = data<const float>(call.in[2]);
  float* out = data<float>(call.out[0]);
  const std::int64_t cols = call.in[1].cols;
  const Atoms atoms{call.real[0], call.real[1]};
  return for_each_row(stream, call.in[1].rows, [=] __device__(std::int64_t row, int lane) {
    const std::int64_t at = row * cols;
    const float factor = g[row], centre = mean[row];
    over_row(
        lane, cols, [&](std::int64_t i) { return probs[at + i]; },
        [&](std::int64_t i, float p) { out[at + i] = factor * p * (atoms.at(i) - centre); });
  });
}

/// in: logits, next logits, reward, discount; out: loss of each row, its gradient by the logits. Bellemare et al. 2017,
/// Alg. 1, seen from the target's atoms: a lane collects what falls to those that are its own, in the order of the next
/// atoms that it comes from, so nothing is written twice. Where an atom falls is computed in float64: the shares are
/// what a large number is above a whole one.
cudaError_t categorical_td(const Call& call, cudaStream_t stream) {
  const float *x = data<const float>(call.in[0]), *next = data<const float>(call.in[1]);
  const float *reward = data<const float>(call.in[2]), *discount = data<const float>(call.in[3]);
  float *loss = data<float>(call.out[0]), *gradient = data<float>(call.out[1]);
  const std::int64_t cols = call.in[0].cols;
  const double low = call.real[0], step = call.real[1], last = static_cast<double>(cols - 1);
  return for_each_row(stream, call.in[0].rows, [=] __device__(std::int64_t row, int lane) {
    constexpr int kAtoms = 2;  // of each lane at once
    constexpr unsigned kAll = 0xffffffffU;
    const float *from = x + row * cols, *next_from = next + row * cols;
    // Atom i falls to start + i * stride, in units of atoms: (reward + discount * z_i - low) / step.
    const double stride = discount[row], start = (reward[row] + stride * low - low) / step;
    // Of a reward or discount that has no place on any support the row must not look as if it had a target.
    const bool known = start == start && stride - stride == 0;
    const Normaliser now = normaliser(lane, cols, from), then = normaliser(lane, cols, next_from);
    const float shift = known ? now.shift() : NAN, scale = known ? 1 / now.total : NAN, next_scale = 1 / then.total;
    float sum = 0;
    for (std::int64_t first = lane; first - lane < cols; first += kAtoms * kWarp) {
      float target[kAtoms] = {};
      for (std::int64_t begin = 0; begin < cols; begin += kWarp) {
        // Each lane has one of the next atoms, which all of them then look at.
        const std::int64_t own = begin + lane;
        const float weight = own < cols ? then.exp_of(next_from[own]) * next_scale : 0;
        double at = start + static_cast<double>(own) * stride;
        at = at < 0 ? 0 : at > last ? last : at;  // clipped to the support
        const double below = at < last ? floor(at) : last - 1;
        const auto place = static_cast<float>(below), upper_share = static_cast<float>(at - below);
        const float lower_part = weight * (1 - upper_share), upper_part = weight * upper_share;
        const int count = cols - begin < kWarp ? static_cast<int>(cols - begin) : kWarp;
        for (int source = 0; source < count; ++source) {
          const float place_of = __shfl_sync(kAll, place, source);
          const float lower = __shfl_sync(kAll, lower_part, source), upper = __shfl_sync(kAll, upper_part, source);
          for (int k = 0; k < kAtoms; ++k) {
            const float above = static_cast<float>(first + k * kWarp) - place_of;
            target[k] += above == 0 ? lower : above == 1 ? upper : 0;
          }
        }
      }
      for (int k = 0; k < kAtoms; ++k) {
        const std::int64_t i = first + k * kWarp;
        if (i >= cols) continue;
        sum += target[k] * (shift - from[i]);
        if (gradient != nullptr) gradient[row * cols + i] = now.exp_of(from[i]) * scale - target[k];
      }
    }
    sum = warp_sum(sum);
    if (loss != nullptr && lane == 0) loss[row] = sum;
  });
}
/// in: gradient of each row's loss, the loss's own by the logits.
cudaError_t categorical_td_grad(const Call& call, cudaStream_t stream) {
  const float *g = data<const float>(call.in[0]), *gradient = data<const float>(call.in[1]);
  float* out = data<float>(call.out[0]);
  const std::int64_t cols = call.in[1].cols;
  return for_each_row(stream, call.in[1].rows, [=] __device__(std::int64_t row, int lane) {
    const std::int64_t at = row * cols;
    const float factor = g[row];
    over_row(
        lane, cols, [&](std::int64_t i) { return gradient[at + i]; },
        [&](std::int64_t i, float value) { out[at + i] = factor * value; });
  });
}

constexpr Kernel kKernels[] = {
    {"softmax", f32_only<softmax>},
    {"softmax_grad", f32_only<softmax_grad>},
    {"log_softmax", f32_only<log_softmax>},
    {"log_sum_exp", f32_only<log_sum_exp>},
    {"log_softmax_grad", f32_only<log_softmax_grad>},
    {"softmax_cross_entropy", f32_only<softmax_cross_entropy>},
    {"softmax_cross_entropy_grad", f32_only<softmax_cross_entropy_grad>},
    {"label_cross_entropy", f32_only<label_cross_entropy, 1>},
    {"label_cross_entropy_grad", f32_only<label_cross_entropy_grad, 2>},
    {"is_in_top", f32_only<is_in_top, 1>},
    {"categorical_mean", f32_only<categorical_mean>},
    {"categorical_mean_grad", f32_only<categorical_mean_grad>},
    {"categorical_td", f32_only<categorical_td>},
    {"categorical_td_grad", f32_only<categorical_td_grad>},
};

}  // namespace

std::span<const Kernel> categorical_kernels() { return kKernels; }

}  // namespace troupe_cuda
