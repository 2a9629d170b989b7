#pragma once
// The JPEG half of data/image_codec, by libjpeg-turbo.
#include <cstdint>
#include <span>
#include <string_view>

#include <troupe/data/image_codec.hpp>

namespace troupe::data::detail {

/// kCorrupt unless an image of this size may be decoded. `format`: for the message.
Status check_size(std::string_view format, std::uint64_t height, std::uint64_t width);

/// kCorrupt unless `bytes` of them can hold such an image, which takes `least`: memory is taken for no other.
Status check_held(std::string_view format, std::uint64_t height, std::uint64_t width, std::uint64_t least,
                  std::size_t bytes);

/// decode_image() of a JPEG.
Result<Region> decode_jpeg(std::span<const std::uint8_t> bytes, bool grey, const ChooseExcerpt& choose, Surface& out);

}  // namespace troupe::data::detail
