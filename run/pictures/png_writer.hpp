#pragma once
#include <cstddef>
#include <filesystem>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/run/pictures/image.hpp>

namespace troupe::apps {

/// Writes `image` as an RGB PNG (libpng), replacing the file. Errors: kIo with libpng's or the system's reason.
Status write_png(const std::filesystem::path& path, const Image& image);
/// The bytes of that file. Errors: kInternal with libpng's reason.
Result<std::vector<std::byte>> png_bytes(const Image& image);

}  // namespace troupe::apps
