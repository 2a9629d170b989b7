#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include <troupe/run/fan_out.hpp>
#include <troupe/run/progress.hpp>
#include <troupe/run/terminal.hpp>

#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kWide = 200;

MetricRow full_row() {
  return {.wall_s = 65,
          .env_steps = 12345,
          .learner_steps = 1540,
          .scalars = {{"actor/steps_per_s", 1200},
                      {"learner/steps_per_s", 150},
                      {"replay/items", 12300},
                      {"parameters/staleness_mean", 4.24}}};
}

const Evaluation kEvaluated = {.source = "evaluator", .step = 1500, .values = {{"return_std", 3}, {"return", 812.34}}};

TEST(Terminal, IsPlainWhereALineCannotBeRewritten) {
  EXPECT_TRUE(can_redraw(true, "xterm-256color"));
  EXPECT_FALSE(can_redraw(true, "dumb"));
  EXPECT_FALSE(can_redraw(true, ""));
  EXPECT_FALSE(can_redraw(false, "xterm"));
}

TEST(ProgressState, PutsEverythingInOneLine) {
  ProgressState state({.max_minutes = 5, .agents = {{}}});
  state.update(full_row());
  state.update(kEvaluated);
  EXPECT_EQ(
      state.line(kWide),
      "1m05s (3m55s left)  return 812.3  env 12.3k (1.20k/s)  learner 1.54k (150/s)  replay 12.3k  staleness 4.2");
}

TEST(ProgressState, ShowsReplicaGroupsAndLastsUntilTheSlowestIsDone) {
  ProgressState state({.replicas = {{"gan", {1000, 60, 2}}, {"mlp", {2000}}}});
  state.update(MetricRow{.wall_s = 65,
                         .learner_steps = 1500,
                         .scalars = {{"gan/step", 500},
                                     {"gan/steps_per_s", 50},
                                     {"gan/generator_loss", -0.25},
                                     {"gan/input_images_per_second", 15500},
                                     {"gan/real_logit", 3},
                                     {"mlp/step", 1000},
                                     {"mlp/steps_per_s", 20}}});
  state.update(Evaluation{
      .source = "gan-evaluator", .step = 400, .values = {{"frechet_distance", 12.34}, {"judge_accuracy", 0.9}}});
  state.update(Evaluation{.source = "mlp-evaluator", .step = 900, .values = {{"accuracy", 0.8817}}});
  EXPECT_EQ(state.line(kWide),
            "1m05s (50.0s left)  gan 500/1.00k (50/s, 3.00k images/s, input 31.0k) generator_loss -0.25 "
            "frechet_distance 12.3  "
            "mlp 1.00k/2.00k (20/s) accuracy 0.882");
}

TEST(ProgressState, KeepsValuesThatTheNewestRowLacks) {
  ProgressState state({.agents = {{}}});
  state.update(full_row());
  state.update(kEvaluated);
  state.update(MetricRow{.wall_s = 66, .env_steps = 20000, .learner_steps = 1600});
  EXPECT_EQ(state.line(kWide),
            "1m06s  return 812.3  env 20.0k (1.20k/s)  learner 1.60k (150/s)  replay 12.3k  staleness 4.2");
}

TEST(ProgressState, GoesBackWithALearnerThatBeganAgainFromItsCheckpoint) {
  ProgressState state({.agents = {{}}});
  state.update(MetricRow{.wall_s = 1, .env_steps = 10, .learner_steps = 5});
  state.update(MetricRow{.wall_s = 2, .env_steps = 11, .learner_steps = 3});
  state.update(Evaluation{.source = "evaluator", .values = {{"return", 7}}});
  EXPECT_EQ(state.line(kWide), "2.0s  return 7.0  env 11  learner 3");
}

TEST(ProgressState, LeavesOutWhatNobodyReported) {
  ProgressState state({.agents = {{.max_env_steps = 100}}});
  state.update(MetricRow{.wall_s = 1, .env_steps = 10, .learner_steps = 0});
  EXPECT_EQ(state.line(kWide), "1.0s  env 10  learner 0");  // no rate: the time left is unknown
}

