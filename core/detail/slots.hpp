#pragma once
// Which runs of slots of a memory are free. Private to core/lendable_memory.
#include <cstddef>
#include <map>
#include <optional>

namespace troupe {

/// Runs of neighbouring slots, given out whole and merged when they come back. Short runs are taken from the low end
/// and long ones from the high end, so that scattered small payloads do not cut up the room of the large ones; first
/// fit, so that memory that is warm already is used again. Cost: linear in the number of gaps, of which there are few
/// as payloads are given back in about the order in which they came. Not thread-safe.
class SlotRuns {
 public:
  explicit SlotRuns(std::size_t count) : free_{{0, count}} {}

  /// The first slot of a run of `count` > 0 slots, or nothing when no gap is long enough.
  std::optional<std::size_t> take(std::size_t count);
  /// `first` and `count` as taken.
  void give_back(std::size_t first, std::size_t count);

 private:
  std::map<std::size_t, std::size_t> free_;  // first slot -> number of slots; neighbours are merged
};

}  // namespace troupe
