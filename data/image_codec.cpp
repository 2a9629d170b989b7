#include <troupe/data/image_codec.hpp>

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <array>

#include <troupe/data/detail/jpeg.hpp>

namespace troupe::data {
namespace {

Error corrupt_image(std::string what) { return Error{Code::kCorrupt, std::move(what)}; }

constexpr std::array<std::uint8_t, 8> kPngMagic = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr std::array<std::uint8_t, 3> kJpegMagic = {0xff, 0xd8, 0xff};

bool begins_with(std::span<const std::uint8_t> bytes, std::span<const std::uint8_t> magic) {
  return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

/// Deflate packs at most 258 bytes into 2 bits.
constexpr std::uint64_t kDeflateRatioMax = 1032;

/// Bits of a pixel in the file, which libpng's simple interface does not tell: in the first chunk, which it has
/// checked, the depth of a sample and the kind of pixel follow the size.
std::uint64_t stored_bits(std::span<const std::uint8_t> png) {
  constexpr std::size_t kDepthAt = 24, kKindAt = 25;
  constexpr std::array<std::uint64_t, 8> kSamples = {1, 1, 3, 1, 2, 1, 4, 1};
  return png[kDepthAt] * kSamples[png[kKindAt] % kSamples.size()];
}

struct Png {
  png_image image{};
  Png() { image.version = PNG_IMAGE_VERSION; }
  ~Png() { png_image_free(&image); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;
  Error damaged() const { return corrupt_image(fmt::format("damaged PNG: {}", image.message)); }
};

Result<Region> decode_png(std::span<const std::uint8_t> bytes, bool grey, const ChooseExcerpt& choose, Surface& out) {
  Png png;
  if (png_image_begin_read_from_memory(&png.image, bytes.data(), bytes.size()) == 0) return png.damaged();
  const std::uint64_t height = png.image.height, width = png.image.width;
  TROUPE_TRY(detail::check_size("PNG", height, width));
  TROUPE_TRY(detail::check_held("PNG", height, width, (width * stored_bits(bytes) + 7) / 8 * height / kDeflateRatioMax,
                                bytes.size()));
  const bool colour = (png.image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  png.image.format = colour && !grey ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  out.height = png.image.height;
  out.width = png.image.width;
  out.channels = colour && !grey ? 3 : 1;
  out.pixels.resize(static_cast<std::size_t>(out.height * out.width * out.channels));
  constexpr png_color kBlack = {0, 0, 0};
  // A warning is, for example, a checksum that is wrong: what is stored is not what was written.
  if (png_image_finish_read(&png.image, &kBlack, out.pixels.data(), 0, nullptr) == 0 ||
      png.image.warning_or_error != 0) {
    return png.damaged();
  }
  return choose(out.height, out.width).region;
}

}  // namespace

Status detail::check_size(std::string_view format, std::uint64_t height, std::uint64_t width) {
  if (height > 0 && width > 0 && height <= static_cast<std::uint64_t>(kImagePixelsMax) &&
      width <= static_cast<std::uint64_t>(kImagePixelsMax) / height) {
    return {};
  }
  return corrupt_image(fmt::format("{} of {} x {} pixels, expected at least 1 x 1 and at most {} in all", format,
                                   height, width, kImagePixelsMax));
}

Status detail::check_held(std::string_view format, std::uint64_t height, std::uint64_t width, std::uint64_t least,
                          std::size_t bytes) {
  if (bytes >= least) return {};
  return corrupt_image(
      fmt::format("{} of {} x {} pixels in {} bytes, expected at least {}", format, height, width, bytes, least));
}

Result<Region> decode_image(std::span<const std::uint8_t> bytes, bool grey, const ChooseExcerpt& choose, Surface& out) {
  if (begins_with(bytes, kPngMagic)) return decode_png(bytes, grey, choose, out);
  if (begins_with(bytes, kJpegMagic)) return detail::decode_jpeg(bytes, grey, choose, out);
  if (bytes.empty()) return corrupt_image("an empty image");
  std::string begin;
  for (const std::uint8_t byte : bytes.first(std::min<std::size_t>(bytes.size(), 4))) {
    begin += fmt::format(" {:02x}", byte);
  }
  return corrupt_image(fmt::format("neither JPEG nor PNG: begins with{}", begin));
}

}  // namespace troupe::data
