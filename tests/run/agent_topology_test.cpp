// The whole D4PG topology in virtual time on one thread, with small networks: it runs, repeats bit for bit, stops at
// its limits and resumes from its checkpoints.
#include <troupe/run/agent_topology.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <stdexcept>

#include <troupe/actors/control/runtime.hpp>
#include <troupe/messages/checkpoint.hpp>
#include <troupe/run/run_topology.hpp>
#include <troupe/run/train.hpp>
#include <troupe/tests/actors/recording_sink.hpp>
#include <troupe/tests/actors/small_d4pg.hpp>

namespace troupe::actors {
namespace {

using testing::RecordingSink;

class D4pgTopology : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(name, '/', '_');
    directory = std::filesystem::path(::testing::TempDir()) / ("d4pg_topology_" + name);
    std::filesystem::remove_all(directory);
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  static TrainOptions small() {
    TrainOptions options = testing::small_d4pg();
    options.deterministic = true;
    options.agents[0].max_learner_steps = 60;
    options.agents[0].evaluator = {2, 30};
    options.checkpoint.every_s = 0.1;  // of virtual time
    options.metrics.every_s = 0.04;
    return options;
  }
  /// The same with replay in shards.
  static TrainOptions sharded() {
    TrainOptions options = small();
    options.agents[0].replay.shards = 2;
    options.agents[0].replay.sampler = "prioritized";
    return options;
  }
  Result<TrainSummary> run(const TrainOptions& options, RecordingSink& sink, bool resume = false) {
    TrainHooks hooks;
    hooks.metrics = &sink;
    hooks.checkpoint_dir = directory / "checkpoints";
    hooks.resume = resume;
    return train(options, hooks);
  }
  std::vector<std::byte> parameters() {
    auto checkpoint = messages::open_newest_checkpoint((directory / "checkpoints").string()).value();
    std::vector<std::byte> all;
    for (const auto& tensor : checkpoint.tensors) all.insert(all.end(), tensor.bytes.begin(), tensor.bytes.end());
    return all;
  }

  std::filesystem::path directory;
};

TEST_F(D4pgTopology, RunsToItsLimitAndReportsIt) {
  RecordingSink sink;
  const auto summary = run(small(), sink);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->stop_reason, StopReason::kMaxLearnerSteps);
  EXPECT_EQ(summary->learner_steps, 60);
  EXPECT_GT(summary->env_steps, 64);
  ASSERT_TRUE(summary->agents[0].final_evaluation.has_value());
  EXPECT_EQ(find_scalar(summary->agents[0].final_evaluation->values, "episodes"), 2);
  EXPECT_GE(sink.rows.size(), 3u);
  const std::vector<std::int64_t> evaluated = sink.evaluated_steps("evaluator");
  ASSERT_GE(evaluated.size(), 2u);
  EXPECT_EQ(evaluated[0], 0) << "the untrained policy";
  EXPECT_GE(evaluated[1], 30);
  EXPECT_EQ(sink.evaluated_steps("final"), (std::vector<std::int64_t>{60}));
}

TEST_F(D4pgTopology, TheRatioOfSamplesToInsertsHolds) {
  for (std::int64_t shards : {1, 2, 4}) {
    std::filesystem::remove_all(directory);
    RecordingSink sink;
    TrainOptions options = small();
    options.agents[0].max_learner_steps = 400;
    options.agents[0].replay.shards = shards;
    const auto summary = run(options, sink).value();
    const double sampled = 400.0 * 16;
    // The limiter's error buffer (64 x 1 x 4) on each side, and what is under way in channels.
    EXPECT_NEAR(sampled / static_cast<double>(summary.env_steps), 4, 1.0) << shards;
  }
}

/// What runs in virtual time alike.
enum class Form : std::uint8_t { kSingle, kSharded, kServed, kServedInStep };

