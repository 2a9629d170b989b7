// The Kubernetes reader of environment.hpp; deploy/kubernetes/ sets the variables.
#include <algorithm>
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

/// The pods by their host names, and which of them this one is.
struct Pods {
  std::string run;  ///< what it is called
  std::vector<std::string> names;
  std::size_t own = 0;
  std::string service;
};

std::string own_host(const Environment& environment) {
  const std::string host = variable(environment, "HOSTNAME", "");
  return host.substr(0, host.find('.'));
}

Result<Pods> pods_of_job(const Environment& environment) {
  const std::string nodes_text = variable(environment, "TROUPE_NODES", "");
  const auto nodes = to_number(nodes_text);
  if (!nodes || *nodes < 1 || *nodes > kPodsMax) {
    return wrong(
        fmt::format("TROUPE_NODES is \"{}\", expected the number of pods, 1 .. {}", printable(nodes_text), kPodsMax));
  }
  const std::string pod = own_host(environment);
  const std::size_t dash = pod.rfind('-');
  const auto suffix = dash == std::string::npos ? std::nullopt : to_number(std::string_view(pod).substr(dash + 1));
  const std::string job = pod.substr(0, suffix ? dash : 0);
  if (!suffix || !transport::is_name(job)) {
    return wrong(fmt::format("the pod's host name is \"{}\", expected <job>-<index>",
                             printable(variable(environment, "HOSTNAME", ""))));
  }
  const std::string index_text = variable(environment, "JOB_COMPLETION_INDEX", std::to_string(*suffix));
  const auto index = to_number(index_text);
  if (index != suffix) {
    return wrong(fmt::format("JOB_COMPLETION_INDEX is \"{}\", expected {} as in the pod's host name {}",
                             printable(index_text), *suffix, printable(variable(environment, "HOSTNAME", ""))));
  }
  if (*index >= *nodes) return wrong(fmt::format("this is pod {}, but TROUPE_NODES says {}", *index, *nodes));
  Pods pods{.run = job,
            .names = {},
            .own = static_cast<std::size_t>(*index),
            .service = variable(environment, "TROUPE_SERVICE", job)};
  for (std::int64_t i = 0; i < *nodes; ++i) pods.names.push_back(fmt::format("{}-{}", job, i));
  return pods;
}

Result<Pods> pods_in_list(const Environment& environment) {
  const std::string list = variable(environment, "TROUPE_PODS", "");
  auto names = expand_host_list(list);
  if (!names.ok()) return wrong(fmt::format("TROUPE_PODS is \"{}\": {}", printable(list), names.error().message));
  const std::string pod = own_host(environment);
  const auto own = std::ranges::find(*names, pod);
  if (own == names->end()) {
    return wrong(
        fmt::format("TROUPE_PODS is \"{}\", expected this pod, {}, among them", printable(list), printable(pod)));
  }
  Pods pods{.run = {},
            .names = {},
            .own = static_cast<std::size_t>(own - names->begin()),
            .service = variable(environment, "TROUPE_SERVICE", "")};
  pods.run = pods.service;
  pods.names = *std::move(names);
  return pods;
}

}  // namespace

Result<OwnPlace> kubernetes_place(const Environment& environment, const actors::TrainOptions& options) {
  const bool listed = environment.count("TROUPE_PODS") > 0;
  TROUPE_ASSIGN(const Pods pods, listed ? pods_in_list(environment) : pods_of_job(environment));
  const std::string port_text = variable(environment, "TROUPE_PORT", kDefaultPort);
  const auto port = to_number(port_text);
  if (!is_host(pods.service) || !transport::is_name(pods.run)) {
    return wrong(
        fmt::format("TROUPE_SERVICE is \"{}\", expected the name of the headless Service", printable(pods.service)));
  }
  if (!port || *port < 1 || *port > 65535) {
    return wrong(fmt::format("TROUPE_PORT is \"{}\", expected a port in 1 .. 65535", printable(port_text)));
  }
  std::vector<transport::Address> places;
  for (const std::string& name : pods.names) {
    places.push_back({fmt::format("{}.{}", name, pods.service), static_cast<std::uint16_t>(*port)});
  }
  TROUPE_ASSIGN(ClusterSpec cluster, place_on(options, pods.run, places, "pods"));
  std::string name = cluster.nodes[pods.own].name;
  return OwnPlace{std::move(cluster), std::move(name)};
}

}  // namespace troupe::apps
