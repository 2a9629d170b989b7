#pragma once
// Resampling of images. Used by data/image_reader and envs/wrappers/resize.
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/core/pixels.hpp>

namespace troupe {

/// Scratch memory, reused from image to image; one for each thread.
class Resizer {
 public:
  /// What becomes of the pixels of a side that shrinks; every one of them counts.
  enum class Shrink {
    kTriangle,  ///< a triangle as wide as two steps between pixels (Pillow's BILINEAR, torchvision's antialias=True)
    kArea,      ///< the mean over the area of a pixel (OpenCV's INTER_AREA)
  };
  struct To {
    std::int64_t height = 0, width = 0;
    bool mirror = false;  ///< left and right change places
    Shrink shrink = Shrink::kTriangle;
  };
  /// Shows `region` of `from`, which lies within it, at another size: bilinear where it grows, and where it shrinks as
  /// `to` says. Pixels are squares with their values in the middle (align_corners=False).
  /// out: [height, width, channels], 0 .. 255. O(out x the shrinkage on each side).
  void resize(const PixelView& from, const Region& region, const To& to, std::span<float> out);

 private:
  /// What each output pixel of one axis is made of: inputs first[i] .. first[i] + count - 1, by weights[i * count ...].
  struct Axis {
    std::int64_t count = 0;
    std::vector<std::int32_t> first;
    std::vector<float> weights;
    void prepare(double begin, double length, std::int64_t from, std::int64_t to, bool mirror, Shrink shrink);
  };
  Axis rows_, columns_;
  std::vector<float> line_;
};

}  // namespace troupe
