#include <troupe/core/cache_folder.hpp>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace troupe {

std::string cache_folder(std::string_view name) {
  const auto own = [](const char* variable) -> std::string {
    const char* const path = std::getenv(variable);
    struct stat about {};
    if (path == nullptr || *path != '/' || ::stat(path, &about) != 0) return {};
    return S_ISDIR(about.st_mode) && about.st_uid == ::geteuid() ? path : "";
  };
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const bool given = cache != nullptr && *cache == '/';
  const std::string base = own(given ? "XDG_CACHE_HOME" : "HOME");
  if (base.empty()) return {};
  return fmt::format("{}{}/{}", base, given ? "/troupe" : "/.cache/troupe", name);
}

}  // namespace troupe
