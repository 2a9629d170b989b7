// Nodes of a run with real links over loopback, each with its own runtime and threads, in one test process: that what
// works within a process works between several, whichever of them dies, sleeps or comes late.
#include <troupe/actors/network/node_network.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <filesystem>
#include <future>
#include <thread>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/network/authorization.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/transport/authority.hpp>
#include <troupe/transport/dial.hpp>
#include <troupe/transport/join.hpp>

#include <troupe/tests/actors/node_options.hpp>
#include <troupe/tests/actors/test_roles.hpp>
#include <troupe/tests/transport/eventually.hpp>
#include <troupe/tests/transport/relay.hpp>

namespace troupe::actors {
namespace {

using testing::factory;
using ::testing::HasSubstr;
using troupe::testing::eventually;

constexpr std::chrono::seconds kPatience{60};  // of what must come
constexpr Duration kDeadAfter = std::chrono::seconds(2);
constexpr std::int64_t kCapacity = 8;  // of the channel

/// What the roles of a test do, seen from outside while they do it.
struct Traffic {
  std::atomic<std::int64_t> to_make = 1'000'000'000;  ///< a sender is done after so many
  std::atomic<std::int64_t> to_take = 1'000'000'000;  ///< and so is the collector
  std::chrono::milliseconds pause{0};                 ///< of the collector before it takes one
  std::array<std::atomic<std::int64_t>, 4> made{};    ///< by the sender of that index
  std::atomic<std::int64_t> taken = 0;
  std::atomic<std::int64_t> most_under_way = 0;  ///< made and not taken
  std::vector<std::int64_t> seen;                ///< versions; the collector's until it is done
};

/// Sends messages that count up: small ones, or parameters of 1 MiB that are filled with their number.
class Sender final : public Role {
 public:
  Sender(std::shared_ptr<Traffic> traffic, std::size_t index, bool large)
      : traffic_(std::move(traffic)), index_(index), large_(large) {}
  Result<Progress> step(RoleContext& context) override {
    if (next_ >= traffic_->to_make) return Progress::kDone;
    if (!context.out("use").ready()) return Progress::kIdle;
    ++traffic_->made[index_];
    if (!large_) {
      TROUPE_ASSIGN(Frame frame, messages::make_parameters_use(context.pool(), {0, next_++, 1}));
      context.out("use").send(std::move(frame));
      return Progress::kMore;
    }
    TROUPE_ASSIGN(auto builder, messages::ParametersBuilder::make(context.pool(), DType::kF32, 1 << 18));
    std::memset(builder.data().data(), static_cast<int>(next_ % 251), builder.data().size());
    context.out("use").send(std::move(builder).finish({next_++, 1, 1, DType::kF32}));
    return Progress::kMore;
  }

 private:
  std::shared_ptr<Traffic> traffic_;
  std::size_t index_;
  bool large_;
  std::int64_t next_ = 0;
};

class Collector final : public Role {
 public:
  Collector(std::shared_ptr<Traffic> traffic, bool large) : traffic_(std::move(traffic)), large_(large) {}
  Result<Progress> step(RoleContext& context) override {
    if (traffic_->taken >= traffic_->to_take) return Progress::kDone;
    if (context.in("use").empty()) return Progress::kIdle;
    std::this_thread::sleep_for(traffic_->pause);
    const std::int64_t under_way = traffic_->made[0] - traffic_->taken;
    traffic_->most_under_way = std::max<std::int64_t>(traffic_->most_under_way, under_way);
    TROUPE_ASSIGN(const std::int64_t version, take(context.in("use").take()));
    traffic_->seen.push_back(version);
    return ++traffic_->taken >= traffic_->to_take ? Progress::kDone : Progress::kMore;
  }

 private:
  /// The number of a message; -1 when its content is not that number's.
  Result<std::int64_t> take(const Frame& frame) const {
    if (!large_) {
      TROUPE_ASSIGN(const auto use, messages::read_parameters_use(frame));
      return use.version;
    }
    TROUPE_ASSIGN(const auto parameters, messages::read_parameters(frame));
    const std::int64_t version = parameters.info().version;
    const bool good = std::ranges::all_of(
        parameters.data(), [&](std::byte byte) { return byte == static_cast<std::byte>(version % 251); });
    return good ? version : -1;
  }

