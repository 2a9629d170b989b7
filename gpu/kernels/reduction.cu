// Sums, and what needs sums over rows or columns beside its elements: gradients of biases, layer normalisation,
// clipping by norm.
#include <cmath>

#include <troupe/gpu/kernels/activation.hpp>
#include <troupe/gpu/kernels/column_sums.hpp>
#include <troupe/gpu/kernels/map.hpp>
#include <troupe/gpu/kernels/operands.hpp>
#include <troupe/gpu/kernels/repeats.hpp>
#include <troupe/gpu/kernels/rows.hpp>

namespace troupe_cuda {

namespace {

float* workspace_of(const Call& call) { return static_cast<float*>(call.workspace); }

// ---- sums ----

constexpr int kSumThreads = 512;
constexpr std::int64_t kSumChunk = 8192;  // elements of a block
constexpr std::int64_t kSumBlocks = 512;

/// out[b] = factor * the sum of what block b reads.
__global__ void sum_kernel(std::int64_t count, const float* x, float factor, float* out) {
  float sum = 0;
  fetch_ahead(
      std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, count, static_cast<int>(gridDim.x * blockDim.x),
      [&](std::int64_t i) { return x[i]; }, [&](std::int64_t, float value) { sum += value; });
  sum = block_sum(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = factor * sum;
}
std::int64_t sum_blocks(std::int64_t count) {
  const std::int64_t blocks = (count + kSumChunk - 1) / kSumChunk;
  return blocks < 1 ? 1 : blocks < kSumBlocks ? blocks : kSumBlocks;
}
std::size_t sum_workspace(const Call& call) {
  const std::int64_t blocks = sum_blocks(elements(call.in[0]));
  return blocks == 1 ? 0 : static_cast<std::size_t>(blocks) * sizeof(float);
}
/// row_factor() times the sum of the rows that are data.
cudaError_t sum(const Call& call, cudaStream_t stream) {
  const float* x = data<const float>(call.in[0]);
  float* out = data<float>(call.out[0]);
  const std::int64_t count = counted_elements(call, elements(call.in[0])), blocks = sum_blocks(count);
  const float factor = row_factor(call);
  if (blocks == 1) return launch(sum_kernel, 1, kSumThreads, stream, count, x, factor, out);
  float* part = workspace_of(call);
  const cudaError_t error =
      launch(sum_kernel, static_cast<unsigned>(blocks), kSumThreads, stream, count, x, 1.0F, part);
  if (error != cudaSuccess) return error;
  return launch(sum_kernel, 1, kSumThreads, stream, blocks, part, factor, out);
}
/// Of the rows that are data, the lowest number where there are none.
cudaError_t greatest(const Call& call, cudaStream_t stream) {
  const float* x = data<const float>(call.in[0]);
  float* out = data<float>(call.out[0]);
  const std::int64_t count = counted_elements(call, elements(call.in[0]));
  return for_each_row(stream, 1, [=] __device__(std::int64_t, int lane) {
    float most = -3.402823466e38F;
    for (std::int64_t i = lane; i < count; i += kWarp) most = x[i] > most ? x[i] : most;
    most = warp_max(most);
    if (lane == 0) *out = most;
  });
}
cudaError_t sum_last(const Call& call, cudaStream_t stream) {
  const float* x = data<const float>(call.in[0]);
  float* out = data<float>(call.out[0]);
  const std::int64_t cols = call.in[0].cols;
  return for_each_row(stream, call.in[0].rows, [=] __device__(std::int64_t row, int lane) {
    const float total = row_sum(lane, cols, [&](std::int64_t i) { return x[row * cols + i]; });
    if (lane == 0) out[row] = total;
  });
}

struct Rows {
  const float* x;
  std::int64_t cols;

  using Loaded = float;
  __device__ Loaded load(std::int64_t row, std::int64_t col) const { return x[row * cols + col]; }
  __device__ void add(std::int64_t, std::int64_t, Loaded loaded, float* sums) const { sums[0] += loaded; }
};

/// Over the dimensions that the output lacks or has 1 in: of everything by a block, over few rows by columns, else a
/// warp for each element.
cudaError_t sum_to(const Call& call, cudaStream_t stream) {
  constexpr std::int64_t kMostOfBlock = 64 * kSumChunk;
  const float* x = data<const float>(call.in[0]);
  float* out = data<float>(call.out[0]);
  const Repeats repeats(call.in[0].shape, call.out[0].shape);
  const std::int64_t cols = elements(call.out[0]);
  if (cols == 1 && repeats.times <= kMostOfBlock) {
    return launch(sum_kernel, 1, kSumThreads, stream, repeats.times, x, 1.0F, out);
  }
  if (repeats.in_rows() && column_chunks(repeats.times, cols) == 1) {
    return column_sums<1>(stream, repeats.times, cols, Rows{x, cols}, {{out}}, nullptr);
  }
  return for_each_row(stream, elements(call.out[0]), [=] __device__(std::int64_t element, int lane) {
    const std::int64_t first = repeats.first_of(element);
    const float total = row_sum(lane, repeats.times, [&](std::int64_t i) { return x[first + repeats.offset(i)]; });
    if (lane == 0) out[element] = total;
  });
}

// ---- bias and activation ----

template <typename A, typename S>
struct BiasGrad {
  const S *g, *y;
  S* dx;
  std::int64_t cols;

  struct Loaded {
    float g, y;
  };
  __device__ Loaded load(std::int64_t row, std::int64_t col) const {
    const std::int64_t i = row * cols + col;
    return {troupe_cuda::load(g, i), troupe_cuda::load(y, i)};
  }
  __device__ void add(std::int64_t row, std::int64_t col, const Loaded& loaded, float* sums) const {
    const float d = A::backward(loaded.g, loaded.y);
    if (dx != nullptr) store(dx, row * cols + col, d);
    sums[0] += d;
  }
};
template <typename A, typename S>
cudaError_t bias_activation_grad_of(const Call& call, cudaStream_t stream) {
  const Operand& in = call.in[0];
  const S *g = data<const S>(in), *y = data<const S>(call.in[1]);
  S* dx = data<S>(call.out[0]);
  float* dbias = data<float>(call.out[1]);
  if (dbias == nullptr) return dx == nullptr ? cudaSuccess : map(stream, elements(in), ActivationGrad<A>{}, dx, g, y);
  return column_sums<1>(stream, in.rows, in.cols, BiasGrad<A, S>{g, y, dx, in.cols}, {{dbias}}, workspace_of(call));
}
/// in: gradient, output; out: gradient before the activation, its sum over rows (the gradient of the bias).
cudaError_t bias_activation_grad(const Call& call, cudaStream_t stream) {
  if (!images_alike(call, 2) || !is_f32(call.out[1])) return cudaErrorInvalidValue;
  return with_activation(call.integer[0], [&](auto activation) {
    using A = decltype(activation);
    return with_storage(call.in[0].dtype,
                        [&](auto stored) { return bias_activation_grad_of<A, decltype(stored)>(call, stream); });
  });
}
std::size_t bias_activation_grad_workspace(const Call& call) {
  return column_sums_bytes(call.in[0].rows, call.in[0].cols, 1);
}

// ---- layer normalisation; in: x, bias, gain, offset; out: y, normalised x, 1 / standard deviation of each row ----

template <typename A>
cudaError_t layer_norm_of(const Call& call, cudaStream_t stream) {
  const float *x = data<const float>(call.in[0]), *bias = data<const float>(call.in[1]);
  const float *gain = data<const float>(call.in[2]), *offset = data<const float>(call.in[3]);
  float *y = data<float>(call.out[0]), *normalised = data<float>(call.out[1]), *inverse = data<float>(call.out[2]);
  const std::int64_t cols = call.in[0].cols;
  const auto count = static_cast<float>(cols), epsilon = static_cast<float>(call.real[0]);
  return for_each_row_of(stream, call.in[0].rows, cols, [=] __device__(std::int64_t row, auto team) {
    const std::int64_t at = row * cols;
    const auto biased = [&](std::int64_t i) { return x[at + i] + bias[i]; };
    float sum = 0, squares = 0;
    over_row(team, cols, biased, [&](std::int64_t, float value) { sum += value; });
    const float mean = team.sum(sum) / count;
    over_row(team, cols, biased, [&](std::int64_t, float value) { squares += (value - mean) * (value - mean); });
    const float scale = 1 / sqrtf(team.sum(squares) / count + epsilon);
    if (inverse != nullptr && team.lane == 0) inverse[row] = scale;
    struct Loaded {
      float value, gain, offset;
    };
    over_row(
        team, cols,
        [&](std::int64_t i) {
          return Loaded{biased(i), gain[i], offset[i]};
        },
        [&](std::int64_t i, const Loaded& in) {
          const float value = (in.value - mean) * scale;
          if (normalised != nullptr) normalised[at + i] = value;
          if (y != nullptr) y[at + i] = A::forward(value * in.gain + in.offset);
        });
  });
}
cudaError_t layer_norm(const Call& call, cudaStream_t stream) {
  return with_activation(call.integer[0],
                         [&](auto activation) { return layer_norm_of<decltype(activation)>(call, stream); });
}

/// The gradient of x = inverse * (scaled - mean - normalised * slope), scaled = the gradient before the activation
/// times gain; mean and slope are of the row. The product must be rounded (__fmul_rn) before the mean is taken off: in
/// rows of one column nothing is to be left of it, and inverse is large.
struct LayerNormRow {
  float mean, slope;
};
__device__ inline float layer_norm_dx(float scaled, float normalised, float inverse, LayerNormRow row) {
  return inverse * (scaled - row.mean - normalised * row.slope);
}

template <typename A>
struct LayerNormSums {
  const float *g, *y, *normalised, *inverse, *gain;
  const LayerNormRow* row_means;  // null: neither dx nor the gradient of the bias is wanted
  float* dx;
  std::int64_t cols;

  struct Loaded {
    float g, y, normalised, gain, inverse;
    LayerNormRow means;
  };
  __device__ Loaded load(std::int64_t row, std::int64_t col) const {
    const std::int64_t i = row * cols + col;
    const bool means = row_means != nullptr;
    return {g[i], y[i], normalised[i], gain[col], inverse[row], means ? row_means[row] : LayerNormRow{0, 0}};
  }
  /// sums: of gain, offset, bias.
  __device__ void add(std::int64_t row, std::int64_t col, const Loaded& in, float* sums) const {
    const float d = A::backward(in.g, in.y);
    sums[0] += d * in.normalised;
    sums[1] += d;
    if (row_means == nullptr) return;
    const float before = layer_norm_dx(__fmul_rn(d, in.gain), in.normalised, in.inverse, in.means);
    sums[2] += before;
    if (dx != nullptr) dx[row * cols + col] = before;
  }
};

/// The means of each row, to `row_means`; or where that is null the gradient of x, to dx.
template <typename A>
cudaError_t layer_norm_rows(const Call& call, LayerNormRow* row_means, cudaStream_t stream) {
  const float *g = data<const float>(call.in[0]), *y = data<const float>(call.in[1]);
  const float *normalised = data<const float>(call.in[2]), *inverse = data<const float>(call.in[3]);
  const float* gain = data<const float>(call.in[4]);
  float* dx = data<float>(call.out[0]);
  const std::int64_t cols = call.in[0].cols;
  return for_each_row_of(stream, call.in[0].rows, cols, [=] __device__(std::int64_t row, auto team) {
    struct Loaded {
      float scaled, normalised;
    };
    const std::int64_t at = row * cols;
    const auto fetch = [&](std::int64_t i) {
      return Loaded{__fmul_rn(A::backward(g[at + i], y[at + i]), gain[i]), normalised[at + i]};
    };
    float sum = 0, product = 0;
    over_row(team, cols, fetch, [&](std::int64_t, const Loaded& in) {
      sum += in.scaled;
      product += in.scaled * in.normalised;
    });
    const LayerNormRow means{team.sum(sum) / static_cast<float>(cols), team.sum(product) / static_cast<float>(cols)};
    if (row_means != nullptr) {
      if (team.lane == 0) row_means[row] = means;
      return;
    }
    const float scale = inverse[row];
    over_row(team, cols, fetch, [&](std::int64_t i, const Loaded& in) {
      dx[at + i] = layer_norm_dx(in.scaled, in.normalised, scale, means);
    });
  });
}

template <typename A>
cudaError_t layer_norm_grad_of(const Call& call, cudaStream_t stream) {
  const std::int64_t rows = call.in[0].rows, cols = call.in[0].cols;
  float* dx = data<float>(call.out[0]);
  float *dgain = data<float>(call.out[1]), *doffset = data<float>(call.out[2]), *dbias = data<float>(call.out[3]);
  if (dgain == nullptr && doffset == nullptr && dbias == nullptr) {
    return dx == nullptr ? cudaSuccess : layer_norm_rows<A>(call, nullptr, stream);
  }
  LayerNormRow* row_means = nullptr;
  if (dx != nullptr || dbias != nullptr) {
    row_means = static_cast<LayerNormRow*>(call.workspace);
    const cudaError_t error = layer_norm_rows<A>(call, row_means, stream);
    if (error != cudaSuccess) return error;
  }
  const LayerNormSums<A> sums{data<const float>(call.in[0]),
                              data<const float>(call.in[1]),
                              data<const float>(call.in[2]),
                              data<const float>(call.in[3]),
                              data<const float>(call.in[4]),
                              row_means,
                              dx,
                              cols};
  return column_sums<3>(stream, rows, cols, sums, {{dgain, doffset, dbias}}, workspace_of(call) + 2 * rows);
}
/// in: gradient, y, normalised x, 1 / standard deviation, gain; out: gradients of x, gain, offset, bias.
cudaError_t layer_norm_grad(const Call& call, cudaStream_t stream) {
  return with_activation(call.integer[0],
                         [&](auto activation) { return layer_norm_grad_of<decltype(activation)>(call, stream); });
}
std::size_t layer_norm_grad_workspace(const Call& call) {
  const std::int64_t rows = call.in[0].rows;
  return static_cast<std::size_t>(rows) * sizeof(LayerNormRow) + column_sums_bytes(rows, call.in[0].cols, 3);
}

// ---- gradients ----

/// Rows longer than real[0] are scaled down to it. Of a part of the batch the gradients are as much larger as a mean's
/// divisor was smaller, and so is the limit.
cudaError_t clip_row_norm(const Call& call, cudaStream_t stream) {
  const bool whole = call.valid.rows == call.valid.batch || call.valid.rows == 0;
  const double share = whole ? 1 : static_cast<double>(call.valid.batch) / static_cast<double>(call.valid.rows);
  const auto limit = static_cast<float>(call.real[0] * share);
  const float* x = data<const float>(call.in[0]);
  float* out = data<float>(call.out[0]);
  const std::int64_t cols = call.in[0].cols;
  return for_each_row(stream, call.in[0].rows, [=] __device__(std::int64_t row, int lane) {
    const std::int64_t at = row * cols;
    const auto fetch = [&](std::int64_t i) { return x[at + i]; };
    float squares = 0;
    over_row(lane, cols, fetch, [&](std::int64_t, float value) { squares += value * value; });
    const float norm = sqrtf(warp_sum(squares)), factor = norm > limit ? limit / norm : 1;
    over_row(lane, cols, fetch, [&](std::int64_t i, float value) { out[at + i] = value * factor; });
  });
}

constexpr Kernel kKernels[] = {
    {"sum", f32_only<sum>, sum_workspace},
    {"sum_last", f32_only<sum_last>},
    {"greatest", f32_only<greatest>},
    {"sum_to", f32_only<sum_to>},
    {"bias_activation_grad", bias_activation_grad, bias_activation_grad_workspace},
    {"layer_norm", f32_only<layer_norm>},
    {"layer_norm_grad", f32_only<layer_norm_grad>, layer_norm_grad_workspace},
    {"clip_row_norm", f32_only<clip_row_norm>},
};

}  // namespace

std::span<const Kernel> reduction_kernels() { return kKernels; }

}  // namespace troupe_cuda
