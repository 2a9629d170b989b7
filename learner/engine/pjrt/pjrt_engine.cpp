#include <troupe/learner/engine/pjrt/pjrt_engine.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <troupe/learner/engine/pjrt/pjrt_clients.hpp>
#include <troupe/learner/engine/pjrt/pjrt_program.hpp>
#include <troupe/learner/engine/pjrt/pjrt_replicas.hpp>

namespace troupe::learner {

namespace {

class PjrtEngine final : public Engine {
 public:
  Status check(const Graph& graph, const Device& device) const override {
    TROUPE_ASSIGN(const auto path, find_pjrt_plugin(device.engine));
    TROUPE_TRY(pjrt::Plugin::check_file(path));
    if (device.engine == "pjrt:cpu" && device.index >= kPjrtCpuDevices) {
      return Error{Code::kNotFound, fmt::format("{}: there are {} of them, expected 0 to {}", to_string(device),
                                                kPjrtCpuDevices, kPjrtCpuDevices - 1)};
    }
    if (!graph.status().ok()) return graph.status();
    TROUPE_TRY(make_hlo_parts(GraphAccess::data(graph), graph.batch(), {.phase = HloPhase::kGradients}));
    return {};
  }
  Status complete(const GraphData&, std::int64_t, CompileOptions* options) const override {
    return complete_for_one_device(options);
  }
  Result<std::unique_ptr<Executable>> compile(const GraphData& data, Host& host) const override {
    const auto* const together = PjrtReplicas::of(host.options.seat);
    TROUPE_ASSIGN(auto client, together != nullptr ? together->client() : client_of(host.options.device));
    TROUPE_ASSIGN(auto made, PjrtProgram::make(std::move(client), data, host));
    return std::unique_ptr<Executable>(std::move(made));
  }
  Result<std::shared_ptr<Together>> together(std::span<const Device> devices) const override {
    std::vector<std::int64_t> indices;
    for (const Device& device : devices) {
      if (device.engine != devices[0].engine) return Error{Code::kUnavailable, "they are of several plug-ins"};
      if (std::ranges::count(devices, device) > 1) {
        return Error{Code::kUnavailable, fmt::format("several are on {}", to_string(device))};
      }
      indices.push_back(device.index);
    }
    TROUPE_ASSIGN(auto client, client_of(*std::ranges::max_element(devices, {}, &Device::index)));
    return std::shared_ptr<Together>(std::make_shared<PjrtReplicas>(std::move(client), std::move(indices)));
  }

 private:
  /// With that device, and so those of lower indices.
  static Result<std::shared_ptr<const pjrt::Client>> client_of(const Device& device) {
    TROUPE_ASSIGN(auto client, pjrt_client(device.engine, device.index + 1));
    if (device.index < static_cast<int>(client->devices())) return client;
    return Error{Code::kNotFound, fmt::format("{}: {} has {} devices, expected 0 to {}", to_string(device),
                                              client->plugin().name(), client->devices(), client->devices() - 1)};
  }
};

}  // namespace

const Engine& pjrt_engine() {
  static const PjrtEngine engine;
  return engine;
}

}  // namespace troupe::learner
