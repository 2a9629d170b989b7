#pragma once
// Memory for equal slots, which comes in chunks as slots are first used and is never moved. Used by replay/row_store
// and replay/plane_store.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

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
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::size_t slot_bytes_;
  int shift_;  // slots in a chunk: a power of two
  std::uint32_t mask_;
  std::vector<std::unique_ptr<std::byte[], Free>> chunks_;
};

}  // namespace troupe::replay