  std::shared_ptr<Traffic> traffic_;
  bool large_;
};

/// A node, on a thread of its own.
class Process {
 public:
  Process(std::unique_ptr<NodeNetwork> network, const Topology& plan, RuntimeOptions options)
      : network_(std::move(network)) {
    running_ = std::async(std::launch::async, [this, plan, options = std::move(options)]() -> Status {
      const auto runtime = Runtime::make(plan, options).value();
      TROUPE_TRY(runtime->run([&] { return leave_.load(); }));
      return {};
    });
  }
  ~Process() { leave(); }
  const transport::Address& address() const { return network_->address(); }
  bool has_ended() { return running_.wait_for(kPatience) == std::future_status::ready; }
  /// How run() ended; waits for it.
  Status ended() { return running_.get(); }
  void leave() { leave_ = true; }
  /// As kill -9, for the others: all connections break at once, and nothing comes any more.
  void die() {
    network_->stop();
    leave();
  }

 private:
  std::unique_ptr<NodeNetwork> network_;
  std::atomic<bool> leave_ = false;
  std::future<Status> running_;  // waited for first
};

class Nodes : public ::testing::Test {
 protected:
  Nodes() : authority(transport::Authority::create("test", std::chrono::system_clock::now()).value()) {}

  Topology topology(bool large = false) {
    RoleSpec sender;
    sender.name = "sender";
    const std::string type = large ? "Parameters" : "ParametersUse";
    sender.outlets = {{"use", type}};
    sender.execution = Execution::kThread;
    sender.make = factory([large, traffic = traffic](const RoleIdentity& who) -> std::unique_ptr<Role> {
      return std::make_unique<Sender>(traffic, static_cast<std::size_t>(who.index), large);
    });
    sender.restart.max_restarts = 5;
    RoleSpec collector;
    collector.name = "collector";
    collector.inlets = {{"use", type}};
    collector.execution = Execution::kThread;
    collector.completes_run = true;
    collector.make = factory([large, traffic = traffic](const RoleIdentity&) -> std::unique_ptr<Role> {
      return std::make_unique<Collector>(traffic, large);
    });
    Topology topology;
    topology.roles = {sender, collector};
    topology.channels = {{"sender", "use", "collector", "use", kCapacity}};
    return topology;
  }

  transport::Credentials credentials(const transport::Identity& identity) {
    return authority.issue(identity, std::chrono::system_clock::now(), std::chrono::hours(1)).value();
  }

  std::unique_ptr<NodeNetwork> network(const transport::Identity& identity, const Topology& topology,
                                       std::optional<transport::Address> chief, std::uint16_t port = 0) {
    NodeNetworkOptions options;
    options.self = identity;
    options.credentials = credentials(identity);
    options.listen = {"127.0.0.1", port};
    options.chief = chief;
    options.topology = &topology;
    options.on_join = on_join;
    return NodeNetwork::make(std::move(options)).value();
  }

  RuntimeOptions runtime(const std::string& name, std::uint64_t birth, NodeNetwork& network,
                         std::vector<std::string> roles) {
    RuntimeOptions options = testing::node_options(network, {"test", std::move(roles), name}, birth,
                                                   {{"chief", {{"collector", {0}}}}, {"worker", {{"sender", {0}}}}});
    options.membership.dead_after = kDeadAfter;
    return options;
  }

  using Change = std::function<void(RuntimeOptions&)>;
  std::unique_ptr<Process> process(const Topology& plan, const std::string& name, const std::vector<std::string>& roles,
                                   std::optional<transport::Address> chief_at, const Change& change = {},
                                   std::uint16_t port = 0) {
    auto made = network({"test", roles, name}, plan, std::move(chief_at), port);
    RuntimeOptions options = runtime(name, ++births, *made, roles);
    if (change) change(options);
    return std::make_unique<Process>(std::move(made), plan, std::move(options));
  }
  transport::Address start_chief(const Topology& plan, const Change& change = {}, std::uint16_t port = 0) {
    chief = process(plan, "chief", {"chief", "collector"}, std::nullopt, change, port);
    return chief->address();
  }