class D4pgTopologyInForms : public D4pgTopology, public ::testing::WithParamInterface<Form> {
 protected:
  static TrainOptions options() {
    if (GetParam() == Form::kSingle) return small();
    TrainOptions options = sharded();
    if (GetParam() == Form::kSharded) return options;
    ReplicaGroupOptions& learner = options.agents[0].learner;
    learner.replicator = GetParam() == Form::kServed ? "parameter_server" : "sync_replicas";
    learner.count = 2;
    learner.ps_shards = 2;
    return options;
  }
};
std::string name_of_form(const ::testing::TestParamInfo<Form>& info) {
  static constexpr std::array kNames = {"Single", "Sharded", "Served", "ServedInStep"};
  return kNames[static_cast<std::size_t>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(, D4pgTopologyInForms,
                         ::testing::Values(Form::kSingle, Form::kSharded, Form::kServed, Form::kServedInStep),
                         name_of_form);

TEST_P(D4pgTopologyInForms, TwoRunsWithOneSeedGiveTheSameBits) {
  std::vector<std::byte> bits[2];
  RecordingSink sinks[2];
  for (int i = 0; i < 2; ++i) {
    std::filesystem::remove_all(directory);
    ASSERT_TRUE(run(options(), sinks[i]).ok());
    bits[i] = parameters();
  }
  EXPECT_EQ(bits[0], bits[1]);
  ASSERT_EQ(sinks[0].rows.size(), sinks[1].rows.size());
  for (std::size_t r = 0; r < sinks[0].rows.size(); ++r) {
    const MetricRow& a = sinks[0].rows[r];
    const MetricRow& b = sinks[1].rows[r];
    EXPECT_EQ(a.wall_s, b.wall_s);
    EXPECT_EQ(a.env_steps, b.env_steps);
    ASSERT_EQ(a.scalars.size(), b.scalars.size());
    for (std::size_t s = 0; s < a.scalars.size(); ++s) {
      EXPECT_EQ(a.scalars[s].name, b.scalars[s].name);
      EXPECT_EQ(a.scalars[s].value, b.scalars[s].value) << a.scalars[s].name;
    }
  }
}

TEST_F(D4pgTopology, AnotherSeedGivesOtherBits) {
  RecordingSink sink;
  ASSERT_TRUE(run(small(), sink).ok());
  const auto first = parameters();
  std::filesystem::remove_all(directory);
  TrainOptions options = small();
  options.seed = 2;
  ASSERT_TRUE(run(options, sink).ok());
  EXPECT_NE(parameters(), first);
}

TEST_P(D4pgTopologyInForms, ResumeGoesOnFromTheCheckpoint) {
  RecordingSink sink;
  const auto first = run(options(), sink).value();
  TrainOptions more = options();
  more.agents[0].max_learner_steps = 100;
  RecordingSink resumed;
  const auto second = run(more, resumed, true).value();
  EXPECT_EQ(second.learner_steps, 100);
  EXPECT_GT(second.env_steps, first.env_steps);
  EXPECT_GT(second.wall_s, first.wall_s);
  ASSERT_FALSE(resumed.rows.empty());
  EXPECT_GE(resumed.rows.front().env_steps, first.env_steps / 2);
  for (const Evaluation& evaluation : resumed.evaluations) EXPECT_GE(evaluation.step, 60) << evaluation.source;
}

TEST_F(D4pgTopology, PrioritisedReplayRunsToo) {
  RecordingSink sink;
  TrainOptions options = small();
  options.agents[0].replay.sampler = "prioritized";
  const auto summary = run(options, sink);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(summary->learner_steps, 60);
}

/// D4PG's n-step transitions, each learnt from once.
TrainOptions queued(TrainOptions options, std::int64_t queue) {
  AgentOptions& agent = options.agents[0];
  agent.make_algorithm = [make = agent.make_algorithm, queue](const AlgorithmContext& context) -> Result<Algorithm> {
    TROUPE_ASSIGN(Algorithm algorithm, make(context));
    algorithm.queue = queue;
    return algorithm;
  };
  const std::int64_t batch = agent.learner.batch_size;
  agent.replay = {};
  agent.learner.batch_size = batch;
  return options;
}

TEST_F(D4pgTopology, AQueueGivesEachItemOnceAndKeepsEnvActorsClose) {
  RecordingSink sink;
  TrainOptions options = queued(small(), 32);
  options.agents[0].max_learner_steps = 400;
  const auto first = run(options, sink);
  ASSERT_TRUE(first.ok()) << first.error().message;
  const double sampled = 400.0 * 16;
  // Behind what was learnt from: the queue, four frames of each env actor, and the batches that are under way.
  EXPECT_GE(static_cast<double>(first->env_steps), sampled);
  EXPECT_LT(static_cast<double>(first->env_steps), sampled + 1500);
  options.agents[0].max_learner_steps = 500;
  RecordingSink resumed;
  const auto second = run(options, resumed, true);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->learner_steps, 500);
  EXPECT_LT(static_cast<double>(second->env_steps), sampled + 1600 + 1500);
}

TEST_F(D4pgTopology, AQueueRefusesWhatReplayCanDo) {
  const auto refusal = [&](auto change) {
    RecordingSink sink;
    TrainOptions options = queued(small(), 32);
    change(options.agents[0]);
    return run(options, sink).error().message;
  };
  EXPECT_THAT(refusal([](auto& agent) { agent.replay.sampler = "prioritized"; }),
              ::testing::StartsWith("replay.sampler: it is set, but algorithm \"d4pg\" learns from each item once"));
  EXPECT_THAT(refusal([](auto& agent) { agent.replay.shards = 2; }), ::testing::StartsWith("replay.shards: "));
  EXPECT_THAT(refusal([](auto& agent) { agent.learner.batch_size = 64; }),
              "learner.batch_size: got 64, but the queue of algorithm \"d4pg\" holds 32 items");
}

TEST_F(D4pgTopology, AQueueByConfigurationDrawsEachItemOnceInTheSamplersOrder) {
  for (const char* sampler : {"fifo", "lifo", "uniform", "prioritized"}) {
    RecordingSink sink;
    TrainOptions options = small();
    options.agents[0].replay = {.max_items = 64, .limiter = "queue", .sampler = sampler};
    options.agents[0].max_learner_steps = 200;
    const auto summary = run(options, sink);
    ASSERT_TRUE(summary.ok()) << sampler << ": " << summary.error().message;
    const double sampled = 200.0 * 16;
    EXPECT_GE(static_cast<double>(summary->env_steps), sampled) << sampler;
    EXPECT_LT(static_cast<double>(summary->env_steps), sampled + 1500) << sampler;
  }
}

TEST_F(D4pgTopology, AQueueByConfigurationRefusesWhatItCannotDo) {
  const auto refusal = [&](ReplayOptions replay) {
    RecordingSink sink;
    TrainOptions options = small();
    options.agents[0].replay = std::move(replay);
    return run(options, sink).error().message;
  };
  EXPECT_THAT(refusal({.shards = 2, .limiter = "queue"}),
              "replay.shards: it is set, but replay.limiter \"queue\" draws each item once");
  EXPECT_THAT(refusal({.limiter = "queue", .max_times_sampled = 5}),
              ::testing::StartsWith("replay.max_times_sampled: it is set"));
  EXPECT_THAT(refusal({.max_items = 8, .limiter = "queue"}), "learner.batch_size: got 16, but replay holds 8 items");
}

TEST_F(D4pgTopology, LearnsFromWhateverReplayDrawsAndLetsGo) {
  for (const auto& [sampler, remover, times] :
       {std::tuple("max_heap", "min_heap", 0), std::tuple("lifo", "uniform", 40), std::tuple("fifo", "lifo", 0)}) {
    RecordingSink sink;
    TrainOptions options = small();
    ReplayOptions& replay = options.agents[0].replay;
    replay.sampler = sampler;
    replay.remover = remover;
    replay.max_times_sampled = times;
    replay.max_items = 300;
    EXPECT_EQ(is_prioritised(options.agents[0]), replay.sampler == "max_heap");
    const auto summary = run(options, sink);
    ASSERT_TRUE(summary.ok()) << sampler << ": " << summary.error().message;
    EXPECT_GT(summary->learner_steps, 0) << sampler;
  }
}

TEST_F(D4pgTopology, ShardsDrawOnlyAsOneTableWould) {
  RecordingSink sink;
  TrainOptions options = sharded();
  options.agents[0].replay.sampler = "lifo";
  EXPECT_EQ(run(options, sink).error().message,
            "replay.shards: got 2, but sampler lifo looks at all items, which only one has");
}

TEST_F(D4pgTopology, ItemsAreNotUsedUpBeforeTheyHaveBeenSampledEnough) {
  RecordingSink sink;
  TrainOptions options = small();
  options.agents[0].replay.samples_per_insert = 8;
  options.agents[0].replay.max_times_sampled = 7;
  EXPECT_EQ(run(options, sink).error().message,
            "replay.max_times_sampled: got 7, expected 0 or at least samples_per_insert, 8");
}

/// A role that breaks at some step of its first incarnation.
class Breaking final : public Role {
 public:
  Breaking(std::unique_ptr<Role> inner, int breaks_at) : inner_(std::move(inner)), breaks_at_(breaks_at) {}
  Result<Progress> step(RoleContext& context) override {
    if (++steps_ == breaks_at_) throw std::runtime_error("the simulator crashed");
    return inner_->step(context);
  }
  void report(Report& report) const override { inner_->report(report); }

 private:
  std::unique_ptr<Role> inner_;
  int breaks_at_;  ///< 0: never
  int steps_ = 0;
};

/// Makes the instances of a role break at a step of their first incarnations; counts the restarts.
void break_once(Topology& topology, const char* role, int at, int& restarts) {
  for (RoleSpec& spec : topology.roles) {
    if (spec.name != role) continue;
    spec.make = [make = spec.make, at, &restarts](const RoleIdentity& identity) -> Result<std::unique_ptr<Role>> {
      TROUPE_ASSIGN(auto inner, make(identity));
      restarts += identity.incarnation > 0;
      return {std::make_unique<Breaking>(std::move(inner), identity.incarnation == 0 ? at : 0)};
    };
  }
}

TEST_F(D4pgTopology, ACrashedEnvActorIsRestartedAndTrainingGoesOn) {
  RecordingSink sink;
  TrainOptions options = small();
  options.agents[0].max_learner_steps = 200;
  Topology topology = run_topology(options, {sink}, 0).value();
  int restarts = 0;
  break_once(topology, kActorRole, 5, restarts);
  auto runtime = Runtime::make(std::move(topology), {.seed = 1, .deterministic = true}).value();
  EXPECT_EQ(runtime->run([] { return false; }).value(), Runtime::Ended::kComplete);
  runtime.reset();
  EXPECT_EQ(restarts, 2);  // both instances
}

TEST_F(D4pgTopology, AStalenessBoundOfZeroNeverDeadlocks) {
  // Metrics has timers, so roles that wait for each other for ever would run into the limit of virtual time instead of
  // a standstill; a good run takes seconds of it. The limiter of the tight ones lets replay be ahead or behind by
  // little more than a batch, so that env actors and the learner wait for each other all the time.
  struct Case {
    const char* inference;
    std::int64_t publish_period;
    double tolerance;
  };
  for (const Case& c :
       {Case{"local", 1, 1.0}, {"local", 1, 0.04}, {"local", 7, 0.04}, {"server", 1, 0.04}, {"server", 7, 0.04}}) {
    SCOPED_TRACE(fmt::format("{}, publish_period {}, tolerance {}", c.inference, c.publish_period, c.tolerance));
    RecordingSink sink;
    TrainOptions options = small();
    options.agents[0].max_learner_steps = 150;
    options.max_minutes = 1;
    options.checkpoint.every_s = 1000;
    options.agents[0].actors = {.count = 3, .inference = c.inference};
    options.agents[0].staleness.max_versions = 0;
    options.agents[0].publish_period = c.publish_period;
    options.agents[0].replay.tolerance = c.tolerance;
    const auto summary = run(options, sink);
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    EXPECT_EQ(summary->stop_reason, StopReason::kMaxLearnerSteps);
    std::filesystem::remove_all(directory);
  }
}

TEST_F(D4pgTopology, AnInferenceServerActsForAllEnvActors) {
  RecordingSink sink;
  TrainOptions options = small();
  options.agents[0].actors = {.count = 5, .inference = "server"};
  options.agents[0].inference = {.count = 2, .batch_size = 32, .max_wait_ms = 1};
  options.agents[0].max_learner_steps = 300;
  const auto summary = run(options, sink);
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  std::map<std::string, double> newest;
  for (const MetricRow& row : sink.rows) {
    for (const Scalar& scalar : row.scalars) newest[scalar.name] = std::max(newest[scalar.name], scalar.value);
  }
  EXPECT_GT(newest["inference/requests_per_s"], newest["inference/batches_per_s"]) << "no batch held more than one";
  ASSERT_TRUE(newest.contains("parameters/staleness_p50"));
  EXPECT_LT(newest["parameters/staleness_p50"], 32) << "the versions that acted did not come back with the answers";
  EXPECT_EQ(newest["actor/inference_calls_failed_per_s"], 0);

  // From a checkpoint that was taken while calls were under way.
  options.agents[0].max_learner_steps = 350;
  RecordingSink resumed;
  const auto second = run(options, resumed, true);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->learner_steps, 350);
}

