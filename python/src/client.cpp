// troupe._core.ReplayClient: this process as a node of a run, for its replay alone.
#include <fmt/format.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include <troupe/actors/roles/replay_client.hpp>
#include <troupe/apps/cluster/environment.hpp>
#include <troupe/apps/cluster/node_place.hpp>
#include <troupe/core/log.hpp>
#include <troupe/run/agent_topology.hpp>
#include <troupe/run/node.hpp>
#include <troupe/run/registry.hpp>
#include <troupe/run/train_schema.hpp>

#include "binding.hpp"
#include "message.hpp"
#include "program.hpp"

using namespace nanobind::literals;

namespace troupe::python {
namespace {

using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Keys = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

constexpr Duration kSignalSlice = std::chrono::milliseconds(100);

/// Whose replay `what` is: an agent's name, or empty for the only one with clients.
Result<actors::AgentOptions*> agent_of(actors::TrainOptions& options, const std::string& what) {
  actors::AgentOptions* found = nullptr;
  for (actors::AgentOptions& agent : options.agents) {
    if (!agent.replay.external || (!what.empty() && agent.name != what)) continue;
    if (found != nullptr) return Error{Code::kInvalidArgument, "several agents of the run have clients: say `what`"};
    found = &agent;
  }
  if (found != nullptr) return found;
  return Error{Code::kInvalidArgument, what.empty() ? "the run takes no clients: replay.external is false"
                                                    : "the run has no agent \"" + what + "\" that takes clients"};
}

class Client {
 private:
  template <typename F>
  static auto without_lock(F work) {
    const nb::gil_scoped_release others_run;
    return work();
  }

  static void or_raise_timeout(const char* what, const Status& status) {
    if (status.ok() || status.error().code != Code::kDeadlineExceeded) return or_raise(status);
    PyErr_SetString(PyExc_TimeoutError, (std::string(what) + ": " + status.error().message).c_str());
    throw nb::python_error();
  }

 public:
  Client(const std::string& config_file, const std::string& token, const std::string& run, const std::string& directory,
         const std::string& name, const std::string& host, const std::string& what, double timeout_s,
         nb::handle program) {
    const Registry registry = registry_of(program);
    const Config config = value_or_raise(load_config(config_file, {}, apps::train_schema(registry)));
    options_ = value_or_raise(apps::to_train_options(config, registry));
    if (options_.deterministic) {
      raise({Code::kInvalidArgument, "the run is deterministic and takes in only the nodes that it was planned with"});
    }
    actors::AgentOptions& agent = *value_or_raise(agent_of(options_, what));
    signature_ = value_or_raise(actors::make_agent(agent)).item;
    shards_ = static_cast<std::size_t>(agent.replay.shards);
    durability_ = agent.replay.durability;
    client_ = std::make_unique<actors::ReplayClient>(shards_);
    agent.make_external = client_->factory();
    const apps::Joining joining{.token = token,
                                .directory = run,
                                .name = name,
                                .role = actors::role_of(agent, actors::kExternalRole),
                                .listen = {host, 0}};
    // Trading the token takes a moment, and what is heard of the node meanwhile is for its own log.
    const nb::gil_scoped_release others_run;
    log::set_level(log::Level::kWarn);
    auto place = apps::join_run(joining, {directory});
    if (!place.ok()) {
      const nb::gil_scoped_acquire again;
      raise(place.error());
    }
    place_ = std::move(place).value();
    std::string& listen = place_.network.listen.host;
    if (host.empty()) {
      const std::string& chief = place_.network.chief->host;
      listen =
          chief.starts_with("127.") || chief == "localhost" ? "127.0.0.1" : apps::process_environment()["HOSTNAME"];
    }
    place_.advertised_host = listen;
    place_.runtime.node.config_hash = std::strtoull(config.hash().c_str(), nullptr, 16);
    node_ = std::thread([this] {
      const Status over = actors::run_node(options_, place_, &stop_);
      client_->close(over.ok() ? Error{Code::kUnavailable, "the run has ended"} : over.error());
    });
    // In slices, between which Ctrl-C is heard.
    const auto deadline = std::chrono::steady_clock::now() + from_seconds(timeout_s);
    bool interrupted = false;
    Status taken_in;
    do {
      const Duration left = std::max<Duration>(deadline - std::chrono::steady_clock::now(), Duration::zero());
      taken_in = client_->ready(std::min(left, kSignalSlice));
      if (taken_in.ok()) return;
      const nb::gil_scoped_acquire again;
      interrupted = PyErr_CheckSignals() != 0;
    } while (!interrupted && taken_in.error().code == Code::kDeadlineExceeded &&
             std::chrono::steady_clock::now() < deadline);
    stop_ = true;
    node_.join();  // as nobody ends what was never made
    const nb::gil_scoped_acquire again;
    if (interrupted) throw nb::python_error();
    if (taken_in.error().code == Code::kDeadlineExceeded) {
      taken_in = Error{Code::kDeadlineExceeded,
                       fmt::format("the run did not take this client in within {:g} s; where it was refused, as one "
                                   "whose name another client has, a line on standard error says so",
                                   timeout_s)};
    }
    or_raise_timeout("ReplayClient", taken_in);
  }
  ~Client() { close(); }

