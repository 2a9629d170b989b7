// D4PG over six nodes with real links, each with its own runtime, in one test process: the topology that runs within
// one process runs unchanged over nodes, and leaves a run that can be resumed and evaluated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <map>
#include <thread>

#include <troupe/actors/control/run_checkpoint.hpp>
#include <troupe/run/agent_topology.hpp>
#include <troupe/run/node.hpp>
#include <troupe/run/train.hpp>
#include <troupe/tests/actors/small_d4pg.hpp>
#include <troupe/transport/authority.hpp>

namespace troupe::actors {
namespace {

class CountingSink final : public MetricSink {
 public:
  Status write(const MetricRow& row) override {
    ++rows;
    last = row;
    return {};
  }
  Status flush() override { return {}; }
  int rows = 0;
  MetricRow last;
};

class D4pgNodes : public ::testing::Test {
 protected:
  D4pgNodes() : authority(transport::Authority::create("test", std::chrono::system_clock::now()).value()) {
    directory = std::filesystem::path(::testing::TempDir()) /
                ("d4pg_nodes_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + "_" +
                 std::to_string(getpid()));
    std::filesystem::remove_all(directory);
    std::filesystem::create_directories(directory);
    options = testing::small_d4pg();
    options.agents[0].max_learner_steps = 300;
    options.agents[0].evaluator = {2, 100};
    options.checkpoint.every_s = 1;
    options.metrics.every_s = 0.02;
  }
  ~D4pgNodes() override { std::filesystem::remove_all(directory); }

  NodePlace place(const std::string& name, std::vector<std::string> roles) {
    NodePlace place;
    place.run_dir = directory;
    NodeNetworkOptions& network = place.network;
    network.self = {"test", std::move(roles), name};
    network.credentials =
        authority.issue(network.self, std::chrono::system_clock::now(), std::chrono::hours(1)).value();
    network.listen = {"127.0.0.1", 0};
    std::vector<PlacedNode>& placement = place.runtime.chief.placement;
    placement = {{"chief", {{kMetricsRole, {0}}}},
                 {"replay", {{kReplayRole, {0}}}},
                 {"parameters", {{kParametersRole, {0}}}},
                 {"evaluator", {{kEvaluatorRole, {0}}}},
                 {"actors", {{kActorRole, {0, 1}}}}};
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(options.agents[0].learner.count); ++i) {
      placement.push_back({learner_node(i), {{kLearnerRole, {i}}}});
    }
    if (server()) placement.push_back({"inference", {{kInferenceRole, {0}}}});
    return place;
  }

  /// "learner", or "learner-0", "learner-1" ... of a group.
  std::string learner_node(std::int64_t index) const {
    return RoleIdentity{kLearnerRole, index, options.agents[0].learner.count}.name();
  }

  bool server() const { return options.agents[0].actors.inference == "server"; }

  std::future<Status> start_node(const std::string& name, const std::string& role) {
    return std::async(std::launch::async, [this, name, role] {
      NodePlace own = place(name, {role});
      own.network.chief = wait_for_chief(directory, std::chrono::seconds(10)).value();
      return run_node(options, own, &give_up);
    });
  }

  Result<TrainSummary> run(bool resume) {
    std::filesystem::remove(directory / "chief.address");
    std::map<std::string, std::future<Status>> nodes;
    for (const char* role : {kReplayRole, kParametersRole, kEvaluatorRole}) nodes[role] = start_node(role, role);
    for (std::int64_t i = 0; i < options.agents[0].learner.count; ++i) {
      nodes[learner_node(i)] = start_node(learner_node(i), kLearnerRole);
    }
    nodes["actors"] = start_node("actors", kActorRole);
    if (server()) nodes[kInferenceRole] = start_node(kInferenceRole, kInferenceRole);
    NodePlace own = place("chief", {"chief", kMetricsRole});
    own.resume = resume;
    TrainHooks hooks;
    hooks.metrics = &sink;
    hooks.checkpoint_dir = directory / "checkpoints";
    hooks.place = &own;
    const auto summary = train(options, hooks);
    give_up = !summary.ok();
    for (auto& [name, node] : nodes) EXPECT_TRUE(node.get().ok()) << name;
    return summary;
  }

  std::filesystem::path directory;
  transport::Authority authority;
  TrainOptions options;
  CountingSink sink;
  std::atomic<bool> give_up = false;
};

TEST_F(D4pgNodes, TrainsOverNodesAndGoesOnFromItsCheckpoint) {
  const auto first = run(false);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->stop_reason, StopReason::kMaxLearnerSteps);
  EXPECT_EQ(first->learner_steps, 300);
  EXPECT_GT(first->env_steps, 64);
  ASSERT_TRUE(first->agents[0].final_evaluation.has_value());
  EXPECT_GT(sink.rows, 2);
  EXPECT_EQ(open_run_checkpoint(directory / "checkpoints").value().size(), 6u);

  // Whoever looks after the chief's process starts it again: there are no nodes to lead any more.
  NodePlace again = place("chief", {"chief", kMetricsRole});
  TrainHooks hooks;
  hooks.metrics = &sink;
  hooks.checkpoint_dir = directory / "checkpoints";
  hooks.place = &again;
  const auto over = train(options, hooks);
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.error().code, Code::kInvalidArgument);
  EXPECT_THAT(over.error().message, ::testing::HasSubstr("TRP-E504 this run has ended (complete)"));

  options.agents[0].max_learner_steps = 600;
  const auto second = run(true);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->learner_steps, 600);
  EXPECT_GT(second->env_steps, first->env_steps);
}

TEST_F(D4pgNodes, LearnersOnSeveralNodesTakeTheSameSteps) {
  options.agents[0].learner.count = 3;
  options.agents[0].learner.batch_size = 24;
  const auto first = run(false);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->learner_steps, 300);
  std::map<std::string, std::map<std::string, std::vector<std::byte>>> states;  // by node and tensor
  const auto parts = open_run_checkpoint(directory / "checkpoints");
  ASSERT_TRUE(parts.ok()) << parts.error().message;
  for (const auto& part : *parts) {
    for (const auto& tensor : part.tensors) {
      const std::size_t slash = tensor.name.find('/');
      const std::string instance = tensor.name.substr(0, slash);
      if (!instance.starts_with("learner")) continue;
      states[instance][tensor.name.substr(slash)] = {tensor.bytes.begin(), tensor.bytes.end()};
    }
  }
  ASSERT_EQ(states.size(), 3u);
  EXPECT_FALSE(states["learner-0"].empty());
  EXPECT_EQ(states["learner-1"], states["learner-0"]);
  EXPECT_EQ(states["learner-2"], states["learner-0"]);

  options.agents[0].max_learner_steps = 450;
  const auto second = run(true);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->learner_steps, 450);
}

TEST_F(D4pgNodes, ActsThroughAnInferenceServerWithTheNewestParametersOnly) {
  options.agents[0].actors.inference = "server";
  options.agents[0].staleness.max_versions = 0;
  const auto summary = run(false);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->stop_reason, StopReason::kMaxLearnerSteps);
  EXPECT_GT(summary->env_steps, 64);
}

}  // namespace
}  // namespace troupe::actors
