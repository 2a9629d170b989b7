#pragma once
// Time steps that items of several tables share, each in memory once: chunks of consecutive steps of one writer, kept
// while something refers to them. Reverb's chunk store (reverb/cc/chunk_store.h). Passive and not thread-safe, like the
// tables above it (replay/sequence_tables.hpp).
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::replay {

/// Consecutive steps of a writer, whose steps are numbered from 0.
struct StepRange {
  std::uint64_t writer = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const StepRange&, const StepRange&) = default;
};

/// A chunk as an image has it.
struct StepChunk {
  std::uint64_t writer = 0;
  std::int64_t number = 0;  ///< of the writer's chunks
  std::int64_t steps = 0;   ///< that it holds: all, but in the writer's newest
  std::span<const std::byte> rows;
};

/// Some steps of a range, of one column of them, on their way to memory.
struct StepCopy {
  std::size_t column = 0;
  std::int64_t first = 0;  ///< counted from the range's first
  std::int64_t count = 0;
  std::byte* to = nullptr;
};

class StepStore {
 public:
  /// chunk_steps: steps of a chunk, > 0. Items that overlap by less share a chunk that holds more than they need; small
  /// chunks cost 100 bytes each.
  StepStore(const Signature& signature, std::int64_t chunk_steps);

  /// Takes steps behind the writer's last one, which is number `next` - 1. What is not referred to by then may be gone.
  void append(std::uint64_t writer, std::int64_t next, const BatchView& steps);
  /// Whether all of it is there.
  bool has(const StepRange& range) const;
  /// One reference more, or less, to each chunk of the range, which must be there. A chunk without one is freed by the
  /// next collect(), so that what leaves a table while it is drawn can still be read.
  void add(const StepRange& range);
  void drop(const StepRange& range);
  void collect();
  /// has() the range, within which the copies are.
  void read(const StepRange& range, std::span<const StepCopy> copies) const;

  std::int64_t steps() const { return steps_; }  ///< that are in memory
  std::int64_t bytes() const;                    ///< of memory, of chunks whole

  /// The chunks of these ranges, each once. Views stay as long as nothing changes.
  std::vector<StepChunk> chunks_of(std::span<const StepRange> ranges) const;
  /// Takes a chunk of an image, without a reference. A writer's number is random, so one that is here has the same
  /// steps: if it holds fewer it gets the others. Errors: kCorrupt: it has other steps, or too many.
  Status put(const StepChunk& chunk);
  std::int64_t chunk_steps() const { return chunk_steps_; }
  std::size_t row_bytes() const { return row_bytes_; }

 private:
  struct Name {
    std::uint64_t writer;
    std::int64_t number;
    friend bool operator==(const Name&, const Name&) = default;
  };
  struct Hash {
    std::size_t operator()(const Name& name) const {
      return static_cast<std::size_t>((name.writer + static_cast<std::uint64_t>(name.number)) * 0x9E3779B97F4A7C15ULL);
    }
  };
  struct Chunk {
    std::vector<std::byte> rows;  ///< packed, of chunk_steps_ steps
    std::int64_t steps = 0;
    std::int64_t references = 0;
  };
  Chunk& make(const Name& name);
  template <typename Work>
  void each(const StepRange& range, Work work) const;

  std::vector<std::size_t> column_bytes_, column_offset_;  ///< of a packed step
  std::size_t row_bytes_;
  std::int64_t chunk_steps_;
  std::unordered_map<Name, Chunk, Hash> chunks_;
  std::vector<Name> doomed_;                   ///< may have no reference any more
  std::vector<std::vector<std::byte>> spare_;  ///< memory of former chunks, a few
  std::int64_t steps_ = 0;
};

}  // namespace troupe::replay