  void close() {
    const nb::gil_scoped_release others_run;
    stop_ = true;
    if (node_.joinable()) node_.join();
  }

  std::vector<Column> columns() const {
    std::vector<Column> columns;
    for (const TensorSpec& column : signature_) columns.push_back(column_of(column));
    return columns;
  }

  void insert(const std::vector<Rows>& columns, std::int64_t rows, const std::optional<Doubles>& priorities,
              std::int64_t env_steps, double timeout_s) {
    BatchView batch{.signature = &signature_, .rows = rows, .columns = {}};
    for (const Rows& column : columns) {
      batch.columns.emplace_back(static_cast<const std::byte*>(column.data()), column.nbytes());
    }
    std::span<const double> given;
    if (priorities) given = {priorities->data(), priorities->size()};
    or_raise_timeout("insert",
                     without_lock([&] { return client_->insert(batch, given, env_steps, from_seconds(timeout_s)); }));
  }

  /// As Table::sample() has it. Keys have the shard in their highest byte.
  nb::tuple sample(std::int64_t rows, double timeout_s) {
    auto drawn = without_lock([&] { return client_->sample(rows, from_seconds(timeout_s)); });
    if (!drawn.ok()) or_raise_timeout("sample", drawn.error());
    const messages::SampledBatchView& batch = drawn->batch;
    const auto [keys, key] = array<std::uint64_t>(batch.rows().keys.size());
    for (std::size_t i = 0; i < batch.rows().keys.size(); ++i) {
      key[i] = batch.rows().keys[i] | std::uint64_t{drawn->shard} << kShardShift;
    }
    return nb::make_tuple(dict_of_columns(batch.columns()).values(), keys, copied(batch.rows().probabilities),
                          copied(batch.rows().priorities), copied(batch.rows().times_sampled),
                          batch.info().table_items);
  }

  nb::dict info(double timeout_s) {
    const auto told = without_lock([&] { return client_->info(from_seconds(timeout_s)); });
    if (!told.ok()) or_raise_timeout("info", told.error());
    return dict_of(*told);
  }

  void update_priorities(const Keys& keys, const Doubles& priorities, double timeout_s) {
    if (keys.size() != priorities.size()) {
      raise({Code::kShapeMismatch, "update_priorities: " + std::to_string(priorities.size()) + " priorities for " +
                                       std::to_string(keys.size()) + " keys"});
    }
    std::vector<messages::PriorityUpdate> updates(shards_);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto [shard, key] = place_of("update_priorities", keys.data()[i]);
      updates[shard].keys.push_back(key);
      updates[shard].priorities.push_back(priorities.data()[i]);
    }
    send("update_priorities", std::move(updates), timeout_s);
  }

