#include <troupe/replay/plane_store.hpp>

#include <cstring>

#include <troupe/core/check.hpp>
#include <troupe/core/stacks.hpp>

namespace troupe::replay {

PlaneStore::PlaneStore(std::size_t plane_bytes, std::int64_t most)
    : plane_bytes_(plane_bytes), memory_(plane_bytes, most) {}

PlaneStore::Place PlaneStore::take(std::span<const std::byte> plane) {
  const std::uint64_t print = fingerprint(plane);
  const Slot like = by_fingerprint_.find(print);
  if (like != SlotMap::kNone && std::memcmp(memory_.at(like), plane.data(), plane_bytes_) == 0) {
    ++planes_[like].users;
    return like;
  }
  Place place;
  if (free_.empty()) {
    TROUPE_CHECK(planes_.size() < SlotMap::kNone, "no more places for planes");
    place = static_cast<Place>(planes_.size());
    memory_.add(place);
    planes_.emplace_back();
  } else {
    place = free_.back();
    free_.pop_back();
  }
  planes_[place] = {1, print};
  std::memcpy(memory_.at(place), plane.data(), plane_bytes_);
  if (like == SlotMap::kNone) by_fingerprint_.put(print, place);
  return place;
}

void PlaneStore::drop(Place place) {
  if (--planes_[place].users > 0) return;
  if (by_fingerprint_.find(planes_[place].fingerprint) == place) by_fingerprint_.erase(planes_[place].fingerprint);
  free_.push_back(place);
}

}  // namespace troupe::replay
