#pragma once
// Where an item is: key -> slot, for tables whose keys do not follow their slots by arithmetic. Open addressing with
// linear probing; at most half full; erasing shifts the run back, so that there are no tombstones to clean up.
#include <cstdint>
#include <vector>

#include <troupe/replay/selector.hpp>

namespace troupe::replay {

class SlotMap {
 public:
  static constexpr Slot kNone = ~Slot{0};

  /// kNone when the key is absent.
  Slot find(Key key) const;
  /// Sets or adds. Amortised O(1); doubles its memory when half full.
  void put(Key key, Slot slot);
  /// The key must be present.
  void erase(Key key);

 private:
  struct Cell {
    Key key = 0;
    Slot slot = kNone;  // kNone: the cell is free
  };

  std::size_t home(Key key) const { return static_cast<std::size_t>(key * 0x9e3779b97f4a7c15U >> shift_); }
  std::size_t locate(Key key) const;
  void grow();

  std::vector<Cell> cells_ = std::vector<Cell>(16);
  int shift_ = 60;  // 64 - log2(cells): Fibonacci hashing takes the product's top bits
  std::size_t count_ = 0;
};

}  // namespace troupe::replay
