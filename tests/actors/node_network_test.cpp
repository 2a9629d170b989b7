// Two nodes of a run with real links over loopback, each with its own runtime and threads, in one test process: that
// what works within a process works between two, and that what a node may not do is refused.
#include <troupe/actors/node_network.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include <troupe/actors/authorization.hpp>
#include <troupe/actors/runtime.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/transport/authority.hpp>
#include <troupe/transport/join.hpp>

#include <troupe/tests/actors/test_roles.hpp>

namespace troupe::actors {
namespace {

using testing::factory;
using ::testing::HasSubstr;

/// Sends messages that count up; done after `limit`.
class UseSender final : public Role {
 public:
  explicit UseSender(std::int64_t limit) : limit_(limit) {}
  Result<Progress> step(RoleContext& context) override {
    if (next_ == limit_) return Progress::kDone;
    if (!context.out("use").ready()) return Progress::kIdle;
    TROUPE_ASSIGN(Frame frame, messages::make_parameters_use(context.pool(), {0, next_++, 1}));
    context.out("use").send(std::move(frame));
    return Progress::kMore;
  }

 private:
  std::int64_t limit_;
  std::int64_t next_ = 0;
};

class UseCollector final : public Role {
 public:
  UseCollector(std::int64_t limit, std::shared_ptr<std::vector<std::int64_t>> seen)
      : limit_(limit), seen_(std::move(seen)) {}
  Result<Progress> step(RoleContext& context) override {
    while (!context.in("use").empty()) {
      TROUPE_ASSIGN(const auto use, messages::read_parameters_use(context.in("use").take()));
      seen_->push_back(use.version);
    }
    return static_cast<std::int64_t>(seen_->size()) == limit_ ? Progress::kDone : Progress::kIdle;
  }

 private:
  std::int64_t limit_;
  std::shared_ptr<std::vector<std::int64_t>> seen_;
};

/// Sends large parameters and waits for none; the other end checks their content.
class ParametersSender final : public Role {
 public:
  explicit ParametersSender(std::int64_t limit) : limit_(limit) {}
  Result<Progress> step(RoleContext& context) override {
    if (next_ == limit_) return Progress::kDone;
    if (!context.out("use").ready()) return Progress::kIdle;
    TROUPE_ASSIGN(auto builder, messages::ParametersBuilder::make(context.pool(), DType::kF32, 1 << 18));
    std::memset(builder.data().data(), static_cast<int>(next_ % 251), builder.data().size());
    context.out("use").send(std::move(builder).finish({next_++, 1, 1, DType::kF32}));
    return Progress::kMore;
  }

 private:
  std::int64_t limit_;
  std::int64_t next_ = 0;
};

class ParametersCollector final : public Role {
 public:
  ParametersCollector(std::int64_t limit, std::shared_ptr<std::vector<std::int64_t>> seen)
      : limit_(limit), seen_(std::move(seen)) {}
  Result<Progress> step(RoleContext& context) override {
    while (!context.in("use").empty()) {
      TROUPE_ASSIGN(const auto parameters, messages::read_parameters(context.in("use").take()));
      const std::int64_t version = parameters.info().version;
      const bool good = std::all_of(parameters.data().begin(), parameters.data().end(),
                                    [&](std::byte byte) { return byte == static_cast<std::byte>(version % 251); });
      seen_->push_back(good ? version : -1);
    }
    return static_cast<std::int64_t>(seen_->size()) == limit_ ? Progress::kDone : Progress::kIdle;
  }

 private:
  std::int64_t limit_;
  std::shared_ptr<std::vector<std::int64_t>> seen_;
};

class Nodes : public ::testing::Test {
 protected:
  Nodes() : authority(transport::Authority::create("test", std::chrono::system_clock::now()).value()) {}

  Topology topology(std::int64_t limit, bool large) {
    RoleSpec sender;
    sender.name = "sender";
    const std::string type = large ? "Parameters" : "ParametersUse";
    sender.outlets = {{"use", type}};
    sender.make = factory([limit, large](const RoleIdentity&) -> std::unique_ptr<Role> {
      if (large) return std::make_unique<ParametersSender>(limit);
      return std::make_unique<UseSender>(limit);
    });
    sender.restart.max_restarts = 5;
    RoleSpec collector;
    collector.name = "collector";
    collector.inlets = {{"use", type}};
    collector.completes_run = true;
    collector.make = factory([limit, large, seen = seen](const RoleIdentity&) -> std::unique_ptr<Role> {
      if (large) return std::make_unique<ParametersCollector>(limit, seen);
      return std::make_unique<UseCollector>(limit, seen);
    });
    Topology topology;
    topology.roles = {sender, collector};
    topology.channels = {{"sender", "use", "collector", "use", 8}};
    return topology;
  }