TEST(ProgressState, LeavesOutTheLastPartsOfALineThatIsTooLong) {
  ProgressState state({.max_minutes = 5, .agents = {{}}});
  state.update(full_row());
  state.update(kEvaluated);
  EXPECT_EQ(state.line(79), "1m05s (3m55s left)  return 812.3  env 12.3k (1.20k/s)  learner 1.54k (150/s)");
  EXPECT_EQ(state.line(32), "1m05s (3m55s left)  return 812.3");
  EXPECT_EQ(state.line(31), "1m05s (3m55s left)");
  EXPECT_EQ(state.line(0), "1m05s (3m55s left)");
}

TEST(ProgressState, TimeLeftIsThatOfTheNearestLimit) {
  const auto left = [](RunLimits limits) {
    ProgressState state(limits);
    state.update(full_row());
    return state.left_s();
  };
  EXPECT_DOUBLE_EQ(left({.agents = {{.max_env_steps = 24345}}}), 10);
  EXPECT_DOUBLE_EQ(left({.agents = {{.max_learner_steps = 3040}}}), 10);
  EXPECT_DOUBLE_EQ(left({.max_minutes = 1.1, .agents = {{.max_env_steps = 24345, .max_learner_steps = 3040}}}), 1);
  EXPECT_DOUBLE_EQ(left({.agents = {{.max_env_steps = 10}}}), 0);  // a step over the limit
  EXPECT_TRUE(std::isinf(left({.agents = {{}}})));
}

TEST(ProgressState, TheShareThatIsDoneIsThatOfTheNearestLimit) {
  const auto done = [](RunLimits limits) {
    ProgressState state(limits);
    state.update(full_row());
    return state.share_done();
  };
  // 12,345 env steps, 1,540 learner steps and 65 s
  EXPECT_DOUBLE_EQ(*done({.agents = {{.max_env_steps = 24690}}}), 0.5);
  EXPECT_DOUBLE_EQ(*done({.agents = {{.max_env_steps = 24690, .max_learner_steps = 6160}}}), 0.5);
  EXPECT_DOUBLE_EQ(*done({.max_minutes = 65 / 45.0, .agents = {{.max_learner_steps = 6160}}}), 0.75);
  EXPECT_DOUBLE_EQ(*done({.max_minutes = 65 / 45.0, .agents = {{}}}), 0.75);
  EXPECT_DOUBLE_EQ(*done({.agents = {{.max_env_steps = 10}}}), 1);  // a step over the limit
  // The run ends with the last of its parts, and this group has not begun.
  EXPECT_DOUBLE_EQ(*done({.agents = {{.max_env_steps = 24690}}, .replicas = {{"sngan", {.steps = 10}}}}), 0);
  EXPECT_FALSE(done({.agents = {{}}}).has_value());
}

std::function<std::size_t()> columns_of(std::size_t columns) {
  return [columns] { return columns; };
}

class ProgressOutput : public TestDirectory {
 protected:
  /// What the sink wrote after an evaluation before the first row, rows at 0, 0.1, 0.3, 16 s and an evaluation at 16.1
  /// s.
  std::string output(std::function<std::size_t()> columns) {
    const auto file = path() / "out";
    std::FILE* out = std::fopen(file.c_str(), "wb");
    ManualClock clock;
    ProgressSink sink(ProgressLine(out, std::move(columns), clock), RunLimits{.agents = {{}}});
    const auto write = [&](std::int64_t env_steps) { sink.write({.env_steps = env_steps}).value(); };
    sink.record({.source = "evaluator", .values = {{"return", 8}}}).value();
    write(1);
    clock.advance(milliseconds(100));
    write(2);
    clock.advance(milliseconds(200));
    write(3);
    clock.advance(milliseconds(15700));
    write(4);
    clock.advance(milliseconds(100));
    sink.record({.source = "evaluator", .values = {{"return", 9}}}).value();
    sink.finish();
    std::fclose(out);
    return text_of(file);
  }
};

