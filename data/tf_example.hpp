#pragma once
// The image and label of a serialised tf.train.Example, as ImageNet's TFRecords hold them (tensorflow/core/example/
// example.proto): a map of features by name. Read from protobuf's wire format by hand, because that is all of it that
// is needed, and so that every length is checked against the bytes that are there. Used by data/tfrecords.
#include <cstdint>
#include <span>

#include <troupe/core/error.hpp>

namespace troupe::data {

struct ImageExample {
  std::span<const std::uint8_t> encoded;  ///< image/encoded: of the bytes that were parsed
  std::int64_t label = 0;                 ///< image/class/label
};

/// Errors: kCorrupt, for bytes that are no Example, or one in which a feature is missing or has not one value.
Result<ImageExample> parse_image_example(std::span<const std::uint8_t> bytes);

}  // namespace troupe::data
