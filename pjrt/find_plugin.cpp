#include <troupe/pjrt/find_plugin.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace troupe::pjrt {

namespace {

namespace fs = std::filesystem;

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// "name:path,name:path", as JAX has it.
std::vector<std::pair<std::string, fs::path>> listed() {
  std::vector<std::pair<std::string, fs::path>> entries;
  for (std::string_view list = variable("PJRT_NAMES_AND_LIBRARY_PATHS"); !list.empty();) {
    const std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(std::min(entry.size() + 1, list.size()));
    const std::size_t colon = entry.find(':');
    if (colon != std::string_view::npos && colon > 0)
      entries.emplace_back(entry.substr(0, colon), entry.substr(colon + 1));
  }
  return entries;
}

/// The newest one in the cache of tools/bootstrap.sh.
fs::path fetched(std::string_view name) {
  const fs::path base =
      variable("XDG_CACHE_HOME").empty() ? fs::path(variable("HOME")) / ".cache" : fs::path(variable("XDG_CACHE_HOME"));
  std::vector<fs::path> found;
  std::error_code ignored;  // no cache, no plug-in
  for (const auto& folder : fs::directory_iterator(base / "troupe", ignored)) {
    if (!folder.path().filename().string().starts_with(fmt::format("pjrt-{}-", name))) continue;
    for (const auto& file : fs::directory_iterator(folder.path(), ignored)) {
      if (file.path().extension() == ".so") found.push_back(file.path());
    }
  }
  return found.empty() ? fs::path() : *std::ranges::max_element(found);
}

constexpr std::array<std::string_view, 3> kFetched{"cpu", "cuda", "tpu"};

}  // namespace

std::vector<std::string> plugin_names() {
  std::vector<std::string> names(kFetched.begin(), kFetched.end());
  for (const auto& [name, path] : listed()) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

Result<fs::path> find_plugin(std::string_view name) {
  if (name.find('/') != std::string_view::npos) {
    std::error_code ignored;
    if (fs::exists(name, ignored)) return fs::path(name);
    return Error{Code::kNotFound, fmt::format("no file {}", name)};
  }
  for (const auto& [known, path] : listed()) {
    if (known == name && !path.empty()) return path;
  }
  if (name == "tpu" && !variable("TPU_LIBRARY_PATH").empty()) return fs::path(variable("TPU_LIBRARY_PATH"));
  if (fs::path path = fetched(name); !path.empty()) return path;
  const bool known = std::ranges::find(kFetched, name) != kFetched.end();
  return Error{
      Code::kNotFound,
      fmt::format("no plug-in \"{}\" in PJRT_NAMES_AND_LIBRARY_PATHS, and none is fetched; {}, or name a file "
                  "as pjrt:/PATH/TO/PLUGIN.so",
                  name, known ? fmt::format("`tools/bootstrap.sh pjrt {}` fetches it", name) : "add it there")};
}

}  // namespace troupe::pjrt
