// A block computes a tile of c over slices of k, each of which lies in shared memory while the next ones are on their
// way. Its threads are kGroups groups: all have the whole tile, kTM x kTN elements of it a thread, in registers, and
// each adds up its own part of every slice. In the end the groups' sums are added up, in the order of their numbers.
#include <troupe/gpu/kernels/copy_async.hpp>
#include <troupe/gpu/kernels/launch.hpp>
#include <troupe/gpu/kernels/tensor_product.hpp>
#include <troupe/gpu/kernels/tile.hpp>
#include <troupe/gpu/kernels/tiled_product.hpp>

namespace troupe_cuda {

namespace {

constexpr int kSlices = 4;  // in shared memory

template <int M, int N, int TM, int TN, int Groups, int Steps>
struct Tiling {
  static constexpr int kM = M, kN = N, kTM = TM, kTN = TN, kGroups = Groups, kSteps = Steps;
  static constexpr int kGroupThreads = M / TM * (N / TN), kThreads = kGroupThreads * Groups;
  static constexpr int kStepsOfGroup = Steps / Groups;
  // Padded, so that neither writes down the columns nor reads of kTM or kTN at once meet in a bank.
  static constexpr int kRowA = M + 4, kRowB = N + 4;
  static constexpr int kSlice = Steps * (kRowA + kRowB), kAllSlices = kSlices * kSlice, kSums = Groups * M * N;
  static constexpr int kFloats = kSums > kAllSlices ? kSums : kAllSlices;
  static_assert(kFloats * sizeof(float) <= 48 * 1024 && Steps % 8 == 0 && Steps % Groups == 0);
  static_assert(kSteps * M % kThreads == 0 && kSteps * N % kThreads == 0);
};

/// A thread's share of one operand's slices: kCount elements, `along` being its rows or columns in c.
template <int kAlong, int kSteps, int kThreads>
struct Share {
  static constexpr int kCount = kAlong * kSteps / kThreads;
  const float* from[kCount];
  int step[kCount], place[kCount];  ///< in the slice; in shared memory
  bool inside[kCount];
  int step_stride;

