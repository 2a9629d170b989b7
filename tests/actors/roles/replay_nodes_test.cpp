// Replay on a node of its own that dies again and again, with real links and its journal: what producers on two other
// nodes insert is there once, neither lost nor doubled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <numeric>
#include <set>
#include <thread>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/network/node_network.hpp>
#include <troupe/actors/roles/replay_actor.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/messages/trajectory.hpp>
#include <troupe/tests/actors/node_options.hpp>
#include <troupe/transport/authority.hpp>

namespace troupe::actors {
namespace {

const Signature kSignature{{"value", DType::kI64, {}}};
constexpr std::int64_t kProducers = 2;
constexpr std::int64_t kTrajectories = 1500;  // of each
constexpr std::int64_t kRows = 4;
constexpr std::int64_t kAll = kProducers * kTrajectories * kRows;
constexpr std::int64_t kDeaths = 4;

/// What the roles, whichever node they are on, and the test share.
struct Shared {
  std::atomic<std::int64_t> items = 0;  ///< of the table, as a batch said last
  std::atomic<std::int64_t> deaths = 0;
  std::atomic<bool> complete = false;
  /// Nothing of a role that died is closed, written or synced any more.
  std::vector<std::unique_ptr<Role>> dead;
};

/// Sends trajectories of rows that nobody else sends.
class Producer final : public Role {
 public:
  explicit Producer(const RoleIdentity& identity) : identity_(identity) {}
  Result<Progress> step(RoleContext& context) override {
    if (next_ == kTrajectories || !context.out("trajectories").ready()) return Progress::kIdle;
    TROUPE_ASSIGN(auto builder, messages::TrajectoryBuilder::make(
                                    context.pool(), {std::make_shared<const Signature>(kSignature), kRows, false}));
    const std::int64_t first = (identity_.index * kTrajectories + next_) * kRows;
    const auto values = builder.rows().as<std::int64_t>(0);
    std::iota(values.begin(), values.end(), first);
    context.out("trajectories")
        .send(std::move(builder).finish({.producer = static_cast<std::uint32_t>(identity_.index),
                                         .incarnation = static_cast<std::uint32_t>(identity_.incarnation),
                                         .sequence = static_cast<std::uint64_t>(next_++)},
                                        kRows));
    return Progress::kMore;
  }

 private:
  const RoleIdentity identity_;
  std::int64_t next_ = 0;
};

/// Replay, which dies each time that another part of the rows has come.
class Mortal final : public Role {
 public:
  Mortal(std::unique_ptr<Role> role, std::shared_ptr<Shared> shared)
      : role_(std::move(role)), shared_(std::move(shared)) {}
  Result<Progress> step(RoleContext& context) override {
    const std::int64_t deaths = shared_->deaths;
    if (deaths < kDeaths && shared_->items >= kAll * (deaths + 1) / (kDeaths + 1)) {
      ++shared_->deaths;
      shared_->dead.push_back(std::move(role_));
      return Error{Code::kInternal, "killed by the test"};
    }
    return role_->step(context);
  }
  void report(Report& report) const override { role_->report(report); }
  Result<RoleState> save() const override { return role_->save(); }
  Status restore(const RoleState& state) override { return role_->restore(state); }

 private:
  std::unique_ptr<Role> role_;
  const std::shared_ptr<Shared> shared_;
};

class Consumer final : public Role {
 public:
  explicit Consumer(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  Result<Progress> step(RoleContext& context) override {
    while (!context.in("batches").empty()) {
      TROUPE_ASSIGN(const auto batch, messages::read_batch(context.in("batches").take()));
      shared_->items = batch.info().table_items;
    }
    return shared_->items >= kAll ? Progress::kDone : Progress::kIdle;
  }

 private:
  const std::shared_ptr<Shared> shared_;
};

class ReplayNodes : public ::testing::TestWithParam<const char*> {
 protected:
  ReplayNodes() : authority(transport::Authority::create("test", std::chrono::system_clock::now()).value()) {
    directory = std::filesystem::path(::testing::TempDir()) / ("replay_nodes_test_" + std::to_string(getpid()));
    std::filesystem::remove_all(directory);
  }
  ~ReplayNodes() override {
    shared->dead.clear();
    std::filesystem::remove_all(directory);
  }

  template <typename R>
  static RoleFactory make(std::shared_ptr<Shared> shared) {
    return [shared](const RoleIdentity&) -> Result<std::unique_ptr<Role>> { return {std::make_unique<R>(shared)}; };
  }

