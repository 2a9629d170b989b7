#pragma once
// Draws every item with the same probability (reverb/cc/selectors/uniform.h). As slots have no holes, the number of
// items is all that there is to know.
#include <troupe/replay/selector.hpp>

namespace troupe::replay {

class UniformSelector final : public Selector {
 public:
  void append(double priority) override;
  void replace(Slot slot, double priority) override;
  void erase(Slot slot) override;
  void update(std::span<const Slot> slots, std::span<const double> priorities) override;
  void assign(std::span<const Key> keys, std::span<const double> priorities) override;
  void select(Rng& rng, std::span<Selection> out) override;
  std::int64_t size() const override { return size_; }

 private:
  std::int64_t size_ = 0;
};

}  // namespace troupe::replay
