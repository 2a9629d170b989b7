#pragma once
// Pixels in memory and parts of them: the nouns of core/resize and data/image_codec.
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// Borrowed 8-bit pixels, row-major [height, width, channels].
struct PixelView {
  std::span<const std::uint8_t> pixels;
  std::int64_t height = 0, width = 0, channels = 0;
};

/// Pixels that are reused from image to image: memory only grows.
struct Surface {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> pixels;

  PixelView view() const { return {pixels, height, width, channels}; }
};

/// A rectangle of an image, in pixels; its edges may lie within a pixel.
struct Region {
  double top = 0, left = 0, height = 0, width = 0;
};

}  // namespace troupe
