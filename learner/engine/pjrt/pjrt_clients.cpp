#include <troupe/learner/engine/pjrt/pjrt_clients.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include <troupe/pjrt/topology.hpp>

namespace troupe::learner {

namespace {

namespace fs = std::filesystem;

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Of "name:path,name:path".
fs::path listed(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(std::min(entry.size() + 1, list.size()));
    const std::size_t colon = entry.find(':');
    if (colon != std::string_view::npos && entry.substr(0, colon) == name) return entry.substr(colon + 1);
  }
  return {};
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

Result<std::shared_ptr<const pjrt::Client>> make_client(const std::string& engine) {
  TROUPE_ASSIGN(const fs::path path, find_pjrt_plugin(engine));
  if (engine == "tpu") pjrt::prepare_libtpu();
  TROUPE_ASSIGN(auto plugin, pjrt::Plugin::open(path));
  std::vector<pjrt::NamedValue> options;
  if (engine == "pjrt:cpu") options.push_back({"cpu_device_count", std::int64_t{kPjrtCpuDevices}});
  return pjrt::Client::make(std::move(plugin), options);
}

}  // namespace

Result<fs::path> find_pjrt_plugin(std::string_view engine) {
  constexpr std::string_view kPrefix = "pjrt:";
  const std::string_view name = engine.starts_with(kPrefix) ? engine.substr(kPrefix.size()) : engine;
  if (name.find('/') != std::string_view::npos) return fs::path(name);
  if (fs::path path = listed(variable("PJRT_NAMES_AND_LIBRARY_PATHS"), name); !path.empty()) return path;
  if (name == "tpu" && !variable("TPU_LIBRARY_PATH").empty()) return fs::path(variable("TPU_LIBRARY_PATH"));
  if (fs::path path = fetched(name); !path.empty()) return path;
  return Error{Code::kNotFound,
               fmt::format("device {}: no plug-in \"{}\" in PJRT_NAMES_AND_LIBRARY_PATHS, and none is fetched; "
                           "{}, or name a file as pjrt:/PATH/TO/PLUGIN.so",
                           engine, name,
                           name == "cpu" || name == "tpu" ? fmt::format("`tools/bootstrap.sh pjrt {}` fetches it", name)
                                                          : std::string("add it there"))};
}

Result<std::shared_ptr<const pjrt::Client>> pjrt_client(const std::string& engine) {
  static std::mutex mutex;
  static std::map<std::string, Result<std::shared_ptr<const pjrt::Client>>> clients;
  const std::lock_guard lock(mutex);
  if (const auto found = clients.find(engine); found != clients.end()) return found->second;
  return clients.emplace(engine, make_client(engine)).first->second;
}

}  // namespace troupe::learner
