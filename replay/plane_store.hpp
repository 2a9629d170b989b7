#pragma once
// The planes of a table's stacks (core/stacks.hpp), each once, however many rows have it: planes that came in different
// trajectories, of different episodes or from different producers are found by their bytes. A plane has users, which
// are counted, and its memory is free for another one when the last has gone. Used by replay/row_store.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/replay/slot_map.hpp>
#include <troupe/replay/slot_memory.hpp>

namespace troupe::replay {

/// Planes of one size. Checks nothing.
class PlaneStore {
 public:
  using Place = std::uint32_t;

  /// Room for `most` planes at most, as far as the size of a chunk of memory goes.
  PlaneStore(std::size_t plane_bytes, std::int64_t most);

  /// Where a plane of these bytes is, which has one user more; it is copied when there is none.
  Place take(std::span<const std::byte> plane);
  void keep(Place place) { ++planes_[place].users; }
  void drop(Place place);

  std::span<const std::byte> at(Place place) const { return {memory_.at(place), plane_bytes_}; }
  /// Asks for the plane's first cache lines; the processor's own prefetcher then sees the stream.
  void prefetch(Place place) const {
    for (std::size_t line = 0; line < 4; ++line) __builtin_prefetch(memory_.at(place) + line * 64);
  }
  std::size_t plane_bytes() const { return plane_bytes_; }
  /// One more than the greatest place that was ever taken.
  std::size_t places() const { return planes_.size(); }
  std::int64_t planes() const { return static_cast<std::int64_t>(planes_.size() - free_.size()); }
  /// Memory of the planes that there are.
  std::int64_t bytes() const { return planes() * static_cast<std::int64_t>(plane_bytes_); }

 private:
  struct Plane {
    std::uint32_t users = 0;
    std::uint64_t fingerprint = 0;
  };
  std::size_t plane_bytes_;
  SlotMemory memory_;
  std::vector<Plane> planes_;  // by place
  std::vector<Place> free_;    // without users
  SlotMap by_fingerprint_;     // the first plane with it; others that have it too are not found again
};

}  // namespace troupe::replay
