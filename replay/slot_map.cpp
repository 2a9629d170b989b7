#include <troupe/replay/slot_map.hpp>

#include <troupe/core/check.hpp>

namespace troupe::replay {

/// The key's cell, or the free cell where it would go.
std::size_t SlotMap::locate(Key key) const {
  const std::size_t mask = cells_.size() - 1;
  std::size_t i = home(key);
  while (cells_[i].slot != kNone && cells_[i].key != key) i = (i + 1) & mask;
  return i;
}

Slot SlotMap::find(Key key) const { return cells_[locate(key)].slot; }

void SlotMap::put(Key key, Slot slot) {
  std::size_t i = locate(key);
  if (cells_[i].slot == kNone) {
    if (2 * (count_ + 1) > cells_.size()) {
      grow();
      i = locate(key);
    }
    ++count_;
  }
  cells_[i] = {key, slot};
}

void SlotMap::erase(Key key) {
  const std::size_t mask = cells_.size() - 1;
  std::size_t hole = locate(key);
  TROUPE_CHECK(cells_[hole].slot != kNone, "erase of the unknown key {}", key);
  --count_;
  for (std::size_t i = (hole + 1) & mask; cells_[i].slot != kNone; i = (i + 1) & mask) {
    // A cell may fill the hole if its probe, starting at home, passes over the hole.
    if (((i - home(cells_[i].key)) & mask) >= ((i - hole) & mask)) {
      cells_[hole] = cells_[i];
      hole = i;
    }
  }
  cells_[hole] = {};
}

void SlotMap::grow() {
  std::vector<Cell> old(cells_.size() * 2);
  old.swap(cells_);
  --shift_;
  for (const Cell& cell : old) {
    if (cell.slot != kNone) cells_[locate(cell.key)] = cell;
  }
}

}  // namespace troupe::replay
