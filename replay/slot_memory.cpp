#include <troupe/replay/slot_memory.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include <troupe/core/round_up.hpp>

namespace troupe::replay {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{16} << 20;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLine = 64;

}  // namespace

void SlotMemory::Free::operator()(std::byte* memory) const { std::free(memory); }

SlotMemory::SlotMemory(std::size_t slot_bytes, std::int64_t capacity) : slot_bytes_(slot_bytes) {
  const std::size_t fitting = std::max<std::size_t>(1, kChunkBytes / slot_bytes_);
  const std::size_t slots = std::min(std::bit_floor(fitting), std::bit_ceil(static_cast<std::size_t>(capacity)));
  shift_ = std::countr_zero(slots);
  mask_ = static_cast<std::uint32_t>(slots - 1);
}

void SlotMemory::add(std::uint32_t slot) {
  if ((slot >> shift_) != chunks_.size()) return;
  const std::size_t bytes = (std::size_t{mask_} + 1) * slot_bytes_;
  const bool huge = bytes >= kHugePage;
  const std::size_t align = huge ? kHugePage : kLine;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(align, round_up(bytes, align)));
  if (memory == nullptr) throw std::bad_alloc();
  // Slots are drawn at random: with small pages most draws would also miss the TLB. Only a hint, so unchecked.
  if (huge) madvise(memory, round_up(bytes, align), MADV_HUGEPAGE);
  chunks_.emplace_back(memory);
}

}  // namespace troupe::replay
