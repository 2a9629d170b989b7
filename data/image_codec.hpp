#pragma once
// JPEG and PNG files decoded into pixels. Bytes come from outside: sizes are checked before memory is taken, and damage
// is an error, never a grey area in a picture. Of a JPEG only what is needed is decoded: the rows and columns of a
// part, at a half, quarter or eighth of the size where that suffices. Used by data/image_reader.
#include <cstdint>
#include <functional>
#include <span>

#include <troupe/core/error.hpp>
#include <troupe/core/pixels.hpp>

namespace troupe::data {

/// `region` of an image, to be shown at height x width pixels.
struct Excerpt {
  Region region;
  std::int64_t height = 0, width = 0;
};
/// The part that is wanted of an image of this size; lies within it.
using ChooseExcerpt = std::function<Excerpt(std::int64_t height, std::int64_t width)>;

/// Larger images are refused.
inline constexpr std::int64_t kImagePixelsMax = std::int64_t{1} << 26;

/// Decodes what `choose` wants into `out`, with 1 (grey) or 3 (RGB) channels as the file has, or grey where `grey` is
/// set; transparency is put on black. Returns where the wanted region lies on `out`. Of an image that is decoded in
/// part only damage in what was read is found. Errors: kCorrupt (neither JPEG nor PNG, cut off, damaged, too large).
Result<Region> decode_image(std::span<const std::uint8_t> bytes, bool grey, const ChooseExcerpt& choose, Surface& out);

}  // namespace troupe::data
