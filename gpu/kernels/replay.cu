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
constexpr int kTreeThreads = 1024, kDrawThreads = 256, kMostDrawThreads = 1024;
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

/// The slot that a draw finds, and with what probability.
struct Found {
  std::uint32_t slot;
  double probability;
};
__device__ Found find(const TroupeCudaReplay& table, std::uint64_t number, std::int64_t present) {
  if (table.levels == 0) {
    return {static_cast<std::uint32_t>(number), table.uniform != 0 ? 1.0 / static_cast<double>(present) : 1.0};
  }
  int top = 0;
  for (std::int64_t nodes = (present + kFan - 1) / kFan; nodes > 1; nodes = (nodes + kFan - 1) / kFan) ++top;
  const double total = sum(node_at(table.level[top], 0));
  if (total == 0) {
    return {scaled(number, static_cast<std::uint64_t>(present)), 1.0 / static_cast<double>(present)};
  }
  const double uniform = static_cast<double>(number >> 11) * 0x1.0p-53;
  const std::uint32_t slot = descend(table, top, __dmul_rn(uniform, total));
  return {slot, table.level[0][slot] / total};
}

struct alignas(16) Word16 {
  std::uint64_t part[2];
};
/// Columns of a row as words, one column's behind another's: column c has first[c] .. first[c + 1] - 1.
struct GatherColumns {
  TroupeCudaReplayColumn of[TROUPE_CUDA_REPLAY_COLUMNS];
  std::int32_t word[TROUPE_CUDA_REPLAY_COLUMNS];  // bytes of each, moved at a time
  std::int64_t first[TROUPE_CUDA_REPLAY_COLUMNS + 1];
  std::int32_t count;
};

template <typename W>
__device__ void copy_word(const unsigned char* from, const TroupeCudaReplayColumn& column, std::int64_t to,
                          std::int64_t word) {
  static_cast<W*>(column.to)[to] = reinterpret_cast<const W*>(from + column.offset)[word];
}
/// Word `at` of a row, to row `row` of a batch.
__device__ void copy_word(const unsigned char* from, const GatherColumns& columns, std::int64_t row, std::int64_t at) {
  int c = 0;
  while (at >= columns.first[c + 1]) ++c;
  const TroupeCudaReplayColumn& column = columns.of[c];
  const std::int64_t word = at - columns.first[c], to = row * (columns.first[c + 1] - columns.first[c]) + word;
  switch (columns.word[c]) {
    case 16:
      return copy_word<Word16>(from, column, to, word);
    case 8:
      return copy_word<std::uint64_t>(from, column, to, word);
    case 4:
      return copy_word<std::uint32_t>(from, column, to, word);
    case 2:
      return copy_word<std::uint16_t>(from, column, to, word);
    default:
      return copy_word<std::uint8_t>(from, column, to, word);
  }
}

/// A draw and its row by `threads` threads, which divides the block's. All of them go down the tree, at the same
/// addresses and so at the price of one, rather than wait for each other.
__global__ void __launch_bounds__(kMostDrawThreads)
    draw_kernel(TroupeCudaReplay table, TroupeCudaDraws draws, std::int64_t rows, int threads, GatherColumns columns,
                bool weighted, double importance_exponent) {
  const int per_block = static_cast<int>(blockDim.x) / threads, thread = static_cast<int>(threadIdx.x) % threads;
  const std::int64_t i = std::int64_t{blockIdx.x} * per_block + static_cast<int>(threadIdx.x) / threads;
  if (i >= rows) return;
  const std::int64_t present = *table.present;
  const Found found = find(table, draws.numbers[i], present);
  const unsigned char* const from = table.rows + found.slot * table.stride;
  const double priority = table.priorities[found.slot];  // by all, so that it is on its way while rows are copied
  const std::int32_t times_sampled = table.times_sampled[found.slot];
  for (std::int64_t at = thread; at < columns.first[columns.count]; at += threads) copy_word(from, columns, i, at);
  if (thread != 0) return;
  draws.slots[i] = found.slot;
  draws.probabilities[i] = found.probability;
  draws.priorities[i] = priority;
  draws.times_sampled[i] = times_sampled;  // before these draws; settle_kernel adds them
  if (weighted) {
    const double expected = static_cast<double>(present) * found.probability;
    draws.weights[i] = static_cast<float>(pow(1 / expected, importance_exponent));
  }
}

