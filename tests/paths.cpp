#include <troupe/tests/paths.hpp>

namespace troupe {

std::string source_dir() { return TROUPE_SOURCE_DIR; }
std::string binary_dir() { return TROUPE_BINARY_DIR; }

std::vector<std::filesystem::path> shipped_config_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_dir() + "/apps/configs")) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  return files;
}

}  // namespace troupe
