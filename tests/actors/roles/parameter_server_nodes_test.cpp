// The parameter server of parameter_server_test.cpp with its shards and workers on nodes of their own and real links
// between them: the same topology, the same optimum.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <future>
#include <mutex>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/network/node_network.hpp>
#include <troupe/actors/roles/input_feed.hpp>
#include <troupe/actors/roles/parameter_server.hpp>
#include <troupe/tests/actors/node_options.hpp>
#include <troupe/tests/actors/roles/line_parameters.hpp>
#include <troupe/tests/learner/replicate/parameter_server/line.hpp>
#include <troupe/transport/authority.hpp>

namespace troupe::actors {
namespace {

using learner::testing::kFeatures;
using learner::testing::kIntercept;
using learner::testing::kSlopes;
using learner::testing::LineReplica;

constexpr std::int64_t kUpdates = 400;

/// Keeps the newest parameters; done with the last.
class Evaluating final : public Role {
 public:
  explicit Evaluating(std::vector<float>& values) : values_(values) {}
  Result<Progress> step(RoleContext& context) override {
    Inlet& parameters = context.in("parameters");
    if (parameters.empty()) return Progress::kIdle;
    TROUPE_ASSIGN(const auto view, messages::read_parameters(parameters.take()));
    values_.resize(view.data().size() / sizeof(float));
    std::memcpy(values_.data(), view.data().data(), view.data().size());
    return view.info().version >= kUpdates ? Progress::kDone : Progress::kMore;
  }

 private:
  std::vector<float>& values_;
};

class ParameterServerNodes : public ::testing::TestWithParam<bool> {
 protected:
  ParameterServerNodes() : authority(transport::Authority::create("test", std::chrono::system_clock::now()).value()) {}

  Topology topology() {
    ParameterServerOptions options;
    options.name = "line";
    options.feed = input_feed([]() -> Result<std::unique_ptr<learner::Replica>> {
      return {std::make_unique<LineReplica>(learner::OptimizerSpec{.rule = learner::Sgd{.learning_rate = 0.1}})};
    });
    options.workers = 2;
    options.batch = 16;
    options.shards = 2;
    options.synchronous = GetParam();
    options.updates = kUpdates;
    options.publication =
        step_publication([]() -> Result<MakeParametersFrame> { return {testing::line_parameters}; }, kUpdates);
    Topology topology;
    EXPECT_TRUE(add_parameter_server(topology, options).ok());
    topology.roles.push_back({.name = "evaluator",
                              .inlets = {{"parameters", "Parameters", ChannelKind::kLatest}},
                              .make = [this](const RoleIdentity&) -> Result<std::unique_ptr<Role>> {
                                return {std::make_unique<Evaluating>(values)};
                              },
                              .completes_run = true});
    topology.channels.push_back({"line", "parameters", "evaluator", "parameters", 1});
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
  static RuntimeOptions runtime(const std::string& name, NodeNetwork& network, std::vector<std::string> roles) {
    return testing::node_options(network, {"test", std::move(roles), name}, std::hash<std::string>{}(name),
                                 {{"chief", {{"evaluator", {0}}}},
                                  {"ps-0", {{"line-ps", {0}}}},
                                  {"ps-1", {{"line-ps", {1}}}},
                                  {"workers", {{"line", {0, 1}}}}});
  }

  transport::Authority authority;
  std::vector<float> values;  ///< written by the evaluator, which is gone when they are read
};

TEST_P(ParameterServerNodes, ReachTheOptimum) {
  const Topology plan = topology();
  const auto chief_network = network("chief", {"chief", "evaluator"}, plan, std::nullopt);
  auto chief = Runtime::make(plan, runtime("chief", *chief_network, {"chief", "evaluator"})).value();
  std::atomic<bool> give_up = false;
  auto start = [&](const std::string& name, const std::string& role) {
    return std::async(std::launch::async, [&, name, role] {
      const auto own = network(name, {role}, plan, chief_network->address());
      return Runtime::make(plan, runtime(name, *own, {role})).value()->run([&] { return give_up.load(); }).ok();
    });
  };
  std::vector<std::future<bool>> nodes;
  nodes.push_back(start("ps-0", "line-ps"));
  nodes.push_back(start("ps-1", "line-ps"));
  nodes.push_back(start("workers", "line"));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto ended = chief->run([&] { return std::chrono::steady_clock::now() > deadline; });
  chief->stop();
  give_up = true;
  for (auto& node : nodes) EXPECT_TRUE(node.get());
  ASSERT_TRUE(ended.ok()) << ended.error().message;
  EXPECT_EQ(*ended, Runtime::Ended::kComplete);
  ASSERT_EQ(values.size(), 32u);
  // Without noise descent ends at the optimum itself; 400 steps shrink the error by e^-25.
  for (std::size_t i = 0; i < kFeatures; ++i) EXPECT_NEAR(values[i], kSlopes[i], 1e-3) << i;
  EXPECT_NEAR(values[16], kIntercept, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(, ParameterServerNodes, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Synchronous" : "Asynchronous"; });

}  // namespace
}  // namespace troupe::actors
