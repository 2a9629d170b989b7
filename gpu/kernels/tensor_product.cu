// As in tiled_product.cu a block computes a tile of c over slices of k, which lie in shared memory while the next ones
// are on their way. Here a warp computes the whole of a tile by tensor cores, over its part of each slice: at the sizes
// of networks' layers what counts is how few slices there are one behind the other. In shared memory an operand lies as
// in memory, rows of it behind each other: so it comes over 16 bytes at a time, where rows are a multiple of that.
#include <troupe/gpu/kernels/copy_async.hpp>
#include <troupe/gpu/kernels/launch.hpp>
#include <troupe/gpu/kernels/tensor_core.hpp>
#include <troupe/gpu/kernels/tensor_product.hpp>

namespace troupe_cuda {

namespace {

constexpr int kTile = 16;                // rows and columns
constexpr int kSteps = 64, kSlices = 3;  // of a slice; in shared memory
constexpr int kWarpThreads = 32, kWarps = 8, kThreadsOfTile = kWarps * kWarpThreads;
constexpr int kWarpSteps = kSteps / kWarps;
static_assert(kWarpSteps == 8);  // of one product of a tensor core

/// An operand's slices, along rows or columns of c. StepsInRows: its rows in memory are steps of the sum, else a row
/// has the steps for one of c's.
template <bool StepsInRows>
struct Slice {
  static constexpr int kInner = StepsInRows ? kTile : kSteps, kRows = StepsInRows ? kSteps : kTile;
  // Padded so that the 32 elements that a warp reads at once for a product of 16 x 8 or 8 x 8 lie in 32 banks.
  static constexpr int kRow = kInner + (StepsInRows ? 8 : 4), kFloats = kRows * kRow;

  __device__ static int place(int along, int step) { return StepsInRows ? step * kRow + along : along * kRow + step; }

  /// Begins to copy the slice whose first step is `begin`, Width elements at a time.
  template <int Width>
  __device__ static void fetch(const float* operand, int first, int size, int begin, int k, float* to) {
    constexpr int kPerRow = kInner / Width;
    for (int e = static_cast<int>(threadIdx.x); e < kRows * kPerRow; e += kThreadsOfTile) {
      const int row = e / kPerRow, inner = e % kPerRow * Width;
      const int along = first + (StepsInRows ? inner : row), step = begin + (StepsInRows ? row : inner);
      const bool inside = along < size && step < k;
      const auto at = [&] { return StepsInRows ? step * size + along : along * k + step; };
      copy_async<Width>(to + row * kRow + inner, operand + (inside ? at() : 0), inside);
    }
  }
  __device__ static void fetch(bool wide, const float* operand, int first, int size, int begin, int k, float* to) {
    if (wide) {
      fetch<4>(operand, first, size, begin, k, to);
    } else {
      fetch<1>(operand, first, size, begin, k, to);
    }
  }
};

/// Two numbers of TF32 that make up x, or one.
template <bool Split, int Count>
struct Parts {
  float large[Count], rest[Count];
  __device__ void take(int i, float x) {
    large[i] = to_tf32(x);
    if (Split) rest[i] = to_tf32(x - large[i]);
  }
};

template <bool TransposeA, bool TransposeB, bool Split>
__global__ void __launch_bounds__(kThreadsOfTile) tensor_kernel(TiledOperands p, bool wide_a, bool wide_b) {
  using SliceA = Slice<TransposeA>;
  using SliceB = Slice<!TransposeB>;
  constexpr int kSlice = SliceA::kFloats + SliceB::kFloats, kFloats = kSlices * kSlice;
  static_assert(kFloats >= kWarps * kTile * kTile && kFloats * sizeof(float) <= 48 * 1024);
  alignas(16) __shared__ float memory[kFloats];

  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarpThreads, lane = thread % kWarpThreads;
  const int g = lane / 4, t = lane % 4;  // as tensor_core.hpp has them
  const int first_row = static_cast<int>(blockIdx.y) * kTile, first_col = static_cast<int>(blockIdx.x) * kTile;
  const int slices = (p.k + kSteps - 1) / kSteps;
  const auto fetch = [&](int slice) {
    float* const to = memory + slice % kSlices * kSlice;
    if (slice < slices) {
      SliceA::fetch(wide_a, p.a, first_row, p.m, slice * kSteps, p.k, to);
      SliceB::fetch(wide_b, p.b, first_col, p.n, slice * kSteps, p.k, to + SliceA::kFloats);
    }
    end_batch();
  };

  constexpr int kHalves = kTile / 8;  // of the tile's columns
  float sums[kHalves][4] = {};
  for (int slice = 0; slice < kSlices - 1; ++slice) fetch(slice);
  for (int slice = 0; slice < slices; ++slice) {
    wait_for_batches<kSlices - 2>();
    __syncthreads();  // all have this slice, and are done with the one whose place the next takes
    fetch(slice + kSlices - 1);
    const float* const of_a = memory + slice % kSlices * kSlice;
    const float* const of_b = of_a + SliceA::kFloats;
    const int step = warp * kWarpSteps + t;
    Parts<Split, 4> a;
    for (int j = 0; j < 4; ++j) a.take(j, of_a[SliceA::place(g + j % 2 * 8, step + j / 2 * 4)]);
    for (int half = 0; half < kHalves; ++half) {
      Parts<Split, 2> b;
      for (int j = 0; j < 2; ++j) b.take(j, of_b[SliceB::place(8 * half + g, step + 4 * j)]);
      float part[4] = {};
      if (Split) {
        multiply_add(part, a.rest, b.large);
        multiply_add(part, a.large, b.rest);
      }
      multiply_add(part, a.large, b.large);
      for (int j = 0; j < 4; ++j) sums[half][j] += part[j];
    }
  }
  wait_for_batches<0>();
  __syncthreads();

  for (int half = 0; half < kHalves; ++half) {
    for (int j = 0; j < 4; ++j) {
      const int row = g + j / 2 * 8, col = 8 * half + 2 * t + j % 2;
      memory[(warp * kTile + row) * kTile + col] = sums[half][j];
    }
  }
  __syncthreads();
  put_tile<kTile, kTile, kWarps, kThreadsOfTile>(p, memory, first_row, first_col);
}

template <bool TransposeA, bool TransposeB>
cudaError_t start(bool split, const TiledOperands& p, cudaStream_t stream) {
  const bool wide_a = (TransposeA ? p.m : p.k) % 4 == 0, wide_b = (TransposeB ? p.k : p.n) % 4 == 0;
  const auto kernel =
      split ? tensor_kernel<TransposeA, TransposeB, true> : tensor_kernel<TransposeA, TransposeB, false>;
  return launch(kernel, blocks_of_tiles<kTile, kTile>(p), kThreadsOfTile, stream, p, wide_a, wide_b);
}

}  // namespace

cudaError_t tensor_product(bool split, const TiledOperands& p, cudaStream_t stream) {
  if (p.transpose_a && p.transpose_b) return start<true, true>(split, p, stream);
  if (p.transpose_a) return start<true, false>(split, p, stream);
  if (p.transpose_b) return start<false, true>(split, p, stream);
  return start<false, false>(split, p, stream);
}

}  // namespace troupe_cuda
