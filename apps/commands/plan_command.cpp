// `troupe plan CONFIG`: which nodes follow from a configuration, what each hosts and what it needs.
#include <CLI/CLI.hpp>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <troupe/apps/cluster/node_needs.hpp>
#include <troupe/apps/cluster/place.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/commands/run_arguments.hpp>
#include <troupe/run/check_begin.hpp>
#include <troupe/run/say.hpp>

namespace troupe::apps {
namespace {

constexpr std::int64_t kNodesMax = 4096;

struct PlanArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::int64_t nodes = 0;  ///< 0: as [placement] says
  bool json = false;
};

void print_json(const std::string& name, const ClusterSpec& cluster, const std::vector<NodeNeeds>& needs) {
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    nlohmann::ordered_json roles = nlohmann::ordered_json::object();
    for (const HostedRole& role : cluster.nodes[i].roles) roles[role.role] = role.instances;
    nodes.push_back({{"name", cluster.nodes[i].name},
                     {"placement", needs[i].role_nodes},
                     {"roles", roles},
                     {"cpus", needs[i].cpus},
                     {"gpus", needs[i].gpus}});
  }
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;  // a file may be called anything
  say("{}\n", nlohmann::ordered_json{{"name", name}, {"nodes", nodes}}.dump(2, ' ', false, kReplace));
}

void print_table(const ClusterSpec& cluster, const std::vector<NodeNeeds>& needs) {
  std::size_t width = 4;
  for (const NodeSpec& node : cluster.nodes) width = std::max(width, node.name.size());
  say("{:<{}}  cpus  gpus  instances\n", "node", width);
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    std::vector<std::string> roles;
    for (const HostedRole& role : cluster.nodes[i].roles) {
      roles.push_back(fmt::format("{} {}", role.role, fmt::join(role.instances, " ")));
    }
    say("{:<{}}  {:>4}  {:>4}  {}\n", cluster.nodes[i].name, width, needs[i].cpus, needs[i].gpus,
        fmt::join(roles, ", "));
  }
}

Result<ClusterSpec> plan(const PlanArguments& arguments, const actors::TrainOptions& options) {
  if (arguments.nodes == 0) return place(options, "plan");
  auto cluster =
      place_on(options, "plan", std::vector<transport::Address>(static_cast<std::size_t>(arguments.nodes)), "nodes");
  if (cluster.ok()) return cluster;
  return Error{cluster.error().code,
               fmt::format("{}, --nodes {}: {}", arguments.config, arguments.nodes, cluster.error().message)};
}

int run(const PlanArguments& arguments, const Registry& registry) {
  RunArguments run{.config = arguments.config};
  run.overrides = arguments.overrides;
  const Result<LoadedRun> loaded = load_to_begin(run, registry, RunKind::kHosts);
  if (!loaded.ok()) return fail_config(loaded.error());
  const Result<ClusterSpec> cluster = plan(arguments, loaded->options);
  if (!cluster.ok()) return fail_config(cluster.error());
  const std::vector<NodeNeeds> needs = needs_of(*cluster, actors::role_counts(loaded->options));
  arguments.json ? print_json(loaded->options.name, *cluster, needs) : print_table(*cluster, needs);
  return kExitOk;
}

}  // namespace

void add_plan_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command = app.add_subcommand("plan", "Show the nodes that a configuration makes, and what each needs");
  const auto arguments = std::make_shared<PlanArguments>();
  add_config_argument(*command, arguments->config);
  command->add_option("--nodes", arguments->nodes, "So many nodes: env actors take what the others leave")
      ->check(CLI::Range(std::int64_t{1}, kNodesMax))
      ->type_name("N");
  command->add_flag("--json", arguments->json, "For programs");
  command->add_option("--set", arguments->overrides, "Override a key of the configuration; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->callback(
      [arguments, &registry, chosen] { *chosen = [arguments, &registry] { return run(*arguments, registry); }; });
}

}  // namespace troupe::apps