/// A warp for each draw: how often its slot was drawn before, and whether it will be again, by a look at all the other
/// draws, which for batches of some thousands costs less than sorting them; and the largest of all weights.
__global__ void __launch_bounds__(kDrawThreads)
    settle_kernel(TroupeCudaReplay table, TroupeCudaDraws draws, std::int64_t rows, float* weights) {
  constexpr std::int32_t kMost = 0x7fffffff;
  const auto lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  const std::uint32_t slot = i < rows ? draws.slots[i] : 0;
  std::int32_t earlier = 0, later = 0;
  float largest = 0;
  for (std::int64_t k = lane; k < rows; k += kWarp) {
    const bool same = draws.slots[k] == slot;
    earlier += same && k < i ? 1 : 0;
    later += same && k > i ? 1 : 0;
    if (weights != nullptr && draws.weights[k] > largest) largest = draws.weights[k];
  }
  earlier = warp_sum(earlier);
  later = warp_sum(later);
  largest = warp_max(largest);
  if (i >= rows || lane != 0) return;
  const std::int32_t before = draws.times_sampled[i], drawn = earlier + 1;
  const std::int32_t times = before > kMost - drawn ? kMost : before + drawn;
  draws.times_sampled[i] = times;
  draws.last[i] = later == 0 ? 1 : 0;
  if (later == 0) table.times_sampled[slot] = times;
  if (weights != nullptr) weights[i] = draws.weights[i] / largest;
}

/// The greatest power of two, up to 16, that divides all of them.
std::int32_t word_of(const TroupeCudaReplayColumn& column) {
  const std::uint64_t all = static_cast<std::uint64_t>(column.offset) | static_cast<std::uint64_t>(column.bytes) |
                            reinterpret_cast<std::uintptr_t>(column.to) | 16U;
  return static_cast<std::int32_t>(all & (~all + 1));
}

/// Threads for a draw, as many as its row has words: 32, 64 .. kMostDrawThreads.
int threads_of_draw(const GatherColumns& columns) {
  int threads = kWarp;
  while (threads < kMostDrawThreads && columns.first[columns.count] > threads) threads *= 2;
  return threads;
}

}  // namespace

cudaError_t replay_insert(const TroupeCudaReplay& table, const TroupeCudaReplayItem* items, std::int64_t first,
                          std::int64_t count, std::int64_t present, cudaStream_t stream) {
  if (first < 0 || first >= table.capacity || count < 0 || count > table.capacity) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  return launch(insert_kernel, 1, threads_for(count, kTreeThreads), stream, table, items, first, count, present);
}

cudaError_t replay_draw(const TroupeCudaReplay& table, const TroupeCudaDraws& draws, std::int64_t rows,
                        const TroupeCudaReplayColumn* columns, std::int32_t column_count, float* weights,
                        double importance_exponent, cudaStream_t stream) {
  if (rows < 0 || column_count < 0) return cudaErrorInvalidValue;
  if (rows == 0) return cudaSuccess;
  std::int32_t given = 0;
  do {  // the table is as it was until settle_kernel, so each launch draws the same rows
    GatherColumns by_value{};
    for (; given < column_count && by_value.count < TROUPE_CUDA_REPLAY_COLUMNS; ++given) {
      const std::int32_t word = word_of(columns[given]), c = by_value.count++;
      by_value.of[c] = columns[given];
      by_value.word[c] = word;
      by_value.first[c + 1] = by_value.first[c] + columns[given].bytes / word;
    }
    const int threads = threads_of_draw(by_value), block = threads > kDrawThreads ? threads : kDrawThreads;
    const std::int64_t per_block = block / threads;
    if (const cudaError_t error =
            launch(draw_kernel, static_cast<unsigned>((rows + per_block - 1) / per_block), static_cast<unsigned>(block),
                   stream, table, draws, rows, threads, by_value, weights != nullptr, importance_exponent)) {
      return error;
    }
  } while (given < column_count);
  constexpr int kPerBlock = kDrawThreads / kWarp;
  return launch(settle_kernel, static_cast<unsigned>((rows + kPerBlock - 1) / kPerBlock), kDrawThreads, stream, table,
                draws, rows, weights);
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
