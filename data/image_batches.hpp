#pragma once
// Batches of images for one of several replicas that train together. What a step sees over all replicas depends on the
// seed and the step alone, never on how many replicas share it: that is what makes N replicas comparable with one, lets
// a group change its size, and lets a restart go on with the next batch without any state of its own.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <troupe/core/tensor.hpp>
#include <troupe/data/dataset.hpp>

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

/// Columns: "image" float32[height, width, channels] in [-1, 1], "label" int32, and the noise. The last batch of an
/// epoch has the rows that are left, so a share of it may have fewer rows than usual, or none.
class ImageBatches {
 public:
  /// images: all of one shape. options: global_batch >= shares >= 1, 0 <= share < shares. Else a bug, and aborts.
  ImageBatches(std::shared_ptr<const Dataset> images, ImageBatchOptions options);

  const Signature& signature() const { return signature_; }
  /// This share's rows of step `step` >= 0, borrowed until the next call. O(rows), and O(images) where an epoch begins.
  /// Errors: the data set's.
  Result<BatchView> at(std::int64_t step);
  std::int64_t steps_each_epoch() const;

 private:
  void begin_epoch(std::int64_t epoch);

  std::shared_ptr<const Dataset> images_;
  ImageBatchOptions options_;
  std::int64_t begin_ = 0, end_ = 0;  // of this share within a global batch
  Signature signature_;
  BatchBuffer buffer_;
  Sample sample_;
  std::int64_t epoch_ = -1;
  std::vector<std::int32_t> order_;
};

}  // namespace troupe::data
