#pragma once
// A picture in memory: what environments draw into and what the PNG and GIF writers take.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/core/picture.hpp>

namespace troupe::apps {

/// RGB, 8 bits a channel, rows from the top, without padding: pixels.size() == width * height * 3.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> pixels;

  Image() = default;
  Image(int w, int h) : width(w), height(h), pixels(static_cast<std::size_t>(w) * static_cast<std::size_t>(h) * 3) {}
  friend bool operator==(const Image&, const Image&) = default;
};

/// A picture that an evaluator made; grey ones in three equal channels.
Image to_image(const Picture& picture);

/// Pictures of the same height side by side, with `gap` white columns between them.
Image side_by_side(std::span<const Image> images, int gap);

}  // namespace troupe::apps