  /// The status as an operator gets it; empty when nobody answers.
  std::string status() {
    const transport::Identity self{"test", {"operator"}, "operator"};
    messages::Control question;
    question.kind = messages::ControlKind::kAskStatus;
    const auto answer = ask_chief(chief->address(), self, credentials(self), question, std::chrono::seconds(5));
    return answer.ok() ? answer->text : "";
  }
  bool eventually_says(const std::string& part) {
    return eventually([&] { return status().find(part) != std::string::npos; }, kPatience);
  }
  /// Some more messages get through.
  bool goes_on() {
    const std::int64_t before = traffic->taken;
    return eventually([&] { return traffic->taken > before + 100; }, kPatience);
  }
  /// Lets the run end and expects that it was a good one.
  void finish() {
    traffic->to_take = traffic->taken + 100;
    ASSERT_TRUE(chief->has_ended());
    const Status ended = chief->ended();
    EXPECT_TRUE(ended.ok()) << ended.error().message;
  }

  void run_two_nodes(std::int64_t limit, bool large) {
    const Topology plan = topology(large);
    traffic->to_make = traffic->to_take = limit;
    const transport::Address at = start_chief(plan);
    const auto worker = process(plan, "worker", {"sender"}, at);
    ASSERT_TRUE(worker->has_ended()) << "the chief ends the run";
    EXPECT_TRUE(worker->ended().ok());
    ASSERT_TRUE(chief->ended().ok());
    ASSERT_EQ(static_cast<std::int64_t>(traffic->seen.size()), limit);
    for (std::int64_t i = 0; i < limit; ++i) EXPECT_EQ(traffic->seen[static_cast<std::size_t>(i)], i);
  }

