#include <troupe/replay/slot_memory.hpp>

#include <algorithm>
#include <bit>

namespace troupe::replay {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{16} << 20;

}  // namespace

SlotMemory::SlotMemory(std::size_t slot_bytes, std::int64_t capacity) : slot_bytes_(slot_bytes) {
  const std::size_t fitting = std::max<std::size_t>(1, kChunkBytes / slot_bytes_);
  const std::size_t slots = std::min(std::bit_floor(fitting), std::bit_ceil(static_cast<std::size_t>(capacity)));
  shift_ = std::countr_zero(slots);
  mask_ = static_cast<std::uint32_t>(slots - 1);
}

void SlotMemory::add(std::uint32_t slot) {
  if ((slot >> shift_) != chunks_.size()) return;
  chunks_.push_back(make_aligned<std::byte>((std::size_t{mask_} + 1) * slot_bytes_));
}

}  // namespace troupe::replay