TEST_F(D4pgTopology, EpisodesGoOnWhenTheInferenceServerCrashes) {
  RecordingSink sink;
  TrainOptions options = small();
  options.agents[0].actors.inference = "server";
  options.agents[0].max_learner_steps = 200;
  Topology topology = run_topology(options, {sink}, 0).value();
  int server_restarts = 0, actor_restarts = 0;
  break_once(topology, kInferenceRole, 40, server_restarts);
  break_once(topology, kActorRole, 0, actor_restarts);
  auto runtime = Runtime::make(std::move(topology), {.seed = 1, .deterministic = true}).value();
  EXPECT_EQ(runtime->run([] { return false; }).value(), Runtime::Ended::kComplete);
  runtime.reset();
  EXPECT_EQ(server_restarts, 1);
  EXPECT_EQ(actor_restarts, 0);
}

TEST_F(D4pgTopology, AStopRequestLeavesACheckpoint) {
  RecordingSink sink;
  std::atomic<bool> stop{true};
  TrainHooks hooks;
  hooks.metrics = &sink;
  hooks.stop = &stop;
  hooks.checkpoint_dir = directory / "checkpoints";
  const auto summary = train(small(), hooks).value();
  EXPECT_EQ(summary.stop_reason, StopReason::kRequested);
  EXPECT_TRUE(messages::open_newest_checkpoint(hooks.checkpoint_dir.string()).ok());
}

