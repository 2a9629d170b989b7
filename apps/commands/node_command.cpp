// `troupe node`: one node of a run. It finds its place in what the launcher hands over, in a cluster file, in the
// environment (TF_CONFIG, Slurm, Kubernetes), or joins a run that goes on as a further node.
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include <troupe/apps/cluster/cluster_file.hpp>
#include <troupe/apps/cluster/environment.hpp>
#include <troupe/apps/cluster/launch_run.hpp>
#include <troupe/apps/cluster/launcher.hpp>
#include <troupe/apps/cluster/node_place.hpp>
#include <troupe/apps/cluster/node_start.hpp>
#include <troupe/apps/cluster/tether.hpp>
#include <troupe/apps/commands/commands.hpp>
#include <troupe/apps/commands/record_run.hpp>
#include <troupe/apps/commands/run_arguments.hpp>
#include <troupe/apps/version.hpp>
#include <troupe/core/atomic_file.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/text.hpp>
#include <troupe/messages/control.hpp>
#include <troupe/run/node.hpp>
#include <troupe/run/run_topology.hpp>
#include <troupe/run/say.hpp>
#include <troupe/run/stop_request.hpp>
#include <troupe/run/train_schema.hpp>

namespace troupe::apps {
namespace {

/// How long a planned node that is asked to end goes on, if nobody knows that the chief has ended already: Slurm and
/// Kubernetes ask all at once, and the chief needs the others for its last checkpoint.
constexpr Duration kAfterYou = std::chrono::seconds(8);

struct NodeArguments {
  RunArguments run;
  std::string cluster, name;  ///< a file, and this node in it
  std::string token;
  std::string join;  ///< run directory
  std::string role;  ///< of a node that joins
  std::int64_t instances = 1;
  std::string host;
  std::uint16_t port = 0;
  std::string listen;
  bool from_launcher = false, quiet = false;
  bool keep_up = false;
};

/// A node that is ready to begin.
struct Node {
  Config config;
  actors::TrainOptions options;
  RunDirectory directory;
  actors::NodePlace place;
  std::string cluster;  ///< text of the cluster file; empty when it is not known
  bool resume = false;
  bool locked = false;           ///< NodeStart::locked
  bool waits_for_chief = false;  ///< see kAfterYou
};

/// All of the standard input, which the launcher has filled and ended.
Result<std::string> read_input() {
  std::string text;
  std::vector<char> bytes(65536);
  for (ssize_t got; (got = read(STDIN_FILENO, bytes.data(), bytes.size())) != 0;) {
    if (got < 0) return Error{Code::kIo, "node: the standard input cannot be read"};
    text.append(bytes.data(), static_cast<std::size_t>(got));
    if (text.size() > kTetherInputBytesMax)
      return Error{Code::kInvalidArgument, "node: too much in the standard input"};
  }
  return text;
}

/// Where a node is that may be somewhere else at each start, and the chief that it is to join.
Status find_addresses(const NodeStart& start, actors::NodePlace& place, const std::filesystem::path& run_dir) {
  if (place.advertised_host == kAnyHost) {
    const Environment environment = process_environment();
    const auto host = environment.find(kHostVariable);
    if (host == environment.end() || !is_host(host->second)) {
      return Error{
          Code::kInvalidArgument,
          fmt::format("{} is \"{}\", expected how other nodes reach this host: the relay of `up --via` says so "
                      "to what it starts",
                      kHostVariable, host == environment.end() ? "" : printable(host->second))};
    }
    place.network.listen.host = place.advertised_host = host->second;
  }
  if (!start.chief.empty()) {
    TROUPE_ASSIGN(place.network.chief, transport::parse_address(start.chief));
  }
  if (start.announces) {
    place.on_listening = [](const transport::Address& address) {
      say("{}\n", announcement(address));
      std::fflush(stdout);
    };
  }
  std::error_code error;
  if (start.begun && !std::filesystem::exists(RunDirectory{run_dir}.journal(), error)) {
    return Error{
        Code::kCorrupt,
        fmt::format("TRP-E165 the run directory {} is not on host {}, and the chief has led the run elsewhere: "
                    "only on storage that all hosts share can it go on here",
                    run_dir.string(), place.advertised_host)};
  }
  return {};
}

Result<Node> from_launcher(const NodeArguments& arguments, const Registry& registry) {
  TROUPE_ASSIGN(const std::string text, read_input());
  TROUPE_ASSIGN(NodeStart start, parse_node_start(text, version()));
  TROUPE_ASSIGN(Config config, parse_config(start.config, "config", {}, train_schema(registry)));
  TROUPE_ASSIGN(actors::TrainOptions options, to_train_options(config, registry));
  TROUPE_ASSIGN(const ClusterSpec cluster, parse_cluster(start.cluster, "cluster", options));
  const NodeSpec* self = cluster.find(start.node);
  if (self == nullptr) return Error{Code::kInvalidArgument, fmt::format("node: the cluster has no {}", start.node)};
  Node node;
  node.config = std::move(config);
  node.options = std::move(options);
  node.directory = {arguments.run.run_dir};
  node.place = place_in(cluster, *self, node.directory);
  TROUPE_TRY(find_addresses(start, node.place, node.directory.path));
  node.place.network.credentials = std::move(start.credentials);
  node.cluster = std::move(start.cluster);
  node.resume = start.resume;
  node.locked = start.locked;
  if (const auto before = transport::parse_address(start.before); before.ok()) node.place.earlier = *before;
  if (!start.authority_key.empty()) {
    TROUPE_TRY(keep_authority((node.directory.path / "security").string(), start.authority_key));
  }
  return node;
}

/// Who joins a run that it can see takes the configuration from there.
Result<LoadedRun> load(const NodeArguments& arguments, const Registry& registry) {
  RunArguments run = arguments.run;
  if (run.config.empty()) run.config = RunDirectory{arguments.join}.config().string();
  return load_run(run, registry);
}

/// Only what the arguments say, so that it is known before anything is touched.
Result<OwnPlace> planned_place(const NodeArguments& arguments, const LoadedRun& loaded) {
  const RunDirectory directory{arguments.run.run_dir.empty() ? arguments.run.resume : arguments.run.run_dir};
  if (directory.path.empty()) {
    return Error{Code::kInvalidArgument, "--run-dir: missing, expected the run directory that all nodes share"};
  }
  if (arguments.cluster.empty()) return own_place(process_environment(), loaded.options, directory.id());
  TROUPE_ASSIGN(ClusterSpec cluster, load_cluster(arguments.cluster, loaded.options));
  if (cluster.find(arguments.name) == nullptr) {
    return Error{Code::kInvalidArgument,
                 fmt::format("--name: {} has no node \"{}\"", arguments.cluster, arguments.name)};
  }
  return OwnPlace{std::move(cluster), arguments.name};
}

Result<Node> planned(const NodeArguments& arguments, const Registry& registry, LoadedRun loaded) {
  TROUPE_ASSIGN(const OwnPlace own, planned_place(arguments, loaded));
  Node node;
  node.config = std::move(loaded.config);
  node.options = std::move(loaded.options);
  node.resume = !arguments.run.resume.empty();
  node.directory = {node.resume ? arguments.run.resume : arguments.run.run_dir};
  TROUPE_TRY(check_resume(arguments.run, registry, node.config));
  TROUPE_TRY(check_begin(node.config, node.options, RunKind::kHosts));
  const NodeSpec& self = *own.cluster.find(own.node);
  node.place = place_in(own.cluster, self, node.directory);
  node.cluster = to_toml(own.cluster);
  node.waits_for_chief = own.node != kChiefName;
  return node;
}

Result<Node> joining(const NodeArguments& arguments, LoadedRun loaded) {
  if (loaded.options.deterministic) {
    return Error{
        Code::kInvalidArgument,
        "--join, --token: this run is deterministic (deterministic = true), and takes in only the nodes that it "
        "was planned with: when another one comes, no other run could repeat"};
  }
  Node node;
  node.config = std::move(loaded.config);
  node.options = std::move(loaded.options);
  node.directory = {arguments.join};
  if (!arguments.token.empty()) {
    const std::string stem = std::filesystem::path(arguments.token).stem().string();
    node.directory = {arguments.run.run_dir.empty() ? "runs/joined-" + stem : arguments.run.run_dir};
  }
  Joining how{.token = arguments.token,
              .directory = arguments.join,
              .name = arguments.name,
              .instances = arguments.instances,
              .listen = {arguments.host, arguments.port}};
  if (arguments.token.empty()) {
    TROUPE_ASSIGN(const auto roles, actors::elastic_roles(node.options));
    TROUPE_ASSIGN(how.role, elastic_role(roles, arguments.role));
  }
  TROUPE_ASSIGN(node.place, join_run(how, node.directory));
  std::string& host = node.place.network.listen.host;
  if (arguments.host.empty()) {
    const std::string& chief = node.place.network.chief->host;
    host = chief.starts_with("127.") || chief == "localhost" ? "127.0.0.1" : process_environment()["HOSTNAME"];
  }
  node.place.advertised_host = host;
  return node;
}

Result<Node> find(const NodeArguments& arguments, const Registry& registry) {
  if (arguments.from_launcher) return from_launcher(arguments, registry);
  TROUPE_ASSIGN(LoadedRun loaded, load(arguments, registry));
  if (!arguments.token.empty() || !arguments.join.empty()) return joining(arguments, std::move(loaded));
  return planned(arguments, registry, std::move(loaded));
}

/// `over`: set when this was the chief and its run has ended.
Status run_here(Node& node, const NodeArguments& arguments, bool& over) {
  std::error_code error;
  actors::NodeNetworkOptions& network = node.place.network;
  const std::filesystem::path folder = node.directory.path / "nodes" / network.self.node;
  std::filesystem::create_directories(folder, error);
  if (error) return Error{Code::kIo, fmt::format("{}: {}", folder.string(), error.message())};
  const bool chief = network.self.node == kChiefName;
  if (!arguments.listen.empty()) network.listen.host = arguments.listen;
  // The chief may still have to make the authority that the certificates come from.
  TROUPE_TRY(complete(node.place));
  if (network.credentials.key.empty()) {
    TROUPE_ASSIGN(const transport::Authority authority, await_authority((node.directory.path / "security").string()));
    network.self.run = authority.run();
    TROUPE_ASSIGN(network.credentials, authority.issue(network.self, std::chrono::system_clock::now()));
  }
  node.place.runtime.node.config_hash = std::strtoull(node.config.hash().c_str(), nullptr, 16);
  node.place.resume = node.resume;
  if (chief) {
    std::optional<RunLock> lock;
    if (!node.locked) {
      TROUPE_ASSIGN(RunLock taken, RunLock::take(node.directory));
      lock.emplace(std::move(taken));
    }
    // Before anything is written there. Not kNotFound: whoever looks after this process would start it again.
    const Status can = node.resume ? check_resumable(node.directory, true) : Status();
    if (!can.ok()) return Error{Code::kCorrupt, can.error().message};
    TROUPE_TRY(write_file_atomic((node.directory.path / "cluster.toml").string(), node.cluster));
    return record_run(node.directory, node.config, node.options,
                      {.resume = node.resume, .quiet = arguments.quiet, .place = &node.place, .over = &over});
  }
  log::also_to_file((folder / "log.txt").string());
  const StopRequest stop;
  std::atomic<bool> now{false};
  const std::jthread patience([&](std::stop_token done) {
    const SteadyClock clock;
    std::optional<Duration> asked;
    while (!done.stop_requested() && !now) {
      if (stop.flag() && !asked) asked = clock.now();
      now = asked && clock.now() >= *asked + (node.waits_for_chief ? kAfterYou : Duration(0));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  return actors::run_node(node.options, node.place, &now);
}

/// This same command line without --keep-up, looked after by a launcher.
int keep_up(const NodeArguments& arguments, const Registry& registry) {
  const Result<LoadedRun> loaded = load(arguments, registry);
  if (!loaded.ok()) return fail_config(loaded.error());
  std::string name = arguments.name;
  if (arguments.token.empty() && arguments.join.empty()) {
    const Result<OwnPlace> own = planned_place(arguments, *loaded);
    if (!own.ok()) return fail_config(own.error());
    name = own->node;
  }
  std::ifstream stream("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> command;
  for (std::string word; std::getline(stream, word, '\0');) {
    if (word != "--keep-up") command.push_back(word);
  }
  LaunchOptions how;
  if (loaded->options.deterministic) how.restarts_max = 0;  // what a second process did could not be repeated
  const Result<int> ended = launch({{.name = name.empty() ? "node" : name, .command = std::move(command)}}, how);
  return ended.ok() ? *ended : fail(ended.error());
}

int run(const NodeArguments& arguments, const Registry& registry) {
  if (arguments.quiet) log::set_level(log::Level::kWarn);
  if (arguments.keep_up) return keep_up(arguments, registry);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // somebody reads along
  Result<Node> node = find(arguments, registry);
  if (!node.ok()) {
    return node.error().code == Code::kCorrupt ? fail(node.error(), kNodeData) : fail_run(node.error());
  }
  bool over = false;
  const Status done = run_here(*node, arguments, over);
  if (done.ok()) return kExitOk;
  // Whoever looks after this node starts it again, unless that is pointless: the run has ended with an error or has
  // never begun, or the chief has refused this node for good.
  const Code code = done.error().code;
  std::error_code error;
  const bool leads = node->place.network.self.node == kChiefName;
  if (leads && code != Code::kInvalidArgument) {
    over = over || !std::filesystem::exists(node->directory.journal(), error);
  }
  return fail(done.error(), code == Code::kCancelled         ? static_cast<int>(kNodeFenced)
                            : code == Code::kCorrupt         ? static_cast<int>(kNodeData)
                            : over                           ? static_cast<int>(kNodeOver)
                            : code == Code::kInvalidArgument ? static_cast<int>(kExitConfig)
                                                             : static_cast<int>(kExitFailure));
}

}  // namespace

void add_node_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command = app.add_subcommand(
      "node", "Run one node; its place is in a cluster file, TF_CONFIG, Slurm's or Kubernetes' variables, or a token");
  const auto arguments = std::make_shared<NodeArguments>();
  NodeArguments& a = *arguments;
  add_run_arguments(*command, a.run);
  command->get_option("config")->required(false);
  CLI::Option* cluster =
      command->add_option("--cluster", a.cluster, "All nodes, see docs/deploy.md")->type_name("FILE");
  CLI::Option* name = command->add_option("--name", a.name, "Which node this is")->type_name("NAME");
  cluster->needs(name);
  CLI::Option* token = command->add_option("--token", a.token, "Join a run with a token of `troupe token`")
                           ->type_name("FILE")
                           ->excludes(cluster);
  CLI::Option* join =
      command->add_option("--join", a.join, "Join the run in this directory, which this node shares with the chief")
          ->type_name("RUN")
          ->needs(name)
          ->excludes(cluster)
          ->excludes(token);
  command->add_option("--role", a.role, "With --join: what it will host; by default the only role that may be")
      ->type_name("ROLE")
      ->needs(join);
  command->add_option("--instances", a.instances, "With --join or --token: how many instances of that role")
      ->check(CLI::Range(std::int64_t{1}, messages::kMaxElasticInstances))
      ->excludes(cluster)
      ->capture_default_str();
  command->add_option("--host", a.host, "With --join or --token: where the other nodes reach this one")
      ->type_name("HOST");
  command->add_option("--port", a.port, "The same; 0: any free one")->type_name("PORT");
  command
      ->add_option("--listen", a.listen,
                   "Listen on this address and not on the one by which the others reach this node")
      ->type_name("HOST");
  command->add_flag("--keep-up", a.keep_up, "Start the node again when it dies, where nobody else does");
  command->add_flag("--from-launcher", a.from_launcher)->group("");
  command->add_flag("--quiet", a.quiet, "Print nothing but warnings and errors");
  command->callback([arguments, &registry, chosen] {
    if (arguments->run.config.empty() && !arguments->from_launcher && arguments->join.empty()) {
      throw CLI::RequiredError("config");
    }
    *chosen = [arguments, &registry] { return run(*arguments, registry); };
  });
}

}  // namespace troupe::apps
