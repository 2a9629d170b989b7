#pragma once
#include <filesystem>

#include <troupe/apps/pictures/image.hpp>
#include <troupe/core/error.hpp>

namespace troupe::apps {

/// Writes `image` as an RGB PNG (libpng), replacing the file. Errors: kIo with libpng's or the system's reason.
Status write_png(const std::filesystem::path& path, const Image& image);

}  // namespace troupe::apps
