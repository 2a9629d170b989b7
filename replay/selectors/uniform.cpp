#include <troupe/replay/selectors/uniform.hpp>

namespace troupe::replay {

void UniformSelector::append(double) { ++size_; }
void UniformSelector::replace(Slot, double) {}
void UniformSelector::erase(Slot) { --size_; }
void UniformSelector::update(std::span<const Slot>, std::span<const double>) {}
void UniformSelector::assign(std::span<const Key> keys, std::span<const double>) {
  size_ = static_cast<std::int64_t>(keys.size());
}

void UniformSelector::select(Rng& rng, std::span<Selection> out) {
  const auto bound = static_cast<std::uint64_t>(size_);
  const double probability = 1.0 / static_cast<double>(size_);
  for (Selection& draw : out) draw = {static_cast<Slot>(rng.below(bound)), probability};
}

}  // namespace troupe::replay
