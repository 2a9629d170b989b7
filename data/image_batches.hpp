#pragma once
// Batches of images for one of several replicas that train together. What a step sees over all replicas depends on the
// seed and the step alone, never on how many replicas share it: that is what makes N replicas comparable with one, lets
// a group change its size, and lets a restart go on with the next batch without any state of its own.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/tensor.hpp>
#include <troupe/data/image_reader.hpp>

namespace troupe::data {

struct ImageBatchOptions {
  std::int64_t global_batch = 1;  ///< rows of a step over all shares
  /// This share's part of each global batch: rows [index * B / count, (index + 1) * B / count).
  int share = 0;
  int shares = 1;
  std::uint64_t seed = 0;
  bool shuffle = true;  ///< anew each epoch; false: in the order of the set, as for tests
  /// Names of further columns of standard normal noise, float32[noise_size], for generators.
  std::vector<std::string> noise = {};
  std::int64_t noise_size = 0;
};

/// Columns: "image" float32[height, width, channels], "label" int32, and the noise. The last batch of an epoch has the
/// rows that are left, so a share of it may have fewer rows than usual, or none.
class ImageBatches {
 public:
  /// This share's rows of one step.
  struct Rows {
    std::int64_t epoch = 0;
    std::int64_t first = 0;  ///< number of its first row among all rows of all steps
    std::vector<std::int32_t> samples;
  };

  /// options: global_batch >= shares >= 1, 0 <= share < shares; else a bug, and aborts. So are more than 2^31 images.
  ImageBatches(std::shared_ptr<const ImageReader> reader, ImageBatchOptions options);

  const Signature& signature() const { return signature_; }
  const ImageReader& reader() const { return *reader_; }
  std::int64_t steps_each_epoch() const;
  std::int64_t rows_max() const { return end_ - begin_; }  ///< of a step

  /// Which rows step `step` >= 0 has. O(rows), and O(images) where an epoch begins.
  void choose(std::int64_t step, Rows& rows);
  /// Fills rows [begin, end) of `out`. Any thread, for different rows. Errors: the reader's.
  Status fill(const Rows& rows, std::int64_t begin, std::int64_t end, ImageReader::Scratch& scratch,
              const MutableBatchView& out) const;
  /// Both on this thread: all rows of a step, borrowed until the next call.
  Result<BatchView> at(std::int64_t step);

 private:
  void begin_epoch(std::int64_t epoch);

  std::shared_ptr<const ImageReader> reader_;
  ImageBatchOptions options_;
  std::int64_t begin_ = 0, end_ = 0;  // of this share within a global batch
  Signature signature_;
  std::int64_t epoch_ = -1;
  std::vector<std::int32_t> order_;
  // Of at().
  Rows rows_;
  ImageReader::Scratch scratch_;
  std::optional<BatchBuffer> buffer_;
};

}  // namespace troupe::data