  __device__ Share(const float* operand, int along_stride, int stride, int first, int size, int row)
      : step_stride(stride) {
    for (int i = 0; i < kCount; ++i) {
      // A warp reads 32 neighbours where `along` is contiguous, else 8 of 4 rows: whole sectors, and no two in a bank.
      const int e = static_cast<int>(threadIdx.x) + i * kThreads;
      const int along = stride == 1 ? e / 8 % 4 + e / (4 * kSteps) * 4 : e % kAlong;
      step[i] = stride == 1 ? e % 8 + e / 32 % (kSteps / 8) * 8 : e / kAlong;
      inside[i] = first + along < size;
      from[i] = operand + (inside[i] ? first + along : 0) * along_stride + step[i] * stride;
      place[i] = step[i] * row + along;
    }
  }
  /// Begins to copy the slice whose first step is `begin` of k.
  __device__ void fetch(int begin, int k, float* slice) const {
    for (int i = 0; i < kCount; ++i) {
      copy_async(slice + place[i], from[i] + begin * step_stride, inside[i] && begin + step[i] < k);
    }
  }
};

template <typename T>
__global__ void __launch_bounds__(T::kThreads) tiled_kernel(TiledOperands p) {
  alignas(16) __shared__ float memory[T::kFloats];
  const int thread = static_cast<int>(threadIdx.x);
  const int group = thread / T::kGroupThreads, member = thread % T::kGroupThreads;
  const int row = member / (T::kN / T::kTN) * T::kTM, col = member % (T::kN / T::kTN) * T::kTN;
  const int first_row = static_cast<int>(blockIdx.y) * T::kM, first_col = static_cast<int>(blockIdx.x) * T::kN;

  // Elements from one row of c, or step of the sum, or column of c, to the next.
  const int a_row = p.transpose_a ? 1 : p.k, a_step = p.transpose_a ? p.m : 1;
  const int b_col = p.transpose_b ? p.k : 1, b_step = p.transpose_b ? 1 : p.n;
  const Share<T::kM, T::kSteps, T::kThreads> a(p.a, a_row, a_step, first_row, p.m, T::kRowA);
  const Share<T::kN, T::kSteps, T::kThreads> b(p.b, b_col, b_step, first_col, p.n, T::kRowB);
  const int slices = (p.k + T::kSteps - 1) / T::kSteps;
  const auto fetch = [&](int slice) {
    float* const to = memory + slice % kSlices * T::kSlice;
    if (slice < slices) {
      a.fetch(slice * T::kSteps, p.k, to);
      b.fetch(slice * T::kSteps, p.k, to + T::kSteps * T::kRowA);
    }
    end_batch();
  };
  float sums[T::kTM][T::kTN] = {};
  for (int slice = 0; slice < kSlices - 1; ++slice) fetch(slice);
  for (int slice = 0; slice < slices; ++slice) {
    wait_for_batches<kSlices - 2>();
    __syncthreads();  // all have this slice, and are done with the one whose place the next takes
    fetch(slice + kSlices - 1);
    const float* const of_a = memory + slice % kSlices * T::kSlice;
    const float* const of_b = of_a + T::kSteps * T::kRowA;
#pragma unroll  // so that reads of the next steps are under way
    for (int i = 0; i < T::kStepsOfGroup; ++i) {
      const int step = group * T::kStepsOfGroup + i;
      float left[T::kTM], right[T::kTN];
      for (int r = 0; r < T::kTM; ++r) left[r] = of_a[step * T::kRowA + row + r];
      for (int s = 0; s < T::kTN; ++s) right[s] = of_b[step * T::kRowB + col + s];
      for (int r = 0; r < T::kTM; ++r) {
        for (int s = 0; s < T::kTN; ++s) sums[r][s] += left[r] * right[s];
      }
    }
  }
  wait_for_batches<0>();
  __syncthreads();

  for (int r = 0; r < T::kTM; ++r) {
    for (int s = 0; s < T::kTN; ++s) memory[(group * T::kM + row + r) * T::kN + col + s] = sums[r][s];
  }
  __syncthreads();
  put_tile<T::kM, T::kN, T::kGroups, T::kThreads>(p, memory, first_row, first_col);
}

template <typename T>
cudaError_t start(const TiledOperands& p, cudaStream_t stream) {
  return launch(tiled_kernel<T>, blocks_of_tiles<T::kM, T::kN>(p), T::kThreads, stream, p);
}

}  // namespace

bool can_tile(const TroupeCudaProductShape& s) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;  // so that a slice behind the last step has an address
  constexpr std::int64_t kMostRows = 65535 * 16;         // blocks down a grid
  return s.bf16 == 0 && s.m * s.k < kMost && s.k * s.n < kMost && s.n < kMost && s.m < kMostRows;
}

cudaError_t tiled_product(int tiling, const TroupeCudaProductShape& s, const float* a, const float* b,
                          const float* bias, float* c, cudaStream_t stream) {
  if (!can_tile(s)) return cudaErrorInvalidValue;
  const TiledOperands p{.a = a,
                        .b = b,
                        .bias = bias,
                        .c = c,
                        .m = static_cast<int>(s.m),
                        .n = static_cast<int>(s.n),
                        .k = static_cast<int>(s.k),
                        .transpose_a = s.transpose_a != 0,
                        .transpose_b = s.transpose_b != 0,
                        .activation = s.activation};
  switch (tiling) {
    case 1:
      return start<Tiling<32, 32, 4, 4, 4, 32>>(p, stream);
    case 2:
      return start<Tiling<32, 32, 4, 4, 8, 32>>(p, stream);
    case 3:
      return start<Tiling<16, 32, 2, 4, 4, 32>>(p, stream);
    case 4:
      return start<Tiling<16, 16, 2, 2, 8, 32>>(p, stream);
    case 5:
      return tensor_product(s.tf32 == 0, p, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace troupe_cuda
