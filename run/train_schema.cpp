#include <troupe/run/train_schema.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <iterator>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <troupe/run/agent_schema.hpp>
#include <troupe/run/initial_values.hpp>
#include <troupe/run/mistake_place.hpp>
#include <troupe/run/replica_schema.hpp>
#include <troupe/run/role_schema.hpp>

namespace troupe::apps {
namespace {

/// A name becomes part of a directory's name.
bool is_plain_name(const std::string& name) {
  return name.size() <= 100 && std::isalnum(static_cast<unsigned char>(name[0])) != 0 &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; });
}

/// One name that the kernel may give an interface (less than IFNAMSIZ characters) and that NCCL takes for no list.
bool is_interface_name(const std::string& name) {
  return name.size() <= 15 && name != "." && name != ".." && std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

std::vector<std::string> mistakes_across_keys(const Config& config, const Registry& registry) {
  std::vector<std::string> mistakes;
  const auto demand = [&](bool holds, std::string_view key, const std::string& what) {
    if (!holds) mistakes.push_back(fmt::format("{}: {}", config.where(key), what));
  };
  const bool empty = config.get_string("env").empty() && config.names("agents").empty() &&
                     config.names("replicas").empty() && config.names("roles").empty();
  if (empty) {
    mistakes.push_back(config.file() +
                       ": missing key env: the environment of an agent, or an [agents.NAME], "
                       "[replicas.NAME] or [roles.NAME]");
  }
  const std::string& name = config.get_string("name");
  demand(name.empty() || is_plain_name(name), "name",
         fmt::format("name \"{}\" cannot be part of a directory name: expected 1 .. 100 letters, digits, '-', '_' or "
                     "'.', a letter or digit first",
                     name));
  const auto add = [&](const std::vector<std::string>& more) {
    mistakes.insert(mistakes.end(), more.begin(), more.end());
  };
  add(agent_mistakes(config));
  const double first = config.get_float("supervisor.backoff_first_s"),
               max = config.get_float("supervisor.backoff_max_s");
  const bool first_is_set = config.where("supervisor.backoff_first_s") != "default";
  demand(first <= max, first_is_set ? "supervisor.backoff_first_s" : "supervisor.backoff_max_s",
         fmt::format("supervisor.backoff_first_s must not exceed supervisor.backoff_max_s: got {} and {}", first, max));
  const std::string& interface = config.get_string("security.nccl_interface");
  demand(
      interface.empty() || is_interface_name(interface), "security.nccl_interface",
      fmt::format("security.nccl_interface is \"{}\", expected the name of a network interface as `ip link` shows it",
                  interface));
  add(replica_mistakes(config, registry));
  add(role_mistakes(config, registry));
  return mistakes;
}

}  // namespace

ConfigSchema train_schema(const Registry& registry) {
  const actors::TrainOptions d;
  ConfigSchema schema = {
      {.path = "name",
       .default_value = std::string(),
       .doc = "Begins the run directory's name; empty: the file's name"},
      {.path = "seed",
       .default_value = static_cast<std::int64_t>(d.seed),
       .doc = "Everything random in the run follows from it",
       .min = 0},
      {.path = "deterministic",
       .default_value = d.deterministic,
       .doc = "One step at a time in virtual time, slower: two runs give the same bits"},
      {.path = "init",
       .default_value = d.init,
       .doc = "Run or safetensors file whose values training begins with; empty: none"},
      {.path = "max_minutes",
       .default_value = d.max_minutes,
       .doc = "Ends the run after this wall time; 0: no limit",
       .unit = "min",
       .min = 0,
       .max = 1e6},
  };
  const ConfigSchema agent = agent_schema(registry);
  std::ranges::copy(agent, std::back_inserter(schema));
  ConfigSchema run = {
      {.path = "checkpoint.every_s",
       .default_value = d.checkpoint.every_s,
       .doc = "Between two checkpoints; one more is made at the end",
       .unit = "s",
       .min = 1,
       .max = 1e6},
      {.path = "checkpoint.keep",
       .default_value = d.checkpoint.keep,
       .doc = "Newest checkpoints that are kept",
       .min = 2,
       .max = 1000},
      {.path = "metrics.every_s",
       .default_value = d.metrics.every_s,
       .doc = "Between two rows of metrics",
       .unit = "s",
       .min = 0.05,
       .max = 3600},
      {.path = "supervisor.max_restarts",
       .default_value = d.supervisor.max_restarts,
       .doc = "Of one env actor; its next failure ends the run",
       .min = 0,
       .max = 1e6},
      {.path = "supervisor.backoff_first_s",
       .default_value = d.supervisor.backoff_first_s,
       .doc = "Wait before the first restart, doubled for every further one",
       .unit = "s",
       .min = 0,
       .max = 3600},
      {.path = "supervisor.backoff_max_s",
       .default_value = d.supervisor.backoff_max_s,
       .doc = "Longest wait before a restart",
       .unit = "s",
       .min = 0,
       .max = 3600},
      {.path = "security.nccl_interface",
       .default_value = d.security.nccl_interface,
       .doc = "Network that is trusted with NCCL's sockets; empty: loopback alone"},
  };
  for (ConfigSchema& more :
       std::array{std::move(run), named_agents(agent), replica_schema(registry), role_schema(registry)}) {
    std::ranges::move(more, std::back_inserter(schema));
  }
  return schema;
}

Result<actors::TrainOptions> to_train_options(const Config& config, const Registry& registry) {
  const std::vector<std::string> mistakes = mistakes_across_keys(config, registry);
  if (!mistakes.empty()) return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(mistakes, "\n"))};
  auto roles = to_roles(config, registry);
  if (!roles.ok()) return placed(config, roles.error());
  const std::string& init = config.get_string("init");
  TROUPE_ASSIGN(auto agents, to_agents(config, registry));
  TROUPE_ASSIGN(auto replicas, to_replica_runs(config, registry));
  return actors::TrainOptions{
      .name = config.get_string("name"),
      .seed = static_cast<std::uint64_t>(config.get_int("seed")),
      .deterministic = config.get_bool("deterministic"),
      .max_minutes = config.get_float("max_minutes"),
      .checkpoint = {.every_s = config.get_float("checkpoint.every_s"), .keep = config.get_int("checkpoint.keep")},
      .metrics = {.every_s = config.get_float("metrics.every_s")},
      .supervisor = {.max_restarts = config.get_int("supervisor.max_restarts"),
                     .backoff_first_s = config.get_float("supervisor.backoff_first_s"),
                     .backoff_max_s = config.get_float("supervisor.backoff_max_s")},
      .security = {.nccl_interface = config.get_string("security.nccl_interface")},
      .begin_with = init.empty() ? nullptr : begin_with(registry, init),
      .init = init,
      .agents = std::move(agents),
      .replicas = std::move(replicas),
      .roles = std::move(roles).value(),
      .channels = to_channels(config),
      .messages = registry.messages(),
  };
}

}  // namespace troupe::apps
