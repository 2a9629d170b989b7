// Runs with replica groups that go on from a checkpoint: every part at the step where it was, and where nothing depends
// on time with the very bits of a run that was never interrupted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <troupe/messages/checkpoint.hpp>
#include <troupe/run/models/models.hpp>
#include <troupe/run/train.hpp>
#include <troupe/tests/actors/recording_sink.hpp>
#include <troupe/tests/actors/small_d4pg.hpp>
#include <troupe/tests/run/section.hpp>

namespace troupe::actors {
namespace {

using testing::RecordingSink;

/// Whether a row says that this scalar was less than that. A quick part may be done before the first row.
bool was_below(const std::vector<MetricRow>& rows, const std::string& name, double limit) {
  for (const MetricRow& row : rows) {
    for (const Scalar& scalar : row.scalars) {
      if (scalar.name == name && scalar.value < limit) return true;
    }
  }
  return false;
}

/// A network of one small layer, on images that are made up.
MakeModel small(const ModelKind& kind) {
  const ConfigSection keys = troupe::testing::section(
      kind.keys, {{"data", std::string("synthetic")}, {"layers", std::vector<std::int64_t>{16}}});
  return kind.make(keys).value();
}

class ReplicaResume : public ::testing::Test {
 protected:
  void SetUp() override {
    root = std::filesystem::path(::testing::TempDir()) /
           ("replica_resume_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(root);
    options = testing::small_d4pg();
    agent = options.agents[0];
    options.agents.clear();
    options.checkpoint.every_s = 0.1;
    options.metrics.every_s = 0.02;
  }
  void TearDown() override { std::filesystem::remove_all(root); }

  TrainSummary run(const std::string& directory, bool resume = false) {
    sink = {};
    TrainHooks hooks;
    hooks.metrics = &sink;
    hooks.checkpoint_dir = root / directory / "checkpoints";
    hooks.resume = resume;
    const auto summary = train(options, hooks);
    EXPECT_TRUE(summary.ok()) << summary.error().message;
    return summary.ok() ? *summary : TrainSummary{};
  }
  /// An instance's tensors in the newest checkpoint.
  std::vector<std::byte> tensors_of(const std::string& directory, const std::string& instance) {
    const auto checkpoint = messages::open_newest_checkpoint((root / directory / "checkpoints").string()).value();
    std::vector<std::byte> all;
    for (const auto& tensor : checkpoint.tensors) {
      if (tensor.name.starts_with(instance + "/")) all.insert(all.end(), tensor.bytes.begin(), tensor.bytes.end());
    }
    EXPECT_FALSE(all.empty()) << instance;
    return all;
  }
  static ReplicaRun classifier(const std::string& name, const std::string& replicator, std::int64_t steps) {
    return {.group = {.name = name,
                      .replicator = replicator,
                      .count = 2,
                      .batch_size = 40,
                      .steps = steps,
                      .evaluate_every_steps = 20},
            .model = "classifier",
            .make_model = small(classifier_model())};
  }

  std::filesystem::path root;
  AgentOptions agent;  ///< of a run that has one
  TrainOptions options;
  RecordingSink sink;
};

TEST_F(ReplicaResume, AGroupGoesOnAsIfItHadNeverStopped) {
  options.replicas = {classifier("mlp", "multi_worker", 60)};
  EXPECT_EQ(run("interrupted").replicas[0].steps, 60);
  const std::vector<std::int64_t> first = sink.evaluated_steps("mlp-evaluator");
  ASSERT_FALSE(first.empty());
  EXPECT_EQ(first.back(), 60) << "the run ends when the last one is recorded";
  options.replicas[0].group.steps = 100;
  const TrainSummary resumed = run("interrupted", true);
  EXPECT_EQ(resumed.replicas[0].steps, 100);
  EXPECT_EQ(resumed.replicas[0].evaluated_step, 100);
  const std::vector<std::int64_t> second = sink.evaluated_steps("mlp-evaluator");
  ASSERT_FALSE(second.empty());
  EXPECT_GT(second.front(), 60);
  EXPECT_EQ(second.back(), 100);
  EXPECT_EQ(run("whole").replicas[0].steps, 100);
  for (const std::string member : {"mlp-0", "mlp-1"}) {
    EXPECT_EQ(tensors_of("interrupted", member), tensors_of("whole", "mlp-0")) << member;
  }
}

TEST_F(ReplicaResume, AMixedRunGoesOnInAllOfItsParts) {
  options.agents = {agent};
  options.agents[0].max_learner_steps = 60;
  options.agents[0].actors.count = 1;
  options.agents[0].replay.samples_per_insert = 8;
  options.agents[0].learner.count = 2;
  options.agents[0].evaluator = {1, 1000};
  options.replicas = {classifier("gan", "multi_worker", 50), classifier("mlp", "parameter_server", 40),
                      classifier("late", "sync_replicas", 40)};
  options.replicas[0].make_model = small(sngan_model());
  const TrainSummary first = run("r");
  for (const auto& [source, step] : {std::pair("gan-evaluator", 50), std::pair("late-evaluator", 40)}) {
    const std::vector<std::int64_t> steps = sink.evaluated_steps(source);
    ASSERT_FALSE(steps.empty()) << source;
    EXPECT_EQ(steps.back(), step) << source;
    EXPECT_EQ(std::set(steps.begin(), steps.end()).size(), steps.size()) << source;
  }
  ASSERT_EQ(first.replicas.size(), 3U);
  EXPECT_EQ(first.learner_steps, 60);
  EXPECT_EQ(first.replicas[0].steps, 50);
  options.agents[0].max_learner_steps = 110;
  options.replicas[0].group.steps = 90;
  options.replicas[1].group.steps = 80;
  options.replicas[2].group.steps = 70;
  const TrainSummary second = run("r", true);
  ASSERT_EQ(second.replicas.size(), 3U);
  EXPECT_EQ(second.learner_steps, 110);
  EXPECT_EQ(second.replicas[0].steps, 90);
  EXPECT_EQ(second.replicas[1].evaluated_step, 80);
  EXPECT_EQ(second.replicas[2].evaluated_step, 70);
  EXPECT_GE(second.env_steps, first.env_steps);
  EXPECT_GE(sink.rows.front().learner_steps, 60);
  EXPECT_FALSE(was_below(sink.rows, "gan/step", 50));
  EXPECT_EQ(tensors_of("r", "gan-0"), tensors_of("r", "gan-1"));
  EXPECT_EQ(tensors_of("r", "learner-0"), tensors_of("r", "learner-1"));
}

}  // namespace
}  // namespace troupe::actors
