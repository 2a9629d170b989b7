#pragma once
// Resampling of images. Used by data/image_reader.
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/data/pixels.hpp>

namespace troupe::data {

/// Scratch memory, reused from image to image; one for each thread.
class Resizer {
 public:
  struct To {
    std::int64_t height = 0, width = 0;
    bool mirror = false;  ///< left and right change places
  };
  /// Shows `region` of `from`, which lies within it, at another size: bilinear where it grows, and where it shrinks the
  /// same triangle made as wide as the step between pixels (Pillow's BILINEAR, torchvision's antialias=True), so that
  /// every pixel counts. Pixels are squares with their values in the middle (align_corners=False).
  /// out: [height, width, channels], 0 .. 255. O(out x the shrinkage on each side).
  void resize(const PixelView& from, const Region& region, const To& to, std::span<float> out);

 private:
  /// What each output pixel of one axis is made of: inputs first[i] .. first[i] + count - 1, by weights[i * count ...].
  struct Axis {
    std::int64_t count = 0;
    std::vector<std::int32_t> first;
    std::vector<float> weights;
    void prepare(double begin, double length, std::int64_t from, std::int64_t to, bool mirror);
  };
  Axis rows_, columns_;
  std::vector<float> line_;
};

}  // namespace troupe::data
