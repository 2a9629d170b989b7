#include <troupe/core/installation.hpp>

#include <link.h>

#include <system_error>

namespace troupe {
namespace {

namespace fs = std::filesystem;

/// For dl_iterate_phdr(): ends the search at the first library that lies in a folder lib/troupe beside share/troupe.
int find_prefix(dl_phdr_info* library, std::size_t, void* found) {
  const fs::path folder = fs::path(library->dlpi_name).parent_path();
  if (folder.filename() != "troupe") return 0;
  std::error_code error;
  const fs::path libraries = fs::canonical(folder, error);
  const fs::path shared = libraries.parent_path().parent_path() / "share/troupe";
  if (error || !fs::is_directory(shared, error)) return 0;
  *static_cast<Installation*>(found) = {libraries, shared};
  return 1;
}

}  // namespace

Installation installation() {
  const fs::path build = TROUPE_BUILD_FOLDER;
  Installation found = {build / "lib", build / "share/troupe"};
  dl_iterate_phdr(find_prefix, &found);
  return found;
}

}  // namespace troupe