  Topology topology() const {
    RoleSpec producer;
    producer.name = "actor";
    producer.count = kProducers;
    producer.outlets = {{"trajectories", "Trajectory"}};
    producer.make = [](const RoleIdentity& id) -> Result<std::unique_ptr<Role>> {
      return {std::make_unique<Producer>(id)};
    };
    ReplayActorOptions options;
    options.table.signature = kSignature;
    options.table.max_items = 2 * kAll;
    options.batch = 1;
    options.journal.durability = GetParam();
    RoleSpec replay = ReplayActor::spec("replay", 1, options);
    replay.make = [inner = replay.make, shared = shared](const RoleIdentity& id) -> Result<std::unique_ptr<Role>> {
      TROUPE_ASSIGN(auto role, inner(id));
      return {std::make_unique<Mortal>(std::move(role), shared)};
    };
    replay.restart.max_restarts = kDeaths;
    replay.restart.first_backoff = std::chrono::milliseconds(20);
    replay.restart.max_backoff = std::chrono::milliseconds(20);
    RoleSpec learner;
    learner.name = "learner";
    learner.inlets = {{"batches", "Batch"}};
    learner.outlets = {{"priorities", "Priorities"}};
    learner.completes_run = true;
    learner.make = make<Consumer>(shared);
    Topology topology;
    topology.roles = {producer, replay, learner};
    topology.channels = {{"actor", "trajectories", "replay", "trajectories", 16},
                         {"replay", "batches", "learner", "batches", 4},
                         {"learner", "priorities", "replay", "priorities", 4}};
    return topology;
  }

  std::unique_ptr<NodeNetwork> network(const std::string& node, std::vector<std::string> roles,
                                       const Topology& topology, std::optional<transport::Address> chief) {
    NodeNetworkOptions options;
    options.self = {"test", std::move(roles), node};
    options.credentials =
        authority.issue(options.self, std::chrono::system_clock::now(), std::chrono::hours(1)).value();
    options.listen = {"127.0.0.1", 0};
    options.chief = chief;
    options.topology = &topology;
    return NodeNetwork::make(std::move(options)).value();
  }
  RuntimeOptions runtime(const std::string& name, NodeNetwork& network, std::vector<std::string> roles) {
    RuntimeOptions options =
        testing::node_options(network, {"test", std::move(roles), name}, std::hash<std::string>{}(name),
                              {{"chief", {{"learner", {0}}}},
                               {"replay", {{"replay", {0}}}},
                               {"actors-0", {{"actor", {0}}}},
                               {"actors-1", {{"actor", {1}}}}});
    options.node.directory = directory / name;
    return options;
  }

  std::filesystem::path directory;
  transport::Authority authority;
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
};

TEST_P(ReplayNodes, WhatIsInsertedSurvivesItsDeathsOnce) {
  const Topology plan = topology();
  const auto chief_network = network("chief", {"chief", "learner"}, plan, std::nullopt);
  auto chief = Runtime::make(plan, runtime("chief", *chief_network, {"chief", "learner"})).value();
  std::atomic<bool> give_up = false;
  auto start = [&](const std::string& name, const std::string& role) {
    return std::async(std::launch::async, [&, name, role] {
      const auto own = network(name, {role}, plan, chief_network->address());
      return Runtime::make(plan, runtime(name, *own, {role})).value()->run([&] { return give_up.load(); }).ok();
    });
  };
  std::vector<std::future<bool>> nodes;
  nodes.push_back(start("replay", "replay"));
  nodes.push_back(start("actors-0", "actor"));
  nodes.push_back(start("actors-1", "actor"));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto ended = chief->run([&] { return std::chrono::steady_clock::now() > deadline; });
  chief->stop();
  give_up = true;
  for (auto& node : nodes) EXPECT_TRUE(node.get());
  ASSERT_TRUE(ended.ok()) << ended.error().message;
  EXPECT_EQ(*ended, Runtime::Ended::kComplete) << shared->items << " items of " << kAll;
  EXPECT_EQ(shared->deaths, kDeaths);
  EXPECT_EQ(shared->items, kAll);

  std::vector<std::int64_t> values;
  const auto folder = (directory / "replay" / "replay" / "journal").string();
  const replay::JournalOptions options{.owner = "replay", .signature = kSignature};
  const auto read = replay::Journal::recover(replay::open_journal_folder(folder).value(), options, {},
                                             [&](replay::Key, const replay::JournalRecord& record) -> Status {
                                               const auto column = record.rows.as<std::int64_t>(0);
                                               values.insert(values.end(), column.begin(), column.end());
                                               return {};
                                             });
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(static_cast<std::int64_t>(values.size()), kAll);
  const std::set<std::int64_t> different(values.begin(), values.end());
  EXPECT_EQ(static_cast<std::int64_t>(different.size()), kAll) << "each row once";
}

INSTANTIATE_TEST_SUITE_P(, ReplayNodes, ::testing::Values("relaxed", "durable"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace troupe::actors
