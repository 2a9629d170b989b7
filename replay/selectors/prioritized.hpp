#pragma once
// Draws in proportion to priority^exponent (Schaul et al. 2016, Eq. 1; reverb/cc/selectors/prioritized.h): an item of
// priority 0 is never drawn, unless all are 0, when draws are uniform. Draws are independent, not stratified.
#include <troupe/replay/selector.hpp>
#include <troupe/replay/selectors/sum_tree.hpp>

namespace troupe::replay {

class PrioritizedSelector final : public Selector {
 public:
  /// priority_exponent: 0..4.
  explicit PrioritizedSelector(double priority_exponent) : exponent_(priority_exponent) {}

  void append(double priority) override;
  void replace(Slot slot, double priority) override;
  void erase(Slot slot) override;
  void update(std::span<const Slot> slots, std::span<const double> priorities) override;
  void assign(std::span<const Key> keys, std::span<const double> priorities) override;
  void select(Rng& rng, std::span<Selection> out) override;
  std::int64_t size() const override { return tree_.size(); }
  double mass() const override;

 private:
  double weight(double priority) const;

  double exponent_;
  SumTree tree_;
  std::vector<double> scratch_;  // weights or targets of one batch
  std::vector<Slot> found_;      // leaves of one batch of draws
};

}  // namespace troupe::replay
