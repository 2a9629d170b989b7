#pragma once
// Memory for equal slots, which comes in chunks as slots are first used and is never moved. Slots are drawn at random:
// chunks are in huge pages, as with small ones most draws would also miss the processor's table of them. Used by
// replay/row_store and replay/plane_store.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <troupe/core/aligned.hpp>

namespace troupe::replay {

class SlotMemory {
 public:
  /// capacity: slots that will be used at most, as far as the size of a chunk goes.
  SlotMemory(std::size_t slot_bytes, std::int64_t capacity);

  /// Makes the slot's memory exist. Slots are added in order; one that was added before stays as it is.
  void add(std::uint32_t slot);

  std::byte* at(std::uint32_t slot) { return chunks_[slot >> shift_].get() + (slot & mask_) * slot_bytes_; }
  const std::byte* at(std::uint32_t slot) const { return chunks_[slot >> shift_].get() + (slot & mask_) * slot_bytes_; }

 private:
  std::size_t slot_bytes_;
  int shift_;  // slots in a chunk: a power of two
  std::uint32_t mask_;
  std::vector<AlignedArray<std::byte>> chunks_;
};

}  // namespace troupe::replay
