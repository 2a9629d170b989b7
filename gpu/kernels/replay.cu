// A replay table on the device. Weights, sums and descents are those of replay/selectors/prioritized.cpp and
// sum_tree.cpp with the same operations in the same order, so that the same random numbers draw the same items, bit for
// bit as far as pow() agrees. Sums are always made anew from a node's children, so no order of threads can be seen in
// them: threads that come to the same node store the same value.
#include <cmath>

#include <troupe/gpu/kernels/launch.hpp>
#include <troupe/gpu/kernels/reduce.hpp>
#include <troupe/gpu/kernels/replay.hpp>

namespace troupe_cuda {
namespace {

constexpr int kFan = 8, kFanShift = 3;
constexpr int kTreeThreads = 1024, kDrawThreads = 256;
constexpr double kMaxPriority = 1e60;  // as replay/selector.hpp

struct alignas(16) Node {
  double child[kFan];
};
__device__ Node node_at(const double* level, std::int64_t index) { return reinterpret_cast<const Node*>(level)[index]; }
__device__ double sum(const Node& node) {
  const double* const c = node.child;
  return ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]));
}
__device__ void set_priority(const TroupeCudaReplay& table, std::int64_t slot, double priority) {
  table.priorities[slot] = priority;
  if (table.levels == 0) return;
  const double powered = table.exponent == 1 ? priority : pow(priority, table.exponent);
  table.level[0][slot] = priority == 0 ? 0 : powered;
}
__device__ void sum_up(const TroupeCudaReplay& table, int level, std::int64_t node) {
  table.level[level + 1][node] = sum(node_at(table.level[level], node));
}

/// Whole warps, no more of them than there is work for: 1 to `most` threads.
unsigned threads_for(std::int64_t count, int most) {
  const std::int64_t whole = (count + kWarp - 1) / kWarp * kWarp;
  return static_cast<unsigned>(whole < most ? whole : most);
}

// ---- in ----

__global__ void __launch_bounds__(kTreeThreads)
    insert_kernel(TroupeCudaReplay table, const TroupeCudaReplayItem* items, std::int64_t first, std::int64_t count,
                  std::int64_t present) {
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const std::int64_t slot = first + i < table.capacity ? first + i : first + i - table.capacity;
    set_priority(table, slot, items[i].priority);
    table.times_sampled[slot] = items[i].times_sampled;
  }
  if (threadIdx.x == 0) *table.present = present;
  // Of the slots up to the last one, and of those that went on from 0.
  std::int64_t begin = first, end = first + count < table.capacity ? first + count : table.capacity;
  std::int64_t wrapped = first + count - end;
  for (int level = 0; level + 1 < table.levels; ++level) {
    __syncthreads();
    begin /= kFan;
    end = (end + kFan - 1) / kFan;
    wrapped = (wrapped + kFan - 1) / kFan;
    for (std::int64_t node = begin + threadIdx.x; node < end; node += blockDim.x) sum_up(table, level, node);
    for (std::int64_t node = threadIdx.x; node < wrapped; node += blockDim.x) sum_up(table, level, node);
  }
}

template <typename P>
__global__ void __launch_bounds__(kTreeThreads)
    update_kernel(TroupeCudaReplay table, const std::uint32_t* slots, const std::int32_t* last, const P* priorities,
                  std::int64_t count, const TroupeCudaControl* control) {
  if (control != nullptr && control->skip != 0) return;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    if (last != nullptr && last[i] == 0) continue;
    const auto priority = static_cast<double>(priorities[i]);
    set_priority(table, slots[i], priority >= 0 && priority <= kMaxPriority ? priority : 0);
  }
  for (int level = 0; level + 1 < table.levels; ++level) {
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
      if (last != nullptr && last[i] == 0) continue;
      sum_up(table, level, slots[i] >> kFanShift * (level + 1));
    }
  }
}

// ---- out ----

/// SumTree::find() from the root of the tree that `present` slots have on the host.
__device__ std::uint32_t descend(const TroupeCudaReplay& table, int top, double target) {
  std::uint32_t leaf = 0;
  for (int level = top; level >= 0; --level) {
    const Node node = node_at(table.level[level], leaf);
    std::uint32_t passed = 0;
    double running = 0, before = 0;
    for (int j = 0; j < kFan; ++j) {
      running += node.child[j];
      const bool pass = target >= running;
      passed += pass ? 1 : 0;
      before = pass ? running : before;
    }
    if (passed == kFan) {
      passed = 0;
      for (std::uint32_t j = 0; j < kFan; ++j) passed = node.child[j] != 0 ? j : passed;
      before = target;
    }
    target -= before;
    leaf = leaf * kFan + passed;
  }
  return leaf;
}

