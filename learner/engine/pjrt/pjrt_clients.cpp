#include <troupe/learner/engine/pjrt/pjrt_clients.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <troupe/pjrt/find_plugin.hpp>
#include <troupe/pjrt/topology.hpp>

namespace troupe::learner {

namespace {

namespace fs = std::filesystem;

Result<std::shared_ptr<const pjrt::Client>> make_client(const std::string& engine, int devices) {
  TROUPE_ASSIGN(const fs::path path, find_pjrt_plugin(engine));
  if (engine == "tpu") pjrt::prepare_libtpu();
  TROUPE_ASSIGN(auto plugin, pjrt::Plugin::open(path));
  std::vector<pjrt::NamedValue> options;
  if (engine == "pjrt:cpu") options.push_back({"cpu_device_count", std::int64_t{devices}});
  if (engine == "pjrt:cuda") options.push_back({"preallocate", false});  // other programs' memory is there too
  return pjrt::Client::make(std::move(plugin), options);
}

}  // namespace

Result<fs::path> find_pjrt_plugin(std::string_view engine) {
  constexpr std::string_view kPrefix = "pjrt:";
  auto found = pjrt::find_plugin(engine.starts_with(kPrefix) ? engine.substr(kPrefix.size()) : engine);
  if (found.ok()) return found;
  return Error{found.error().code, fmt::format("device {}: {}", engine, found.error().message)};
}

Result<std::shared_ptr<const pjrt::Client>> pjrt_client(const std::string& engine, int devices) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, Result<std::shared_ptr<const pjrt::Client>>> clients;
  const int count = engine == "pjrt:cpu" ? std::clamp(devices, 1, kPjrtCpuDevices) : 0;
  const std::lock_guard lock(mutex);
  const auto found = clients.find({engine, count});
  if (found != clients.end()) return found->second;
  return clients.emplace(std::pair(engine, count), make_client(engine, count)).first->second;
}

}  // namespace troupe::learner