  transport::Authority authority;
  std::shared_ptr<Traffic> traffic = std::make_shared<Traffic>();
  std::unique_ptr<Process> chief;
  std::uint64_t births = 0;
  std::function<void(std::unique_ptr<transport::Link>)> on_join;
};

TEST_F(Nodes, AStreamBetweenTwoNodesDeliversEverythingOnceAndInOrder) { run_two_nodes(2000, false); }

TEST_F(Nodes, LargeFramesArriveWhole) { run_two_nodes(200, true); }

TEST_F(Nodes, AnOperatorAsksForTheStatusAndForTheEnd) {
  const Topology plan = topology();
  const transport::Address at = start_chief(plan);
  EXPECT_THAT(status(), HasSubstr(R"("name":"worker","state":"expected")"));
  const transport::Identity self{"test", {"operator"}, "operator"};
  messages::Control end;
  end.kind = messages::ControlKind::kEnd;
  EXPECT_TRUE(ask_chief(at, self, credentials(self), end, std::chrono::seconds(5)).ok());
  ASSERT_TRUE(chief->has_ended());
  EXPECT_TRUE(chief->ended().ok());
}

TEST_F(Nodes, ASlowConsumerBoundsWhatIsUnderWay) {
  traffic->pause = std::chrono::milliseconds(5);
  run_two_nodes(100, true);
  EXPECT_LE(traffic->most_under_way, kCapacity + 1) << "the channel's capacity, and the one in the sender's hands";
  EXPECT_GE(traffic->most_under_way, kCapacity / 2) << "the sender was never held back: this tests nothing";
}

TEST_F(Nodes, ANodeThatIsKilledIsReplacedByItsNextProcess) {
  const Topology plan = topology();
  const transport::Address at = start_chief(plan);
  auto worker = process(plan, "worker", {"sender"}, at);
  ASSERT_TRUE(goes_on());
  worker->die();
  const auto next = process(plan, "worker", {"sender"}, at);  // at another port
  EXPECT_TRUE(eventually_says(R"("name":"worker","state":"up","incarnation":2)")) << status();
  worker.reset();
  EXPECT_TRUE(goes_on());
  finish();
}

TEST_F(Nodes, ANodeThatLosesADeviceEndsWithThatErrorAndItsNextProcessGoesOn) {
  Topology plan = topology();
  plan.roles[0].make = [sender = plan.roles[0].make](const RoleIdentity& who) -> Result<std::unique_ptr<Role>> {
    if (who.incarnation == 0) return Error{Code::kLost, "the GPU is gone"};
    return sender(who);
  };
  const transport::Address at = start_chief(plan);
  const auto worker = process(plan, "worker", {"sender"}, at);
  ASSERT_TRUE(worker->has_ended());
  const Status ended = worker->ended();
  EXPECT_EQ(ended.error().code, Code::kLost);
  EXPECT_EQ(ended.error().message, "sender: the GPU is gone");
  const auto next = process(plan, "worker", {"sender"}, at);
  EXPECT_TRUE(goes_on());
  finish();
}

TEST_F(Nodes, AChiefIsReplacedFromItsJournalWhileAStreamGoesOn) {
  const Topology plan = topology();
  const std::string journal = ::testing::TempDir() + "/chief_" + std::to_string(getpid()) + ".json";
  std::filesystem::remove(journal);
  const auto elsewhere = [&](RuntimeOptions& options) {
    options.chief.journal = journal_in(journal);
    options.chief.placement = {{"chief", {}}, {"taker", {{"collector", {0}}}}, {"worker", {{"sender", {0}}}}};
  };
  const transport::Address at = start_chief(plan, elsewhere);
  const auto taker = process(plan, "taker", {"collector"}, at);
  const auto worker = process(plan, "worker", {"sender"}, at);
  ASSERT_TRUE(goes_on());
  const std::string kept = journal + ".kept";
  std::filesystem::copy_file(journal, kept, std::filesystem::copy_options::overwrite_existing);
  chief->die();
  chief.reset();
  // It ended in good order, and said so in its journal, which one that is killed does not.
  std::filesystem::rename(kept, journal);
  EXPECT_TRUE(goes_on()) << "nobody needs the chief for that";
  start_chief(plan, elsewhere, at.port);
  EXPECT_TRUE(eventually_says(R"("term":2)"));
  EXPECT_TRUE(eventually_says(R"("name":"taker","state":"up","incarnation":1)")) << status();
  EXPECT_TRUE(eventually_says(R"("name":"worker","state":"up","incarnation":1)")) << status();
  EXPECT_TRUE(goes_on());
  finish();
  for (std::size_t i = 0; i < traffic->seen.size(); ++i) {
    ASSERT_EQ(traffic->seen[i], static_cast<std::int64_t>(i)) << "nothing was lost, repeated or begun again";
  }
  std::filesystem::remove(journal);
}

TEST_F(Nodes, ANodeWhoseChiefIsReplacedBeforeItCouldConfirmTheJoinKeepsItsIncarnation) {
  // The first chief goes as soon as data flows: what the worker said when it joined is not acknowledged yet.
  for (int round = 0; round < 5; ++round) {
    SCOPED_TRACE(round);
    traffic = std::make_shared<Traffic>();
    const Topology fresh = topology();
    const std::string journal = ::testing::TempDir() + "/early_" + std::to_string(getpid()) + ".json";
    std::filesystem::remove(journal);
    const auto elsewhere = [&](RuntimeOptions& options) {
      options.chief.journal = journal_in(journal);
      options.chief.placement = {{"chief", {}}, {"taker", {{"collector", {0}}}}, {"worker", {{"sender", {0}}}}};
    };
    const transport::Address at = start_chief(fresh, elsewhere);
    const auto taker = process(fresh, "taker", {"collector"}, at);
    const auto worker = process(fresh, "worker", {"sender"}, at);
    while (traffic->taken == 0) std::this_thread::yield();
    const std::string kept = journal + ".kept";
    std::filesystem::copy_file(journal, kept, std::filesystem::copy_options::overwrite_existing);
    chief->die();
    chief.reset();
    std::filesystem::rename(kept, journal);
    start_chief(fresh, elsewhere, at.port);
    EXPECT_TRUE(eventually_says(R"("name":"worker","state":"up","incarnation":1)")) << status();
    EXPECT_TRUE(eventually_says(R"("name":"taker","state":"up","incarnation":1)")) << status();
    ASSERT_TRUE(goes_on());
    finish();
    chief.reset();
    std::filesystem::remove(journal);
  }
}

TEST_F(Nodes, BearersOfTokensWhoSayNothingOrStopInTheMiddleHoldUpNobody) {
  on_join = [](std::unique_ptr<transport::Link> link) { (void)link->receive(std::chrono::milliseconds(500)); };
  const Topology plan = topology();
  const transport::Address at = start_chief(plan);
  auto worker = process(plan, "worker", {"sender"}, at);
  ASSERT_TRUE(goes_on());
  const transport::Credentials theirs = credentials({"test", {"join"}, "token-1"});
  std::atomic<int> came = 0;
  const std::jthread loop([&](const std::stop_token& stop) {
    std::deque<std::unique_ptr<transport::Link>> open;
    for (; !stop.stop_requested(); ++came) {
      const auto socket = transport::dial(at, std::chrono::seconds(5), stop);
      if (!socket.ok()) continue;
      const auto any = [](const transport::Identity&) -> Status { return {}; };
      auto link = transport::Link::open(*socket, theirs, {.admit = any, .stop = stop});
      if (!link.ok()) continue;
      // The header of a frame that does not come.
      const std::array<std::byte, 3> some{};
      if (came % 2 == 0) (void)!::write((*link)->socket(), some.data(), some.size());
      open.push_back(std::move(*link));
      if (open.size() > 100) open.pop_front();
    }
  });
  ASSERT_TRUE(eventually([&] { return came > 100; }, kPatience));
  for (int i = 0; i < 5; ++i) EXPECT_NE(status(), "") << "an operator is answered within his five seconds";
  worker->die();
  const auto next = process(plan, "worker", {"sender"}, at);
  EXPECT_TRUE(eventually_says(R"("name":"worker","state":"up","incarnation":2)")) << status();
  worker.reset();
  EXPECT_TRUE(goes_on());
  finish();
}

TEST_F(Nodes, NodesJoinAndLeaveWhileTheRunGoesOn) {
  Topology plan = topology();
  std::ranges::find(plan.roles, "sender", &RoleSpec::name)->elastic = true;
  const transport::Address at = start_chief(plan);
  const auto worker = process(plan, "worker", {"sender"}, at);
  ASSERT_TRUE(goes_on());
  const auto extra = process(plan, "extra", {"sender"}, at);
  EXPECT_TRUE(eventually([&] { return traffic->made[1] > 10 * kCapacity; }, kPatience)) << "its messages are taken";
  extra->leave();
  ASSERT_TRUE(extra->has_ended());
  EXPECT_TRUE(extra->ended().ok());
  EXPECT_TRUE(eventually_says(R"("name":"extra","state":"left")")) << status();
  EXPECT_TRUE(goes_on());
  const auto other = process(plan, "taker", {"collector"}, at);
  ASSERT_TRUE(other->has_ended());
  EXPECT_THAT(other->ended().error().message, HasSubstr("TRP-E163")) << "only the elastic role is";
  finish();
}

TEST_F(Nodes, ANodeWithAnotherConfigurationIsRefused) {
  const Topology plan = topology();
  const transport::Address at = start_chief(plan);
  const auto other =
      process(plan, "worker", {"sender"}, at, [](RuntimeOptions& options) { options.node.config_hash = 7; });
  ASSERT_TRUE(other->has_ended());
  const Status ended = other->ended();
  EXPECT_EQ(ended.error().code, Code::kInvalidArgument);
  EXPECT_THAT(ended.error().message, HasSubstr("TRP-E162 node worker has another configuration than the run"));
  const auto worker = process(plan, "worker", {"sender"}, at);
  EXPECT_TRUE(goes_on());
  finish();
}

TEST_F(Nodes, ANodeThatNapsGoesOnAndOneThatSleepsTooLongMustEnd) {
  const Topology plan = topology();
  const transport::Address at = start_chief(plan);
  transport::testing::Relay to_chief(at);
  std::unique_ptr<transport::testing::Relay> to_worker;
  const auto worker = process(plan, "worker", {"sender"}, to_chief.address(), [&](RuntimeOptions& options) {
    messages::ControlNode& at = options.node.address;
    to_worker = std::make_unique<transport::testing::Relay>(transport::Address{at.host, at.port});
    at.port = to_worker->address().port;
  });
  ASSERT_TRUE(goes_on());
  const auto sleep = [&](Duration duration) {
    to_chief.sleep(true);
    to_worker->sleep(true);
    std::this_thread::sleep_for(duration);
    to_chief.sleep(false);
    to_worker->sleep(false);
  };
  constexpr Duration kNap = std::chrono::milliseconds(300);
  sleep(kNap);
  EXPECT_TRUE(goes_on());
  EXPECT_THAT(status(), HasSubstr(R"("name":"worker","state":"up","incarnation":1)"));
  sleep(kDeadAfter + 2 * kNap + std::chrono::seconds(1));  // whoever was late once is given twice as much more
  ASSERT_TRUE(worker->has_ended());
  const Status ended = worker->ended();
  EXPECT_EQ(ended.error().code, Code::kCancelled);
  EXPECT_THAT(ended.error().message, HasSubstr("TRP-F111 this process was declared dead"));
  const auto next = process(plan, "worker", {"sender"}, at);
  EXPECT_TRUE(eventually_says(R"("name":"worker","state":"up","incarnation":2)")) << status();
  finish();
}

}  // namespace
}  // namespace troupe::actors
