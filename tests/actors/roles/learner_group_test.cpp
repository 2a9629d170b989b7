// D4PG with several learners on real threads: the same topology, the same number of steps, one policy; learners that
// fail are missed for a moment, and env actors and replay never notice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <set>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/actors/runtime/protocol.hpp>
#include <troupe/messages/checkpoint.hpp>
#include <troupe/run/agent_topology.hpp>
#include <troupe/run/run_topology.hpp>
#include <troupe/run/train.hpp>
#include <troupe/tests/actors/breaking_role.hpp>
#include <troupe/tests/actors/recording_sink.hpp>
#include <troupe/tests/actors/small_d4pg.hpp>

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;
using testing::break_once;
using testing::RecordingSink;

class LearnerGroup : public ::testing::Test {
 protected:
  void SetUp() override {
    directory = std::filesystem::path(::testing::TempDir()) /
                ("learner_group_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(directory);
    options = testing::small_d4pg();
    options.agents[0].max_learner_steps = 300;
    options.agents[0].replay.samples_per_insert = 8;
    options.agents[0].evaluator = {2, 100};
    options.checkpoint.every_s = 0.1;
    options.metrics.every_s = 0.02;
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  Result<TrainSummary> run(bool resume = false) {
    TrainHooks hooks;
    hooks.metrics = &sink;
    hooks.checkpoint_dir = directory / "checkpoints";
    hooks.resume = resume;
    return train(options, hooks);
  }
  /// Each learner's tensors in the newest checkpoint.
  std::vector<std::byte> tensors_of(const std::string& learner) {
    const auto checkpoint = messages::open_newest_checkpoint((directory / "checkpoints").string()).value();
    std::vector<std::byte> all;
    for (const auto& tensor : checkpoint.tensors) {
      if (tensor.name.starts_with(learner + "/")) all.insert(all.end(), tensor.bytes.begin(), tensor.bytes.end());
    }
    return all;
  }

  std::filesystem::path directory;
  TrainOptions options;
  RecordingSink sink;
};

TEST_F(LearnerGroup, AnyNumberOfLearnersTakesTheSameSteps) {
  for (const std::int64_t count : {2, 4}) {
    std::filesystem::remove_all(directory);
    options.agents[0].learner.count = count;
    options.agents[0].replay.sampler = count == 4 ? "prioritized" : "uniform";
    const auto summary = run();
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    EXPECT_EQ(summary->stop_reason, StopReason::kMaxLearnerSteps);
    EXPECT_EQ(summary->learner_steps, 300);
    ASSERT_TRUE(summary->agents[0].final_evaluation.has_value());
    const auto first = tensors_of("learner-0");
    EXPECT_FALSE(first.empty());
    for (std::int64_t i = 1; i < count; ++i) {
      EXPECT_EQ(tensors_of("learner-" + std::to_string(i)), first) << "learner " << i << " of " << count;
    }
    // Counted once, not once for each learner.
    EXPECT_LE(sink.rows.back().learner_steps, 300);
  }
}

TEST_F(LearnerGroup, GoesOnFromACheckpoint) {
  options.agents[0].learner.count = 2;
  ASSERT_TRUE(run().ok());
  options.agents[0].max_learner_steps = 500;
  const auto second = run(true);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->learner_steps, 500);
  EXPECT_EQ(tensors_of("learner-0"), tensors_of("learner-1"));
}

TEST_F(LearnerGroup, LosesLearnersAndGetsThemBackWithoutLosingSteps) {
  options.agents[0].learner.count = 3;
  options.agents[0].learner.batch_size = 15;
  options.agents[0].max_learner_steps = 2000;
  options.supervisor.backoff_first_s = 0.02;
  Topology topology = run_topology(options, {sink}, 0).value();
  std::set<std::int64_t> restarted;
  for (RoleSpec& spec : topology.roles) {
    if (spec.name != kLearnerRole) continue;
    // The one that publishes first, another one later; all three are never away at once.
    break_once(spec, {{0, 300}, {1, 900}}, [&](std::int64_t index) { restarted.insert(index); });
  }
  std::vector<std::int64_t> steps;
  RuntimeOptions runtime_options;
  runtime_options.seed = 1;
  runtime_options.report_period = 10ms;
  runtime_options.checkpoint_period = 50ms;
  runtime_options.write_cut = [&](const std::shared_ptr<const Cut>& cut) -> Status {
    for (const Cut::Instance& instance : cut->instances) {
      if (instance.name == "learner-2") steps.push_back(instance.state->role.counter("steps").value());
    }
    return {};
  };
  auto runtime = Runtime::make(std::move(topology), std::move(runtime_options)).value();
  const auto until = std::chrono::steady_clock::now() + 60s;
  const auto ended = runtime->run([&] { return std::chrono::steady_clock::now() > until; });
  ASSERT_TRUE(ended.ok()) << ended.error().message;
  EXPECT_EQ(*ended, Runtime::Ended::kComplete);
  runtime->stop();
  EXPECT_EQ(restarted, (std::set<std::int64_t>{0, 1}));
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end())) << "who stays never goes back";
}

}  // namespace
}  // namespace troupe::actors
