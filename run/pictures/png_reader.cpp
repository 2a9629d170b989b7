#include <troupe/run/pictures/png_reader.hpp>

#include <fmt/core.h>
#include <png.h>

namespace troupe::apps {

Result<Image> read_png(const std::filesystem::path& path) {
  png_image png = {};  // libpng's simple interface: no setjmp
  png.version = PNG_IMAGE_VERSION;
  const auto failed = [&] { return Error{Code::kIo, fmt::format("{}: libpng: {}", path.string(), png.message)}; };
  if (png_image_begin_read_from_file(&png, path.c_str()) == 0) return failed();
  png.format = PNG_FORMAT_RGB;
  Image image(static_cast<int>(png.width), static_cast<int>(png.height));
  if (png_image_finish_read(&png, nullptr, image.pixels.data(), 0, nullptr) == 0) return failed();
  return image;
}

}  // namespace troupe::apps
