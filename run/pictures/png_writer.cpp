#include <troupe/run/pictures/png_writer.hpp>

#include <fmt/core.h>
#include <png.h>

#include <string>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/check.hpp>

namespace troupe::apps {

Result<std::vector<std::byte>> png_bytes(const Image& image) {
  TROUPE_CHECK(image.width > 0 && image.height > 0, "picture of {} x {} pixels", image.width, image.height);
  png_image png = {};  // libpng's simple interface: no setjmp
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::vector<std::byte> bytes(size);
  if (png_image_write_to_memory(&png, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr) == 0) {
    return Error{Code::kInternal, fmt::format("libpng: {}", png.message)};
  }
  bytes.resize(size);
  return bytes;
}

Status write_png(const std::filesystem::path& path, const Image& image) {
  TROUPE_ASSIGN(const std::vector<std::byte> bytes, png_bytes(image));
  return write_file_atomic(path.string(), bytes);
}

}  // namespace troupe::apps
