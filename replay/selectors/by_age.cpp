#include <troupe/replay/selectors/by_age.hpp>

#include <algorithm>
#include <numeric>

namespace troupe::replay {

void ByAgeSelector::append(double) {
  links_.emplace_back();
  link_newest(static_cast<Slot>(links_.size() - 1));
}

void ByAgeSelector::replace(Slot slot, double) {
  unlink(slot);
  link_newest(slot);
}

void ByAgeSelector::erase(Slot slot) {
  unlink(slot);
  const auto last = static_cast<Slot>(links_.size() - 1);
  if (slot != last) {
    links_[slot] = links_[last];
    attach(slot);
  }
  links_.pop_back();
}

void ByAgeSelector::update(std::span<const Slot>, std::span<const double>) {}

void ByAgeSelector::assign(std::span<const Key> keys, std::span<const double>) {
  std::vector<Slot> by_age(keys.size());
  std::iota(by_age.begin(), by_age.end(), Slot{0});
  std::sort(by_age.begin(), by_age.end(), [&](Slot a, Slot b) { return keys[a] < keys[b]; });
  links_.assign(keys.size(), {});
  oldest_ = newest_ = kNone;
  for (Slot slot : by_age) link_newest(slot);
}

void ByAgeSelector::select(Rng&, std::span<Selection> out) {
  std::fill(out.begin(), out.end(), Selection{pick_ == Pick::kOldest ? oldest_ : newest_, 1.0});
}

void ByAgeSelector::unlink(Slot slot) {
  const Link link = links_[slot];
  (link.older == kNone ? oldest_ : links_[link.older].newer) = link.newer;
  (link.newer == kNone ? newest_ : links_[link.newer].older) = link.older;
}

void ByAgeSelector::link_newest(Slot slot) {
  links_[slot] = {.older = newest_, .newer = kNone};
  attach(slot);
}

void ByAgeSelector::attach(Slot slot) {
  const Link link = links_[slot];
  (link.older == kNone ? oldest_ : links_[link.older].newer) = slot;
  (link.newer == kNone ? newest_ : links_[link.newer].older) = slot;
}

}  // namespace troupe::replay
