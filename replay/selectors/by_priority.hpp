#pragma once
// Always picks the item of the highest or of the lowest priority, and of several such the one that came, or whose
// priority was set, the longest ago, as reverb/cc/selectors/heap.h: a binary heap of slots, of which each knows its
// place. Inserts, updates and removals are O(log size); a draw is O(1) and repeats until something changes.
#include <troupe/replay/selector.hpp>

namespace troupe::replay {

class ByPrioritySelector final : public Selector {
 public:
  enum class Pick { kHighest, kLowest };

  explicit ByPrioritySelector(Pick pick) : sign_(pick == Pick::kHighest ? -1 : 1) {}

  void append(double priority) override;
  void replace(Slot slot, double priority) override;
  void erase(Slot slot) override;
  void update(std::span<const Slot> slots, std::span<const double> priorities) override;
  /// Forgets when priorities were set: of equal ones the oldest item is first.
  void assign(std::span<const Key> keys, std::span<const double> priorities) override;
  void select(Rng& rng, std::span<Selection> out) override;
  std::int64_t size() const override { return static_cast<std::int64_t>(heap_.size()); }

 private:
  /// What is less is nearer to the top.
  struct Rank {
    double priority = 0;        ///< times sign_
    std::uint64_t changes = 0;  ///< of the selector, when this one was set
    friend auto operator<=>(const Rank&, const Rank&) = default;
  };

  Rank rank(double priority) { return {sign_ * priority, changes_++}; }
  void put(std::size_t place, Slot slot);
  /// Moves what is at this place to where it belongs.
  void settle(std::size_t place);

  double sign_;
  std::uint64_t changes_ = 0;
  std::vector<Slot> heap_;
  std::vector<std::size_t> places_;  // of each slot in heap_
  std::vector<Rank> ranks_;          // of each slot
};

}  // namespace troupe::replay
