#include <troupe/replay/selectors/prioritized.hpp>

#include <cmath>

namespace troupe::replay {

double PrioritizedSelector::weight(double priority) const {
  if (priority == 0) return 0;  // also when the exponent is 0
  return exponent_ == 1 ? priority : std::pow(priority, exponent_);
}

void PrioritizedSelector::append(double priority) { tree_.append(weight(priority)); }

void PrioritizedSelector::replace(Slot slot, double priority) { tree_.set(slot, weight(priority)); }

void PrioritizedSelector::erase(Slot slot) {
  const auto last = static_cast<Slot>(tree_.size() - 1);
  if (slot != last) tree_.set(slot, tree_.weight(last));
  tree_.pop_back();
}

void PrioritizedSelector::update(std::span<const Slot> slots, std::span<const double> priorities) {
  scratch_.resize(priorities.size());
  for (std::size_t i = 0; i < priorities.size(); ++i) scratch_[i] = weight(priorities[i]);
  tree_.set(slots, scratch_);
}

void PrioritizedSelector::assign(std::span<const Key>, std::span<const double> priorities) {
  scratch_.resize(priorities.size());
  for (std::size_t i = 0; i < priorities.size(); ++i) scratch_[i] = weight(priorities[i]);
  tree_.assign(scratch_);
}

double PrioritizedSelector::mass() const {
  const double total = tree_.total();
  return total == 0 ? static_cast<double>(tree_.size()) : total;
}

void PrioritizedSelector::select(Rng& rng, std::span<Selection> out) {
  const double total = tree_.total();
  if (total == 0) {
    const auto bound = static_cast<std::uint64_t>(tree_.size());
    for (Selection& draw : out) draw = {static_cast<Slot>(rng.below(bound)), 1.0 / static_cast<double>(bound)};
    return;
  }
  scratch_.resize(out.size());
  found_.resize(out.size());
  for (double& target : scratch_) target = rng.uniform() * total;
  tree_.find(scratch_, found_);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = {found_[i], tree_.weight(found_[i]) / total};
}

}  // namespace troupe::replay
