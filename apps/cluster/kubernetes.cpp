// The Kubernetes reader of environment.hpp; deploy/kubernetes/ sets the variables.
#include <charconv>
#include <optional>
#include <system_error>

#include <fmt/core.h>

#include <troupe/apps/cluster/environment.hpp>
#include <troupe/apps/cluster/place.hpp>
#include <troupe/core/text.hpp>
#include <troupe/transport/identity.hpp>

namespace troupe::apps {
namespace {

constexpr std::int64_t kPodsMax = 4096;
constexpr const char* kDefaultPort = "7600";

Error wrong(std::string what) { return Error{Code::kInvalidArgument, "Kubernetes: " + std::move(what)}; }

std::string variable(const Environment& environment, std::string_view name, std::string otherwise) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::move(otherwise) : found->second;
}

std::optional<std::int64_t> to_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value >= 0 ? std::optional(value) : std::nullopt;
}

}  // namespace

Result<OwnPlace> kubernetes_place(const Environment& environment, const actors::TrainOptions& options) {
  const std::string nodes_text = variable(environment, "TROUPE_NODES", "");
  const auto nodes = to_number(nodes_text);
  if (!nodes || *nodes < 1 || *nodes > kPodsMax) {
    return wrong(
        fmt::format("TROUPE_NODES is \"{}\", expected the number of pods, 1 .. {}", printable(nodes_text), kPodsMax));
  }
  const std::string host = variable(environment, "HOSTNAME", "");
  const std::string pod = host.substr(0, host.find('.'));
  const std::size_t dash = pod.rfind('-');
  const auto suffix = dash == std::string::npos ? std::nullopt : to_number(std::string_view(pod).substr(dash + 1));
  const std::string job = pod.substr(0, suffix ? dash : 0);
  if (!suffix || !transport::is_name(job)) {
    return wrong(fmt::format("the pod's host name is \"{}\", expected <job>-<index>", printable(host)));
  }
  const std::string index_text = variable(environment, "JOB_COMPLETION_INDEX", std::to_string(*suffix));
  const auto index = to_number(index_text);
  if (index != suffix) {
    return wrong(fmt::format("JOB_COMPLETION_INDEX is \"{}\", expected {} as in the pod's host name {}",
                             printable(index_text), *suffix, printable(host)));
  }
  if (*index >= *nodes) return wrong(fmt::format("this is pod {}, but TROUPE_NODES says {}", *index, *nodes));
  const std::string service = variable(environment, "TROUPE_SERVICE", job);
  const std::string port_text = variable(environment, "TROUPE_PORT", kDefaultPort);
  const auto port = to_number(port_text);
  if (!is_host(service)) {
    return wrong(
        fmt::format("TROUPE_SERVICE is \"{}\", expected the name of the headless Service", printable(service)));
  }
  if (!port || *port < 1 || *port > 65535) {
    return wrong(fmt::format("TROUPE_PORT is \"{}\", expected a port in 1 .. 65535", printable(port_text)));
  }
  std::vector<transport::Address> places;
  for (std::int64_t i = 0; i < *nodes; ++i) {
    places.push_back({fmt::format("{}-{}.{}", job, i, service), static_cast<std::uint16_t>(*port)});
  }
  TROUPE_ASSIGN(ClusterSpec cluster, place_on(options, job, places, "pods"));
  std::string name = cluster.nodes[static_cast<std::size_t>(*index)].name;
  return OwnPlace{std::move(cluster), std::move(name)};
}

}  // namespace troupe::apps