/// The high half of number * bound, for bound < 2^32.
__device__ std::uint32_t scaled(std::uint64_t number, std::uint64_t bound) {
  const std::uint64_t low = (number & 0xffffffffU) * bound;
  return static_cast<std::uint32_t>(((number >> 32) * bound + (low >> 32)) >> 32);
}

__global__ void __launch_bounds__(kDrawThreads)
    draw_kernel(TroupeCudaReplay table, TroupeCudaDraws draws, std::int64_t rows, bool weighted,
                double importance_exponent) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  const std::int64_t present = *table.present;
  const std::uint64_t number = draws.numbers[i];
  auto slot = static_cast<std::uint32_t>(number);
  double probability = 1;
  if (table.levels == 0) {
    if (table.uniform != 0) probability = 1.0 / static_cast<double>(present);
  } else {
    int top = 0;
    for (std::int64_t nodes = (present + kFan - 1) / kFan; nodes > 1; nodes = (nodes + kFan - 1) / kFan) ++top;
    const double total = sum(node_at(table.level[top], 0));
    if (total == 0) {
      slot = scaled(number, static_cast<std::uint64_t>(present));
      probability = 1.0 / static_cast<double>(present);
    } else {
      const double uniform = static_cast<double>(number >> 11) * 0x1.0p-53;
      slot = descend(table, top, __dmul_rn(uniform, total));
      probability = table.level[0][slot] / total;
    }
  }
  draws.slots[i] = slot;
  draws.probabilities[i] = probability;
  draws.priorities[i] = table.priorities[slot];
  draws.times_sampled[i] = table.times_sampled[slot];  // before these draws; settle_kernel adds them
  if (weighted) {
    draws.weights[i] = static_cast<float>(pow(1 / (static_cast<double>(present) * probability), importance_exponent));
  }
}

/// How often each slot was drawn before, and whether it will be again: by a look at all the other draws, which for
/// batches of some thousands costs less than sorting them.
__global__ void __launch_bounds__(kDrawThreads)
    settle_kernel(TroupeCudaReplay table, TroupeCudaDraws draws, std::int64_t rows, float* weights) {
  __shared__ std::uint32_t tile[kDrawThreads];
  __shared__ float largest_of[kWarp];
  constexpr std::int32_t kMost = 0x7fffffff;
  const auto thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const std::int64_t i = std::int64_t{blockIdx.x} * threads + thread;
  const std::uint32_t slot = i < rows ? draws.slots[i] : 0;
  std::int32_t drawn = 1;  // this one and earlier ones
  bool last = true;
  float largest = 0;
  for (std::int64_t base = 0; base < rows; base += threads) {
    __syncthreads();  // of the tile before
    if (base + thread < rows) {
      tile[thread] = draws.slots[base + thread];
      if (weights != nullptr && draws.weights[base + thread] > largest) largest = draws.weights[base + thread];
    }
    __syncthreads();
    const int count = rows - base < threads ? static_cast<int>(rows - base) : threads;
    for (int k = 0; k < count; ++k) {
      if (tile[k] != slot) continue;
      drawn += base + k < i ? 1 : 0;
      last = last && base + k <= i;
    }
  }
  if (weights != nullptr) {
    largest = warp_max(largest);
    if (thread % kWarp == 0) largest_of[thread / kWarp] = largest;
    __syncthreads();
    for (int warp = 0; warp < threads / kWarp; ++warp)
      largest = largest_of[warp] > largest ? largest_of[warp] : largest;
  }
  if (i >= rows) return;
  const std::int32_t before = draws.times_sampled[i];
  const std::int32_t times = before > kMost - drawn ? kMost : before + drawn;
  draws.times_sampled[i] = times;
  draws.last[i] = last ? 1 : 0;
  if (last) table.times_sampled[slot] = times;
  if (weights != nullptr) weights[i] = draws.weights[i] / largest;
}

struct alignas(16) Word16 {
  std::uint64_t part[2];
};
struct GatherColumn {
  TroupeCudaReplayColumn column;
  std::int32_t word;  // bytes that are moved at a time
};
struct GatherColumns {
  GatherColumn of[TROUPE_CUDA_REPLAY_COLUMNS];
};