  void erase(const Keys& keys, double timeout_s) {
    check_deletable("delete");
    std::vector<messages::PriorityUpdate> updates(shards_);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto [shard, key] = place_of("delete", keys.data()[i]);
      updates[shard].deletes.push_back(key);
    }
    send("delete", std::move(updates), timeout_s);
  }

  void reset(double timeout_s) {
    check_deletable("reset");
    std::vector<messages::PriorityUpdate> updates(shards_);
    for (messages::PriorityUpdate& update : updates) update.reset = true;
    send("reset", std::move(updates), timeout_s);
  }

 private:
  static constexpr int kShardShift = 56;

  /// Shard, and key within it, of a sampled row.
  std::pair<std::size_t, std::uint64_t> place_of(const char* what, std::uint64_t key) const {
    const std::size_t shard = key >> kShardShift;
    if (shard >= shards_) {
      raise({Code::kInvalidArgument, std::string(what) + ": key " + std::to_string(key) + " is of no batch"});
    }
    return {shard, key & ((std::uint64_t{1} << kShardShift) - 1)};
  }

  /// Replay would refuse it in its own log alone.
  void check_deletable(const char* what) const {
    if (durability_ == "off") return;
    raise({Code::kInvalidArgument, std::string(what) + ": replay.durability is \"" + durability_ +
                                       "\", and a journal has no record of items that are deleted: expected \"off\""});
  }

  /// Those that say anything, by shard.
  void send(const char* what, std::vector<messages::PriorityUpdate> updates, double timeout_s) {
    for (std::size_t shard = 0; shard < shards_; ++shard) {
      messages::PriorityUpdate& update = updates[shard];
      if (update.keys.empty() && update.deletes.empty() && !update.reset) continue;
      or_raise_timeout(what, without_lock([&] {
                         return client_->update_priorities(shard, std::move(update), from_seconds(timeout_s));
                       }));
    }
  }

  actors::TrainOptions options_;
  Signature signature_;
  std::size_t shards_ = 1;
  std::string durability_;
  std::unique_ptr<actors::ReplayClient> client_;
  actors::NodePlace place_;
  std::atomic<bool> stop_{false};
  std::thread node_;
};

}  // namespace

void bind_client(nb::module_& m) {
  nb::class_<Client>(m, "ReplayClient",
                     "A node of a run, for its replay; troupe.ReplayClient is what users have of it.")
      .def(nb::init<const std::string&, const std::string&, const std::string&, const std::string&, const std::string&,
                    const std::string&, const std::string&, double, nb::handle>(),
           "config"_a, "token"_a, "run"_a, "directory"_a, "name"_a, "host"_a, "what"_a, "timeout"_a, "program"_a.none(),
           "Returns when the run has taken this node in. Raises TroupeError, or TimeoutError.")
      .def_prop_ro("columns", &Client::columns, "Of an item: name, type, shape.")
      .def("insert", &Client::insert, "columns"_a, "rows"_a, "priorities"_a.none(), "env_steps"_a, "timeout"_a,
           "Sends rows when there is room. Without Python's lock. Raises TroupeError, or TimeoutError.")
      .def("sample", &Client::sample, "rows"_a, "timeout"_a,
           "A list of the columns, keys, probabilities, priorities, times sampled, and how many items the shard had. "
           "Without Python's lock. Raises as insert().")
      .def("info", &Client::info, "timeout"_a, "As Table's, of all shards together. Raises as insert().")
      .def("update_priorities", &Client::update_priorities, "keys"_a, "priorities"_a, "timeout"_a,
           "Sends them when there is room. Raises as insert().")
      .def("erase", &Client::erase, "keys"_a, "timeout"_a, "As update_priorities().")
      .def("reset", &Client::reset, "timeout"_a, "As update_priorities().")
      .def("close", &Client::close, "Leaves the run.");
}

}  // namespace troupe::python
