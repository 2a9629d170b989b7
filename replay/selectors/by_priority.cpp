#include <troupe/replay/selectors/by_priority.hpp>

#include <algorithm>
#include <numeric>

namespace troupe::replay {

void ByPrioritySelector::append(double priority) {
  const auto slot = static_cast<Slot>(heap_.size());
  ranks_.push_back(rank(priority));
  places_.push_back(heap_.size());
  heap_.push_back(slot);
  settle(places_[slot]);
}

void ByPrioritySelector::replace(Slot slot, double priority) {
  ranks_[slot] = rank(priority);
  settle(places_[slot]);
}

void ByPrioritySelector::erase(Slot slot) {
  const std::size_t hole = places_[slot];
  put(hole, heap_.back());
  heap_.pop_back();
  if (hole < heap_.size()) settle(hole);
  const auto last = static_cast<Slot>(heap_.size());
  if (slot != last) {
    ranks_[slot] = ranks_[last];
    put(places_[last], slot);
  }
  ranks_.pop_back();
  places_.pop_back();
}

void ByPrioritySelector::update(std::span<const Slot> slots, std::span<const double> priorities) {
  for (std::size_t i = 0; i < slots.size(); ++i) replace(slots[i], priorities[i]);
}

void ByPrioritySelector::assign(std::span<const Key> keys, std::span<const double> priorities) {
  std::vector<Slot> by_age(keys.size());
  std::iota(by_age.begin(), by_age.end(), Slot{0});
  std::ranges::sort(by_age, {}, [&](Slot slot) { return keys[slot]; });
  changes_ = 0;
  ranks_.resize(keys.size());
  for (const Slot slot : by_age) ranks_[slot] = rank(priorities[slot]);
  // In order: that is a heap.
  heap_ = std::move(by_age);
  std::ranges::sort(heap_, {}, [&](Slot slot) { return ranks_[slot]; });
  places_.resize(keys.size());
  for (std::size_t place = 0; place < heap_.size(); ++place) places_[heap_[place]] = place;
}

void ByPrioritySelector::select(Rng&, std::span<Selection> out) {
  std::fill(out.begin(), out.end(), Selection{heap_.front(), 1.0});
}

void ByPrioritySelector::put(std::size_t place, Slot slot) {
  heap_[place] = slot;
  places_[slot] = place;
}

void ByPrioritySelector::settle(std::size_t place) {
  const Slot slot = heap_[place];
  const auto before = [this](Slot one, Slot other) { return ranks_[one] < ranks_[other]; };
  while (place > 0 && before(slot, heap_[(place - 1) / 2])) {
    put(place, heap_[(place - 1) / 2]);
    place = (place - 1) / 2;
  }
  for (std::size_t child = 2 * place + 1; child < heap_.size(); child = 2 * place + 1) {
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
    if (!before(heap_[child], slot)) break;
    put(place, heap_[child]);
    place = child;
  }
  put(place, slot);
}

}  // namespace troupe::replay