template <typename W>
__device__ void gather_words(const unsigned char* rows, std::int64_t stride, const std::uint32_t* slots,
                             std::int64_t count, const TroupeCudaReplayColumn& column) {
  const std::int64_t words = column.bytes / static_cast<std::int64_t>(sizeof(W)), all = words * count;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < all; i += step) {
    const std::int64_t row = i / words;
    const unsigned char* const from = rows + slots[row] * stride + column.offset;
    static_cast<W*>(column.to)[i] = reinterpret_cast<const W*>(from)[i - row * words];
  }
}

/// blockIdx.y: the column.
__global__ void gather_kernel(const unsigned char* rows, std::int64_t stride, const std::uint32_t* slots,
                              std::int64_t count, GatherColumns columns) {
  const GatherColumn& each = columns.of[blockIdx.y];
  switch (each.word) {
    case 16:
      return gather_words<Word16>(rows, stride, slots, count, each.column);
    case 8:
      return gather_words<std::uint64_t>(rows, stride, slots, count, each.column);
    case 4:
      return gather_words<std::uint32_t>(rows, stride, slots, count, each.column);
    case 2:
      return gather_words<std::uint16_t>(rows, stride, slots, count, each.column);
    default:
      return gather_words<std::uint8_t>(rows, stride, slots, count, each.column);
  }
}

/// The greatest power of two, up to 16, that divides all of them.
std::int32_t word_of(const TroupeCudaReplayColumn& column) {
  const std::uint64_t all = static_cast<std::uint64_t>(column.offset) | static_cast<std::uint64_t>(column.bytes) |
                            reinterpret_cast<std::uintptr_t>(column.to) | 16U;
  return static_cast<std::int32_t>(all & (~all + 1));
}

}  // namespace

cudaError_t replay_insert(const TroupeCudaReplay& table, const TroupeCudaReplayItem* items, std::int64_t first,
                          std::int64_t count, std::int64_t present, cudaStream_t stream) {
  if (first < 0 || first >= table.capacity || count < 0 || count > table.capacity) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  return launch(insert_kernel, 1, threads_for(count, kTreeThreads), stream, table, items, first, count, present);
}

cudaError_t replay_draw(const TroupeCudaReplay& table, const TroupeCudaDraws& draws, std::int64_t rows, float* weights,
                        double importance_exponent, cudaStream_t stream) {
  if (rows <= 0) return rows == 0 ? cudaSuccess : cudaErrorInvalidValue;
  const unsigned threads = threads_for(rows, kDrawThreads);
  const auto blocks = static_cast<unsigned>((rows + threads - 1) / threads);
  if (const cudaError_t error =
          launch(draw_kernel, blocks, threads, stream, table, draws, rows, weights != nullptr, importance_exponent)) {
    return error;
  }
  return launch(settle_kernel, blocks, threads, stream, table, draws, rows, weights);
}

cudaError_t replay_gather(const void* rows, std::int64_t stride, const std::uint32_t* slots, std::int64_t count,
                          const TroupeCudaReplayColumn* columns, std::int32_t column_count, cudaStream_t stream) {
  if (column_count < 0 || column_count > TROUPE_CUDA_REPLAY_COLUMNS || count < 0) return cudaErrorInvalidValue;
  if (column_count == 0 || count == 0) return cudaSuccess;
  GatherColumns by_value{};
  std::int64_t most_words = 0;
  for (std::int32_t c = 0; c < column_count; ++c) {
    by_value.of[c] = {columns[c], word_of(columns[c])};
    const std::int64_t words = count * (columns[c].bytes / by_value.of[c].word);
    most_words = words > most_words ? words : most_words;
  }
  if (most_words == 0) return cudaSuccess;
  const dim3 blocks(blocks_for(most_words), static_cast<unsigned>(column_count));
  return launch(gather_kernel, blocks, threads_for(most_words, kThreads), stream,
                static_cast<const unsigned char*>(rows), stride, slots, count, by_value);
}

cudaError_t replay_update(const TroupeCudaReplay& table, const std::uint32_t* slots, const std::int32_t* last,
                          const void* priorities, std::int32_t dtype, std::int64_t count,
                          const TroupeCudaControl* control, cudaStream_t stream) {
  if (count < 0 || (dtype != TROUPE_CUDA_F32 && dtype != TROUPE_CUDA_F64)) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  const unsigned threads = threads_for(count, kTreeThreads);
  if (dtype == TROUPE_CUDA_F32) {
    return launch(update_kernel<float>, 1, threads, stream, table, slots, last, static_cast<const float*>(priorities),
                  count, control);
  }
  return launch(update_kernel<double>, 1, threads, stream, table, slots, last, static_cast<const double*>(priorities),
                count, control);
}

}  // namespace troupe_cuda