TEST_F(D4pgTopology, TheLastRowIsTheFurthest) {
  RecordingSink sink;
  TrainOptions options = small();
  options.deterministic = false;  // so that roles go on while the last checkpoint is written
  options.agents[0].max_learner_steps = 0;
  options.max_minutes = 0.02;
  options.metrics.every_s = 0.001;
  const auto summary = run(options, sink).value();
  ASSERT_GT(sink.rows.size(), 10u);
  EXPECT_EQ(sink.rows.back().learner_steps, summary.learner_steps);
  for (const MetricRow& row : sink.rows) {
    EXPECT_LE(row.env_steps, summary.env_steps) << "at " << row.wall_s;
    EXPECT_LE(row.learner_steps, summary.learner_steps) << "at " << row.wall_s;
  }
}

TEST_F(D4pgTopology, AnUnknownEnvironmentIsNamed) {
  RecordingSink sink;
  TrainOptions options = small();
  options.agents[0].make_environment = envs::shared_environments("cartpole-swingupp");
  EXPECT_THAT(run(options, sink).error().message, ::testing::HasSubstr("cartpole-swingup"));
}

TEST_F(D4pgTopology, ResumingWithoutACheckpointIsAnError) {
  RecordingSink sink;
  EXPECT_EQ(run(small(), sink, true).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace troupe::actors
