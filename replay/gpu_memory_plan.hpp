#pragma once
// Where everything of a GpuTable lies: one allocation on the GPU and one of pinned memory on the host, both of a size
// that follows from the table's options alone. Offsets are multiples of 256 bytes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <troupe/gpu/api.h>
#include <troupe/core/tensor.hpp>

namespace troupe::replay {

/// Draws of one launch, all its steps together.
inline constexpr std::int64_t kMostLaunchDraws = 65'536;
/// Draws, or new priorities, that the host asks for at a time; more are several turns.
inline constexpr std::int64_t kMostHostDraws = 4096;

struct GpuMemoryPlan {
  /// capacity: items. tree: whether draws are prioritised.
  GpuMemoryPlan(const Signature& signature, std::int64_t capacity, bool tree);

  std::vector<std::size_t> columns;  ///< offsets within a row
  std::size_t row_bytes = 0;         ///< of packed columns
  std::size_t stride = 0;            ///< from row to row: a multiple of 16, which is what a GPU moves at a time
  std::int64_t staged_rows = 0;      ///< of each half of the staging memory: about 2 MiB, at least one
  std::int64_t host_rows = 0;        ///< that go to the host at a time

  /// On the GPU.
  struct {
    std::size_t rows, priorities, times_sampled, present;
    std::vector<std::size_t> levels;  ///< of the sum tree, one behind the other
    std::size_t tree_bytes = 0;
    std::array<std::size_t, 2> staged_rows, staged_items;
    // Of each draw of a launch, then of each of the host's.
    std::size_t numbers, slots, probabilities, drawn_priorities, drawn_times, last, weights;
    std::size_t batch;  ///< columns that go to the host
    std::size_t bytes = 0;
  } device;

  /// Pinned.
  struct {
    std::array<std::size_t, 2> staged_rows, staged_items, numbers;
    std::size_t host_numbers, slots, probabilities, priorities, times_sampled, batch, root;
    std::size_t bytes = 0;
  } host;

  /// Where the columns of a batch of `rows` rows lie in `batch`, each aligned to 16 bytes; and where they end.
  std::vector<std::size_t> batch_columns(const Signature& signature, std::int64_t rows) const;
};

/// The greatest capacity whose plan needs no more than `bytes` of the GPU; 0: none.
std::int64_t capacity_within(std::size_t bytes, const Signature& signature, bool tree, std::int64_t most);

}  // namespace troupe::replay
