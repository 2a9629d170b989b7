// JPEG and PNG files: whole, grey, or a part at a smaller size.
#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>
#include <png.h>

#include <troupe/data/image_codec.hpp>
#include <troupe/tests/fuzz/fuzz.hpp>

namespace troupe::fuzz {
namespace {

using namespace data;

std::string jpeg(int quality, bool progressive, int components, int width, int height) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = components;
  info.in_color_space = components == 1 ? JCS_GRAYSCALE : components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<unsigned char> row(static_cast<std::size_t>(width * components));
  for (int y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < row.size(); ++x)
      row[x] = static_cast<unsigned char>(x * 5 + static_cast<std::size_t>(y) * 9);
    JSAMPROW line = row.data();
    jpeg_write_scanlines(&info, &line, 1);
  }
  jpeg_finish_compress(&info);
  std::string out(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return out;
}

std::string png(png_uint_32 format, png_uint_32 side) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = image.height = side;
  image.format = format;
  std::vector<unsigned char> pixels(PNG_IMAGE_SIZE(image), 77);
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr);
  std::string out(size, '\0');
  TROUPE_CHECK(png_image_write_to_memory(&image, out.data(), &size, 0, pixels.data(), 0, nullptr) != 0, "png");
  return out;
}

void one_input(Bytes input) {
  Input choice(input);
  const bool grey = choice.choose(2) == 1;
  // Of the image: where the part begins and ends, in 256ths, and how many pixels show it.
  const auto top = choice.take<std::uint8_t>(), left = choice.take<std::uint8_t>();
  const auto height = choice.take<std::uint8_t>(), width = choice.take<std::uint8_t>(),
             side = choice.take<std::uint8_t>();
  std::int64_t seen_height = 0, seen_width = 0;
  const auto choose = [&](std::int64_t full_height, std::int64_t full_width) {
    seen_height = full_height;
    seen_width = full_width;
    const auto of = [](std::int64_t full, int numerator) { return static_cast<double>(full) * numerator / 256; };
    Excerpt excerpt;
    excerpt.region.top = of(full_height, top);
    excerpt.region.left = of(full_width, left);
    excerpt.region.height =
        std::max(1e-3, (static_cast<double>(full_height) - excerpt.region.top) * (height + 1) / 256);
    excerpt.region.width = std::max(1e-3, (static_cast<double>(full_width) - excerpt.region.left) * (width + 1) / 256);
    excerpt.height = excerpt.width = side + 1;
    return excerpt;
  };
  Surface surface;
  const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(choice.rest().data()),
                                            choice.rest().size());
  const auto region = decode_image(bytes, grey, choose, surface);
  if (!region.ok()) return;
  TROUPE_CHECK(surface.channels == 1 || (surface.channels == 3 && !grey) || surface.channels == 3, "channels");
  TROUPE_CHECK(static_cast<std::int64_t>(surface.pixels.size()) == surface.height * surface.width * surface.channels,
               "{} bytes for {} x {} x {}", surface.pixels.size(), surface.height, surface.width, surface.channels);
  TROUPE_CHECK(surface.height <= seen_height && surface.width <= seen_width, "larger than the image");
  constexpr double kLess = 1e-6;
  TROUPE_CHECK(region->top >= -kLess && region->left >= -kLess &&
                   region->top + region->height <= static_cast<double>(surface.height) + 1 + kLess &&
                   region->left + region->width <= static_cast<double>(surface.width) + 1 + kLess,
               "the part {} {} {} {} of {} x {}", region->top, region->left, region->height, region->width,
               surface.height, surface.width);
}

std::vector<std::string> seeds() {
  const std::string whole("\0\0\0\xff\xff\x1f", 6), cut("\0\x40\x30\x20\x60\x03", 6), grey("\1\0\0\xff\xff\x0f", 6);
  return {whole + jpeg(50, false, 3, 19, 13), cut + jpeg(30, false, 3, 96, 64), grey + jpeg(50, true, 3, 24, 24),
          whole + jpeg(40, false, 1, 8, 9),   cut + jpeg(40, true, 4, 32, 32),  whole + png(PNG_FORMAT_RGBA, 5),
          grey + png(PNG_FORMAT_RGB, 9),      cut + png(PNG_FORMAT_GRAY, 33)};
}

const Registered registered({"images", one_input, seeds});

}  // namespace
}  // namespace troupe::fuzz
