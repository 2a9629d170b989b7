#pragma once
// A set of labelled images that can be read at random: in memory (data/images), or in files that are decoded as they
// are needed. Immutable once made, so all replicas of a process, and all their threads, share one. Batches of it are
// data/image_batches.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>

namespace troupe::data {

enum class Split : std::uint8_t { kTrain, kTest };

/// An image as it is stored, with its label. Reuse one for many reads: it keeps its memory.
struct Sample {
  std::int32_t label = 0;
  Shape shape;  ///< of pixels [height, width, channels]; rank 0: `bytes` is an encoded image, to be decoded first
  std::span<const std::uint8_t> bytes;  ///< pixels, row-major, 0 is black; of the set itself, or of `storage`
  std::vector<std::uint8_t> storage;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t count() const = 0;
  virtual std::int64_t classes() const = 0;  ///< labels are 0 .. classes() - 1
  /// [height, width, channels] of every image; rank 0 when images differ, as in files.
  virtual Shape shape() const = 0;
  /// Reads sample 0 <= index < count(). Any thread. Errors, naming file and record: kNotFound, kIo, kCorrupt.
  virtual Status read(std::int64_t index, Sample& sample) const = 0;
  /// What people call sample `index`: its file, or file and record.
  virtual std::string name(std::int64_t index) const = 0;
  /// Damaged places that were left out when it was opened, because that was asked for.
  virtual std::int64_t damaged() const { return 0; }
};

}  // namespace troupe::data
