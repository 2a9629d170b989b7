// What moves values or fills them in: parts of rows, copies, constants, masks, rows of a table.
#include <cmath>

#include <troupe/gpu/kernels/map.hpp>
#include <troupe/gpu/kernels/operands.hpp>
#include <troupe/gpu/kernels/repeats.hpp>
#include <troupe/gpu/kernels/rows.hpp>

namespace troupe_cuda {

namespace {

// ---- parts of rows ----

cudaError_t concat(const Call& call, cudaStream_t stream) {
  const float *a = data<const float>(call.in[0]), *b = data<const float>(call.in[1]);
  float* out = data<float>(call.out[0]);
  const std::int64_t left = call.in[0].cols, right = call.in[1].cols, cols = call.out[0].cols;
  return for_each(stream, elements(call.out[0]), [=] __device__(std::int64_t i) {
    const std::int64_t row = i / cols, col = i % cols;
    out[i] = col < left ? a[row * left + col] : b[row * right + col - left];
  });
}
/// From column integer[0] on.
cudaError_t slice(const Call& call, cudaStream_t stream) {
  const float* x = data<const float>(call.in[0]);
  float* out = data<float>(call.out[0]);
  const std::int64_t in_cols = call.in[0].cols, cols = call.out[0].cols, begin = call.integer[0];
  return for_each(stream, elements(call.out[0]),
                  [=] __device__(std::int64_t i) { out[i] = x[i / cols * in_cols + begin + i % cols]; });
}
/// Zeros with the input at column integer[0].
cudaError_t pad(const Call& call, cudaStream_t stream) {
  const float* x = data<const float>(call.in[0]);
  float* out = data<float>(call.out[0]);
  const std::int64_t in_cols = call.in[0].cols, cols = call.out[0].cols, begin = call.integer[0];
  return for_each(stream, elements(call.out[0]), [=] __device__(std::int64_t i) {
    const std::int64_t col = i % cols - begin;
    out[i] = col >= 0 && col < in_cols ? x[i / cols * in_cols + col] : 0;
  });
}
/// The input's elements repeat where it lacks a dimension of the output or has 1 there.
cudaError_t broadcast(const Call& call, cudaStream_t stream) {
  const float* x = data<const float>(call.in[0]);
  float* out = data<float>(call.out[0]);
  const Repeats repeats(call.out[0].shape, call.in[0].shape);
  return for_each(stream, elements(call.out[0]), [=] __device__(std::int64_t i) { out[i] = x[repeats.part_of(i)]; });
}

// ---- copies ----

template <typename S>
cudaError_t copy_of(const Call& call, cudaStream_t stream) {
  return map(stream, elements(call.out[0]), Same{}, data<S>(call.out[0]), data<const S>(call.in[0]));
}
/// Also of integers, whose bits pass as those of a float do.
cudaError_t copy(const Call& call, cudaStream_t stream) {
  const std::int32_t dtype = call.in[0].dtype;
  const bool known = dtype == TROUPE_CUDA_F32 || dtype == TROUPE_CUDA_BF16 || dtype == TROUPE_CUDA_I32;
  if (!known || call.out[0].dtype != dtype) return cudaErrorInvalidValue;
  return with_storage(dtype, [&](auto stored) { return copy_of<decltype(stored)>(call, stream); });
}
/// The rows that are data; zeros behind them. The output may be the input.
cudaError_t mask_rows(const Call& call, cudaStream_t stream) {
  const float* x = data<const float>(call.in[0]);
  float* out = data<float>(call.out[0]);
  const std::int64_t count = elements(call.out[0]), valid = valid_elements(call, count);
  if (out == x) {
    return for_each(stream, count - valid, [=] __device__(std::int64_t i) { out[valid + i] = 0; });
  }
  return for_each(stream, count, [=] __device__(std::int64_t i) { out[i] = i < valid ? x[i] : 0; });
}

// ---- constants ----

cudaError_t fill(const Call& call, cudaStream_t stream) {
  const float* value = data<const float>(call.in[0]);
  float* out = data<float>(call.out[0]);
  return for_each(stream, elements(call.out[0]), [=] __device__(std::int64_t i) { out[i] = *value; });
}
/// The value times row_factor() in the rows that are data; zeros behind them.
cudaError_t fill_rows(const Call& call, cudaStream_t stream) {
  const float* value = data<const float>(call.in[0]);
  float* out = data<float>(call.out[0]);
  const float factor = row_factor(call);
  const std::int64_t count = elements(call.out[0]), valid = counted_elements(call, count);
  return for_each(stream, count, [=] __device__(std::int64_t i) { out[i] = i < valid ? factor * *value : 0; });
}
cudaError_t count_rows(const Call& call, cudaStream_t stream) {
  float* out = data<float>(call.out[0]);
  const auto rows = static_cast<float>(call.valid.rows);
  return for_each(stream, 1, [=] __device__(std::int64_t) { *out = rows; });
}

// ---- rows of a table ----

/// in: table, indices; out: rows of the table, NaN for an index outside it.
cudaError_t embedding(const Call& call, cudaStream_t stream) {
  const float* table = data<const float>(call.in[0]);
  const auto* index = data<const std::int32_t>(call.in[1]);
  float* out = data<float>(call.out[0]);
  const std::int64_t vocabulary = call.in[0].rows, cols = call.in[0].cols;
  return for_each(stream, elements(call.out[0]), [=] __device__(std::int64_t i) {
    const std::int64_t row = index[i / cols];
    out[i] = row >= 0 && row < vocabulary ? table[row * cols + i % cols] : NAN;
  });
}

/// Of the rows that have one index, the warp of the first adds up all, in their order. So the work depends on the batch
/// and not on the vocabulary. One warp more than there are rows looks for an index outside the table; where there is
/// one, the first element becomes NaN, also by the warp that owns it, so it does not matter which is the last.
__global__ void embedding_grad_kernel(const float* g, const std::int32_t* index, float* table, std::int64_t rows,
                                      std::int64_t vocabulary, std::int64_t cols) {
  constexpr int kColumns = 4;  // of each lane, in registers
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t stride = std::int64_t{gridDim.x} * kBlockRows;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kBlockRows + threadIdx.x / kWarp; row <= rows; row += stride) {
    const std::int32_t target = row < rows ? index[row] : -1;
    int earlier = 0, outside = 0;
    over_row(
        lane, rows, [&](std::int64_t i) { return index[i]; },
        [&](std::int64_t i, std::int32_t other) {
          if (i < row && other == target) earlier = 1;
          if (other < 0 || other >= vocabulary) outside = 1;
        });
    earlier = warp_max(earlier);
    outside = warp_max(outside);
    if (row == rows && outside != 0 && lane == 0) table[0] = NAN;
    if (earlier != 0 || target < 0 || target >= vocabulary) continue;
    for (std::int64_t from = 0; from < cols; from += kColumns * kWarp) {
      float sum[kColumns] = {};
      for (std::int64_t first = row; first < rows; first += kWarp) {
        const std::int32_t mine = first + lane < rows ? index[first + lane] : -1;
        for (int i = 0; i < kWarp; ++i) {
          if (__shfl_sync(0xffffffffU, mine, i) != target) continue;  // the same in all lanes
          for (int k = 0; k < kColumns; ++k) {
            const std::int64_t col = from + k * kWarp + lane;
            if (col < cols) sum[k] += g[(first + i) * cols + col];
          }
        }
      }
      for (int k = 0; k < kColumns; ++k) {
        const std::int64_t col = from + k * kWarp + lane;
        if (col < cols) table[target * cols + col] = target == 0 && col == 0 && outside != 0 ? NAN : sum[k];
      }
    }
  }
}
/// in: gradient, indices; out: gradient of the table, with a NaN for an index outside it.
cudaError_t embedding_grad(const Call& call, cudaStream_t stream) {
  const Operand& table = call.out[0];
  const auto bytes = static_cast<std::size_t>(elements(table)) * sizeof(float);
  const cudaError_t error = cudaMemsetAsync(table.data, 0, bytes, stream);
  if (error != cudaSuccess) return error;
  const std::int64_t rows = call.in[0].rows;
  return launch(embedding_grad_kernel, blocks_for(rows + 1, kBlockRows), kBlockRows * kWarp, stream,
                data<const float>(call.in[0]), data<const std::int32_t>(call.in[1]), data<float>(table), rows,
                table.rows, table.cols);
}

constexpr Kernel kKernels[] = {
    {"concat", f32_only<concat>},
    {"slice", f32_only<slice>},
    {"pad", f32_only<pad>},
    {"broadcast", f32_only<broadcast>},
    {"identity", copy},
    {"as_partial", f32_only<copy>},  // of one stripe the whole
    {"mask_rows", f32_only<mask_rows>},
    {"fill", f32_only<fill>},
    {"fill_rows", f32_only<fill_rows>},
    {"count_rows", f32_only<count_rows>},
    {"embedding", f32_only<embedding, 1>},
    {"embedding_grad", f32_only<embedding_grad, 1>},
};

}  // namespace

std::span<const Kernel> moving_kernels() { return kKernels; }

}  // namespace troupe_cuda