  transport::Credentials credentials(const transport::Identity& identity) {
    return authority.issue(identity, std::chrono::system_clock::now(), std::chrono::hours(1)).value();
  }

  std::unique_ptr<NodeNetwork> network(const transport::Identity& identity, const Topology& topology,
                                       std::optional<transport::Address> chief) {
    NodeNetworkOptions options;
    options.self = identity;
    options.credentials = credentials(identity);
    options.listen = {"127.0.0.1", 0};
    options.chief = chief;
    options.topology = &topology;
    return NodeNetwork::make(std::move(options)).value();
  }

  RuntimeOptions runtime(const std::string& name, std::uint64_t birth, NodeNetwork& network,
                         std::vector<std::string> roles) {
    RuntimeOptions options;
    NodeOptions node;
    node.name = name;
    node.network = &network;
    node.birth = birth;
    node.address = {name, 0, network.address().host, network.address().port};
    node.roles = std::move(roles);
    node.run = "test";
    node.placement = {{"chief", {{"collector", {0}}}}, {"worker", {{"sender", {0}}}}};
    options.node = std::move(node);
    return options;
  }

  void run_two_nodes(std::int64_t limit, bool large) {
    const Topology plan = topology(limit, large);
    const auto chief_network = network({"test", {"chief", "collector"}, "chief"}, plan, std::nullopt);
    const auto node_network = network({"test", {"sender"}, "worker"}, plan, chief_network->address());
    auto chief = Runtime::make(plan, runtime("chief", 1, *chief_network, {"chief", "collector"})).value();
    auto worker = std::async(std::launch::async, [&] {
      auto node = Runtime::make(plan, runtime("worker", 2, *node_network, {"sender"})).value();
      return node->run([&] { return give_up.load(); }).ok();
    });
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const auto ended = chief->run([&] { return std::chrono::steady_clock::now() > deadline; });
    ASSERT_TRUE(ended.ok()) << ended.error().message;
    EXPECT_EQ(*ended, Runtime::Ended::kComplete);
    status = chief->status().value();
    chief->stop();
    give_up = true;
    EXPECT_TRUE(worker.get());
    ASSERT_EQ(static_cast<std::int64_t>(seen->size()), limit);
    for (std::int64_t i = 0; i < limit; ++i) EXPECT_EQ((*seen)[static_cast<std::size_t>(i)], i);
  }

  transport::Authority authority;
  std::shared_ptr<std::vector<std::int64_t>> seen = std::make_shared<std::vector<std::int64_t>>();
  std::atomic<bool> give_up = false;
  std::string status;
};

TEST_F(Nodes, AStreamBetweenTwoNodesDeliversEverythingOnceAndInOrder) {
  run_two_nodes(2000, false);
  EXPECT_THAT(status, HasSubstr(R"("name":"worker","state":"up")"));
}

TEST_F(Nodes, LargeFramesArriveWhole) { run_two_nodes(200, true); }

TEST_F(Nodes, AnOperatorAsksForTheStatusAndForTheEnd) {
  const Topology plan = topology(1'000'000'000, false);
  const auto chief_network = network({"test", {"chief", "collector"}, "chief"}, plan, std::nullopt);
  auto chief = Runtime::make(plan, runtime("chief", 1, *chief_network, {"chief", "collector"})).value();
  auto operator_side = std::async(std::launch::async, [&] {
    const transport::Identity self{"test", {"operator"}, "operator"};
    messages::Control question;
    question.kind = messages::ControlKind::kAskStatus;
    auto answer =
        ask_chief(chief_network->address(), self, credentials(self), question, std::chrono::seconds(10)).value();
    question.kind = messages::ControlKind::kEnd;
    (void)ask_chief(chief_network->address(), self, credentials(self), question, std::chrono::seconds(10)).value();
    return answer.text;
  });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto ended = chief->run([&] { return std::chrono::steady_clock::now() > deadline; });
  ASSERT_TRUE(ended.ok()) << ended.error().message;
  EXPECT_EQ(*ended, Runtime::Ended::kStopped);
  EXPECT_THAT(operator_side.get(), HasSubstr(R"("name":"worker","state":"expected")"));
}

}  // namespace
}  // namespace troupe::actors
