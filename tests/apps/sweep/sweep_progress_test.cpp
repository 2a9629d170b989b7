// What a sweep says of how far it is, beside run directories that are written as runs write them.
#include <filesystem>
#include <string>

#include <fmt/core.h>

#include <troupe/apps/sweep/sweep_progress.hpp>
#include <troupe/run/csv_metrics.hpp>

#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

using std::chrono::seconds;

class SweepProgressTest : public TestDirectory {
 protected:
  SweepProgress progress(std::size_t jobs, int runs) {
    SweepProgress made(jobs, clock);
    for (int i = 0; i < runs; ++i) {
      made.add(fmt::format("swing, seed {}", i), "swing", directory(i), {.agents = {{.max_env_steps = 1000}}});
    }
    return made;
  }
  RunDirectory directory(int run) const { return {path() / std::to_string(run)}; }
  /// As far as a run is that has taken so many steps, ten in each second.
  void record(int run, std::int64_t env_steps, double mean) const {
    const RunDirectory at = directory(run);
    std::filesystem::create_directories(at.path);
    CsvSink sink = CsvSink::open({at.metrics(), at.channels(), at.evaluations()}).value();
    const double wall_s = static_cast<double>(env_steps) / 10;
    sink.write({.wall_s = wall_s, .env_steps = env_steps, .scalars = {{"actor/steps_per_s", 10}}}).value();
    sink.record({.wall_s = wall_s, .source = "evaluator", .step = env_steps, .values = {{"return", mean}}}).value();
    sink.flush().value();
  }

  ManualClock clock;
};

TEST_F(SweepProgressTest, KnowsNothingOfTimeBeforeARunHasRecordedSomething) {
  SweepProgress sweep = progress(2, 4);
  sweep.begins(0);
  sweep.look();
  EXPECT_FALSE(sweep.left_s().has_value());
  EXPECT_EQ(sweep.line(100), "0.0s  swing, seed 0: begins");
}

TEST_F(SweepProgressTest, RunsToComeTakeAsLongAsThoseUnderWay) {
  SweepProgress sweep = progress(1, 3);
  sweep.begins(0);
  record(0, 250, 12.34);
  clock.advance(seconds(25));
  sweep.look();
  EXPECT_DOUBLE_EQ(*sweep.left_s(), 75 + 100 + 100);
  EXPECT_EQ(sweep.line(100), "25.0s (about 4m35s left)  swing, seed 0: 25 %, return 12.3");
}

TEST_F(SweepProgressTest, RunsToComeTakeAsLongAsThoseThatHaveEndedAndShareThePlaces) {
  SweepProgress sweep = progress(2, 5);
  sweep.begins(0);
  sweep.begins(1);
  clock.advance(seconds(50));
  sweep.ends(0, true);
  sweep.begins(2);
  sweep.look();
  // Number 1 is as far as 50 s are long, and so are 2 to 4: two each, and one place has nothing else left.
  EXPECT_DOUBLE_EQ(*sweep.left_s(), 100);
  clock.advance(seconds(10));
  sweep.ends(1, false);  // it failed: how long it took says nothing
  EXPECT_DOUBLE_EQ(*sweep.left_s(), 90);
}

TEST_F(SweepProgressTest, ARunTakesAsLongAsThoseOfItsOwnConfiguration) {
  SweepProgress sweep(1, clock);
  sweep.add("short", "short", directory(0), {.agents = {{}}});
  sweep.add("long", "long", directory(1), {.agents = {{}}});
  sweep.add("long again", "long", directory(2), {.agents = {{}}});
  sweep.begins(0);
  clock.advance(seconds(1));
  sweep.ends(0, true);
  sweep.begins(1);
  clock.advance(seconds(100));
  sweep.ends(1, true);
  EXPECT_DOUBLE_EQ(*sweep.left_s(), 100);
}

TEST_F(SweepProgressTest, CountsRunsThatDoNotFit) {
  SweepProgress sweep = progress(2, 2);
  sweep.begins(0);
  sweep.begins(1);
  sweep.look();
  EXPECT_EQ(sweep.line(49), "0.0s  swing, seed 0: begins  and 1 more");
  EXPECT_EQ(sweep.line(30), "0.0s  swing, seed 0: begins");
  EXPECT_EQ(sweep.line(0), "0.0s");
}

}  // namespace
}  // namespace troupe::apps
