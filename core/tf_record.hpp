#pragma once
// TensorFlow's record framing (tensorflow/core/lib/io/record_writer.cc): TensorBoard's event files, and data sets.
// Whoever reads data sets of it has its own checks (data/tfrecords.hpp).
#include <string>
#include <string_view>

namespace troupe {

/// length u64 | masked CRC-32C of the length | data | masked CRC-32C of the data; all little endian.
std::string tf_record(std::string_view data);

}  // namespace troupe
