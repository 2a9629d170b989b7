#pragma once
// Always picks the oldest item (FIFO) or the newest (LIFO), as reverb/cc/selectors/fifo.h and lifo.h: a doubly linked
// list through the slots, in insertion order. Every operation is O(1); a draw repeats until the item leaves.
#include <troupe/replay/selector.hpp>

namespace troupe::replay {

class ByAgeSelector final : public Selector {
 public:
  enum class Pick { kOldest, kNewest };

  explicit ByAgeSelector(Pick pick) : pick_(pick) {}

  void append(double priority) override;
  void replace(Slot slot, double priority) override;
  void erase(Slot slot) override;
  void update(std::span<const Slot> slots, std::span<const double> priorities) override;
  void assign(std::span<const Key> keys, std::span<const double> priorities) override;
  void select(Rng& rng, std::span<Selection> out) override;
  std::int64_t size() const override { return static_cast<std::int64_t>(links_.size()); }

 private:
  static constexpr Slot kNone = ~Slot{0};
  struct Link {
    Slot older = kNone;
    Slot newer = kNone;
  };

  void unlink(Slot slot);
  void link_newest(Slot slot);
  /// Makes the neighbours of `slot` (or the list's ends) point at it.
  void attach(Slot slot);

  Pick pick_;
  std::vector<Link> links_;
  Slot oldest_ = kNone;
  Slot newest_ = kNone;
};

}  // namespace troupe::replay
