#include <troupe/run/node.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include <troupe/actors/control/committed_cuts.hpp>
#include <troupe/actors/control/run_checkpoint.hpp>
#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/network/authorization.hpp>
#include <troupe/actors/network/node_network.hpp>
#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/core/atomic_file.hpp>
#include <troupe/core/log.hpp>
#include <troupe/messages/checkpoint_files.hpp>
#include <troupe/run/no_metrics.hpp>
#include <troupe/run/run_directory.hpp>
#include <troupe/run/run_topology.hpp>
#include <troupe/transport/shared_memory.hpp>

namespace troupe::actors {
namespace {

/// An environment's step that takes longer hangs (reliability: F18).
constexpr Duration kStepTimeout = std::chrono::seconds(30);

Result<transport::Address> read_address(const std::filesystem::path& file) {
  std::error_code error;
  const bool readable = std::filesystem::is_regular_file(file, error);  // a pipe would be waited for
  std::ifstream stream(readable ? file : std::filesystem::path());
  std::string text;
  if (!stream || !std::getline(stream, text)) {
    return Error{Code::kNotFound, fmt::format("{}: not there", file.string())};
  }
  return transport::parse_address(text);
}

/// Over nodes every role outlives its process: what it goes on from is the last cut, its own folder, or what its
/// neighbours send it.
void restart_all(Topology& topology, const TrainOptions& options) {
  for (RoleSpec& role : topology.roles) {
    role.restart.max_restarts = static_cast<int>(options.supervisor.max_restarts);
    role.restart.first_backoff = from_seconds(options.supervisor.backoff_first_s);
    role.restart.max_backoff = from_seconds(options.supervisor.backoff_max_s);
    if (role.kept_over_nodes) role.restart.from = RestartFrom::kLastCut;
  }
}

std::uint64_t random_birth() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

Result<transport::Address> wait_for_chief(const std::filesystem::path& run_dir, Duration timeout) {
  const std::filesystem::path file = apps::RunDirectory{run_dir}.chief_address();
  const SteadyClock clock;
  const Duration deadline = clock.now() + timeout;
  for (;;) {
    // What is no address was left by somebody else: the chief replaces it.
    auto address = read_address(file);
    if (address.ok()) return address;
    if (clock.now() >= deadline) {
      return Error{Code::kDeadlineExceeded, fmt::format("no chief has written {} within {:.0f} s ({})", file.string(),
                                                        seconds(timeout), address.error().message)};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Result<Topology> node_topology(const TrainOptions& options, RunSinks sinks, double wall_s) {
  TROUPE_ASSIGN(Topology topology, run_topology(options, sinks, wall_s));
  restart_all(topology, options);
  return topology;
}

Result<std::unique_ptr<NodeNetwork>> make_network(const NodePlace& place, const Topology& topology) {
  NodeNetworkOptions options = place.network;
  options.topology = &topology;
  if (options.self.node != kChiefNode) return NodeNetwork::make(std::move(options));
  const std::filesystem::path file = apps::RunDirectory{place.run_dir}.chief_address();
  const bool free_port = options.listen.port == 0;
  if (free_port) {
    // The nodes of a run that goes on look for the chief where it was. On another host they cannot find it, and the
    // port may be somebody else's.
    const std::string& host = place.advertised_host.empty() ? options.listen.host : place.advertised_host;
    const auto before = place.earlier ? Result<transport::Address>(*place.earlier) : read_address(file);
    if (before.ok() && before->host == host) options.listen.port = before->port;
  }
  auto made = NodeNetwork::make(options);
  if (!made.ok() && made.error().code == Code::kUnavailable && free_port && place.earlier) {
    log::warn("{}; another port will do", made.error().message);
    options.listen.port = 0;
    made = NodeNetwork::make(options);
  }
  TROUPE_ASSIGN(auto network, std::move(made));
  transport::Address address = network->address();
  if (!place.advertised_host.empty()) address.host = place.advertised_host;
  TROUPE_TRY(write_file_atomic(file.string(), transport::to_string(address) + "\n"));
  if (place.on_listening) place.on_listening(address);
  return network;
}

Result<EarlierCuts> earlier_cuts(const NodePlace& place) {
  const apps::RunDirectory run{place.run_dir};
  const std::filesystem::path checkpoints = run.checkpoints(), journal = run.journal();
  EarlierCuts earlier;
  std::error_code error;
  auto newest = newest_cut(checkpoints);
  if (newest.ok() && std::filesystem::status(journal, error).type() == std::filesystem::file_type::not_found) {
    return Error{Code::kCorrupt,
                 fmt::format("{}: the chief's journal is missing, but there is checkpoint {}: without the journal the "
                             "incarnations of that time would be given again",
                             journal.string(), cut_name(newest->number))};
  }
  if (place.resume) {
    auto found = whole_cuts(checkpoints);
    // Not kNotFound: whoever looks after this process would start it again, as the chief of a run that goes on.
    if (!found.ok()) return Error{Code::kCorrupt, found.error().message};
    WholeCuts& whole = *found;
    for (const auto& one : whole.rejected) {
      log::warn("TRP-W603 checkpoint {} is damaged and not used: {}", one.name, one.reason);
    }
    earlier.newest = whole.cuts.front();
    earlier.resume_from = std::move(whole.cuts);
    return earlier;
  }
  // Whoever starts from it is refused by name; until then the run needs none.
  if (newest.ok()) earlier.newest = *std::move(newest);
  if (!newest.ok() && newest.error().code != Code::kNotFound) log::error("TRP-E605 {}", newest.error().message);
  return earlier;
}

Result<RuntimeOptions> node_runtime(const NodePlace& place, const TrainOptions& options, const Topology& topology,
                                    NodeNetwork& network, EarlierCuts earlier,
                                    std::function<std::vector<messages::Counter>()> more) {
  const transport::Identity& self = place.network.self;
  const apps::RunDirectory run{place.run_dir};
  const std::filesystem::path checkpoints = run.checkpoints();
  const std::string own = (checkpoints / self.node).string();
  RuntimeOptions runtime = place.runtime;
  runtime.seed = options.seed;
  runtime.deterministic = options.deterministic;
  runtime.run_directory = place.run_dir;
  runtime.report_period = from_seconds(options.metrics.every_s);
  runtime.checkpoint_period = from_seconds(options.checkpoint.every_s);
  runtime.write_cut = [&topology, own, run = self.run,
                       more = std::move(more)](std::shared_ptr<const Cut> cut) -> Status {
    messages::CheckpointContents contents =
        to_contents(topology, *cut, more ? more() : std::vector<messages::Counter>());
    contents.run_id = run;
    contents.learner_step = static_cast<std::int64_t>(cut->number);  // names the part; the same on all nodes
    TROUPE_ASSIGN(const std::string path, messages::write_checkpoint({own, messages::kKeepAll, {}}, contents));
    log::debug("part of a checkpoint: {}", path);
    return {};
  };

  NodeOptions& node = runtime.node;
  node.network = &network;
  node.self = self;
  node.birth = random_birth();
  node.address = {self.node, 0, place.advertised_host.empty() ? network.address().host : place.advertised_host,
                  network.address().port};
  if (const auto host = transport::host_identity(); host.ok()) {
    node.host = *host;
  } else {
    log::warn("groups do not share memory: {}", host.error().message);
  }
  node.directory = place.run_dir / "nodes" / self.node;
  node.step_timeout = kStepTimeout;
  node.on_hang = [](const std::string& instance) {
    log::error("TRP-E150 {}: a step exceeded {:.0f} s; this process ends, to be started again", instance,
               seconds(kStepTimeout));
    std::_Exit(kExitHang);
  };
  node.on_lost = [](const std::string& why) {
    log::error("TRP-E152 {}; this process ends, to be started again: only a new one may get the device back", why);
    std::_Exit(kExitLost);  // without what ends in good order, which would ask the device
  };
  node.load = [&topology, checkpoints](const std::string& instance, std::uint64_t cut) {
    return load_instance(topology, checkpoints, instance, cut);
  };
  node.parts.id = [own](std::uint64_t cut) { return messages::checkpoint_id(own, cut_name(cut)); };
  node.parts.keep = [checkpoints, name = self.node](const std::vector<std::uint64_t>& cuts) {
    keep_parts(checkpoints, name, cuts);
  };
  node.parts.check = [checkpoints, name = self.node](std::uint64_t cut, const std::string& id) {
    return check_part(checkpoints, name, cut, id);
  };

  ChiefOptions& chief = runtime.chief;
  chief.journal = journal_in(run.journal());
  chief.commit = [checkpoints, keep = static_cast<int>(options.checkpoint.keep)](const CommittedCut& cut) {
    return commit_cut(checkpoints, cut, keep);
  };
  chief.kept = [checkpoints] { return kept_cuts(checkpoints); };
  chief.resumed_from = [checkpoints](std::uint64_t cut) { return set_aside_newer(checkpoints, cut); };
  chief.resume_from = std::move(earlier.resume_from);
  chief.committed = std::move(earlier.newest);
  return runtime;
}

Status run_node(const TrainOptions& options, const NodePlace& place, const std::atomic<bool>* stop) {
  NoMetrics sink;
  TROUPE_ASSIGN(const Topology topology, node_topology(options, {sink}, 0));
  TROUPE_ASSIGN(const auto network, make_network(place, topology));
  TROUPE_ASSIGN(RuntimeOptions runtime_options, node_runtime(place, options, topology, *network, {}, nullptr));
  TROUPE_ASSIGN(const auto runtime, Runtime::make(topology, std::move(runtime_options)));
  log::info("node {} listens on {}", place.network.self.node, transport::to_string(network->address()));
  TROUPE_TRY(runtime->run([&] { return stop != nullptr && stop->load(std::memory_order_relaxed); }));
  runtime->stop();
  return {};
}

}  // namespace troupe::actors
