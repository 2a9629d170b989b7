#pragma once
#include <filesystem>

#include <troupe/core/error.hpp>
#include <troupe/run/pictures/image.hpp>

namespace troupe::apps {

/// Reads a PNG of this program's own making as RGB (libpng). Errors: kIo naming the file, with libpng's reason.
Result<Image> read_png(const std::filesystem::path& path);

}  // namespace troupe::apps
