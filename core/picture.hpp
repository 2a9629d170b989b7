#pragma once
// Pictures of what a run has learned, beside its numbers (core/metrics.hpp): evaluators make them, and sinks (PNG
// files, TensorBoard: apps/) keep them.
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe {

/// Rows from the top, channels innermost: pixels.size() == height * width * channels.
struct Picture {
  std::string source;     ///< who is shown, e.g. the replica group "sngan"
  std::string name;       ///< what of it: "samples"
  std::int64_t step = 0;  ///< of the source, when it looked like this
  std::int64_t height = 0, width = 0;
  std::int64_t channels = 1;  ///< 1: grey; 3: red, green, blue
  std::vector<std::uint8_t> pixels;
};

/// A place that pictures go to. Called from any thread; may block for a file write, never for ever.
class PictureSink {
 public:
  virtual ~PictureSink() = default;
  virtual Status write(const Picture& picture) = 0;
};

}  // namespace troupe
