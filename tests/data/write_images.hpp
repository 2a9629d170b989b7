#pragma once
// Pictures for the tests, as pixels and as files.
#include <png.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <jpeglib.h>

#include <troupe/core/check.hpp>
#include <troupe/core/pixels.hpp>
#include <troupe/tests/data/write_idx.hpp>

namespace troupe::data::testing {

/// Smooth, so that JPEG keeps it well; every pixel and channel differs from its neighbours.
inline Surface picture(std::int64_t height, std::int64_t width, std::int64_t channels) {
  Surface made{height, width, channels, {}};
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t level = c == 0 ? 40 + 160 * x / width : c == 1 ? 200 - 150 * y / height : 60 + (x + y) % 128;
        made.pixels.push_back(static_cast<std::uint8_t>(level));
      }
    }
  }
  return made;
}

inline Bytes png(const Surface& surface) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(surface.height);
  image.width = static_cast<png_uint_32>(surface.width);
  image.format = surface.channels == 1 ? PNG_FORMAT_GRAY : surface.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  Bytes bytes(size);
  TROUPE_CHECK(png_image_write_to_memory(&image, bytes.data(), &size, 0, surface.pixels.data(), 0, nullptr) != 0, "{}",
               image.message);
  bytes.resize(size);
  return bytes;
}

/// 1 channel: grey; 3: RGB; 4: CMYK, as it is. scans: empty, or how it is taken apart.
inline Bytes jpeg(const Surface& surface, int quality = 95, bool progressive = false,
                  const std::vector<jpeg_scan_info>& scans = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type
  jpeg_mem_dest(&info, &out, &size);
  info.image_height = static_cast<JDIMENSION>(surface.height);
  info.image_width = static_cast<JDIMENSION>(surface.width);
  info.input_components = static_cast<int>(surface.channels);
  info.in_color_space = surface.channels == 1 ? JCS_GRAYSCALE : surface.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  if (!scans.empty()) {
    info.scan_info = scans.data();
    info.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&info, TRUE);
  const auto stride = static_cast<std::size_t>(surface.width * surface.channels);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPROW>(&surface.pixels[info.next_scanline * stride]);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const Bytes bytes(out, out + size);
  std::free(out);
  return bytes;
}

}  // namespace troupe::data::testing
