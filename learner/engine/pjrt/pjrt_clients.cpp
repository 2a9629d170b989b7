#include <troupe/learner/engine/pjrt/pjrt_clients.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

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

/// By compiling next to nothing with it: plug-ins have no list.
bool knows(const pjrt::Client& client, const pjrt::NamedValue& flag) {
  constexpr std::string_view kNothing = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
  return client.compile(kNothing, {.flags = {flag}}).ok();
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

std::vector<pjrt::NamedValue> compile_flags(const pjrt::Client& client) {
  static const pjrt::NamedValue kSums{"xla_cpu_experimental_ynn_fusion_type",
                                      std::string("LIBRARY_FUSION_TYPE_REDUCE")};
  const char* const own = std::getenv("XLA_FLAGS");
  if (!client.is_host() || (own != nullptr && std::string_view(own).find(kSums.name) != std::string_view::npos)) {
    return {};
  }
  static std::mutex mutex;
  static std::map<fs::path, bool> known;  // by plug-in
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace(client.plugin().path(), false);
  if (is_new) found->second = knows(client, kSums);
  return found->second ? std::vector{kSums} : std::vector<pjrt::NamedValue>();
}

}  // namespace troupe::learner