TEST_F(ProgressOutput, LiveRewritesOneLineFourTimesASecond) {
  EXPECT_EQ(output(columns_of(80)),
            "\r0.0s  return 8.0  env 1  learner 0\x1b[K"
            "\r0.0s  return 8.0  env 3  learner 0\x1b[K"
            "\r0.0s  return 8.0  env 4  learner 0\x1b[K"
            "\r0.0s  return 9.0  env 4  learner 0\x1b[K\n");
}

TEST_F(ProgressOutput, LiveLinesFitTheTerminal) {
  EXPECT_EQ(output(columns_of(17)).substr(0, 20), "\r0.0s  return 8.0\x1b[K");
}

TEST_F(ProgressOutput, PlainWritesALineEveryFifteenSecondsAndForEvaluations) {
  EXPECT_EQ(output(nullptr),
            "0.0s  return 8.0  env 1  learner 0\n"
            "0.0s  return 8.0  env 4  learner 0\n"
            "0.0s  return 9.0  env 4  learner 0\n");
}

TEST(Progress, AClosedOutputDoesNotEndTheRun) {
  std::FILE* full = std::fopen("/dev/full", "wb");
  ManualClock clock;
  ProgressSink sink(ProgressLine(full, nullptr, clock), RunLimits{.agents = {{}}});
  EXPECT_TRUE(sink.write(full_row()).ok());
  EXPECT_TRUE(sink.flush().ok());
  std::fclose(full);
}

class CountingSink final : public MetricSink {
 public:
  explicit CountingSink(Status answer) : answer_(answer) {}
  Status write(const MetricRow&) override { return ++writes, answer_; }
  Status record(const Evaluation&) override { return ++recorded, answer_; }
  Status flush() override { return ++flushes, answer_; }
  int writes = 0;
  int recorded = 0;
  int flushes = 0;

 private:
  Status answer_;
};

TEST(FanOut, AFullDiskDoesNotEndTheRun) {
  CountingSink bad(Error{Code::kIo, "disk full"}), last({});
  FanOut fan_out({&bad, &last});
  EXPECT_TRUE(fan_out.write({}).ok());
  EXPECT_EQ(last.writes, 1);
  EXPECT_EQ(fan_out.flush().error().message, "disk full");
}

TEST(FanOut, ReachesEverySinkAndReturnsTheFirstError) {
  CountingSink good({}), full(Error{Code::kIo, "disk full"}), bad(Error{Code::kCorrupt, "broken"}),
      worse(Error{Code::kCorrupt, "other"}), last({});
  FanOut fan_out({&good, &full, &bad, &worse, &last});
  EXPECT_EQ(fan_out.write({}).error().message, "broken");
  EXPECT_EQ(fan_out.flush().error().message, "disk full");
  for (const CountingSink* sink : {&good, &full, &bad, &worse, &last}) {
    EXPECT_EQ(sink->writes, 1);
    EXPECT_EQ(sink->flushes, 1);
  }
}

TEST(FanOut, RecordsEachEvaluationOnceAndOneThatWasUndoneAgain) {
  CountingSink sink({});
  const std::vector<Evaluation> earlier = {{1, "evaluator", 100}, {2, "evaluator", 200}};
  FanOut fan_out({&sink}, earlier);
  const auto record = [&](const std::string& source, std::int64_t step) {
    fan_out.record({3, source, step}).value();
    return std::exchange(sink.recorded, 0);
  };
  EXPECT_EQ(record("evaluator", 200), 0) << "an earlier start has recorded it";
  EXPECT_EQ(record("gan-evaluator", 200), 1);
  EXPECT_EQ(record("evaluator", 300), 1);
  EXPECT_EQ(record("evaluator", 300), 0);
  fan_out.rewind({0, 0, 0, {{"evaluator", 150}}}).value();
  EXPECT_EQ(record("evaluator", 100), 0);
  EXPECT_EQ(record("evaluator", 200), 1);
  EXPECT_EQ(record("gan-evaluator", 200), 0);
}

}  // namespace
}  // namespace troupe::apps
