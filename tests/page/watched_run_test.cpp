// A run's directory as WatchedRun sees it while the run goes on, when it has ended, and when it is not there any more.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <fstream>

#include <troupe/page/messages.hpp>
#include <troupe/page/watched_run.hpp>
#include <troupe/run/csv_metrics.hpp>

#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::page {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kSeen =
    R"({"run": "r", "seconds": 3, "instances": [{"name": "a-0", "role": "a", "state": "up"}]})";

class WatchedRunTest : public apps::TestDirectory {
 protected:
  apps::RunDirectory run() const { return {path()}; }
  void write(const std::filesystem::path& file, const std::string& text) const {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string status_of_now() const {
    const double now = seconds(std::chrono::system_clock::now().time_since_epoch());
    return fmt::format("{{\"written_unix_s\": {:.1f}, {}", now, std::string_view(kSeen).substr(1));
  }
  ManualClock clock_;
};

TEST_F(WatchedRunTest, ARunThatGoesOnInOneProcessIsKnownByItsStatusFile) {
  write(run().status(), status_of_now());
  WatchedRun watched(run(), nullptr, clock_);
  watched.refresh();
  EXPECT_EQ(watched.state(), WatchedRun::State::kTrains);
  ASSERT_TRUE(watched.seen());
  EXPECT_EQ(watched.seen()->instances.size(), 1U);
}

TEST_F(WatchedRunTest, ASummaryThatIsNewerSaysThatItHasEnded) {
  write(run().status(), status_of_now());
  write(run().summary(), "{}");
  std::filesystem::last_write_time(run().summary(),
                                   std::filesystem::file_time_type::clock::now() + std::chrono::seconds(1));
  WatchedRun watched(run(), nullptr, clock_);
  watched.refresh();
  EXPECT_EQ(watched.state(), WatchedRun::State::kEnded);
}

TEST_F(WatchedRunTest, AnOldStatusAndNoLockIsARunThatIsNotThere) {
  write(run().status(), "{\"written_unix_s\": 1000, \"run\": \"r\"}");
  WatchedRun watched(run(), nullptr, clock_);
  watched.refresh();
  EXPECT_EQ(watched.state(), WatchedRun::State::kStopped);
  const auto lock = apps::RunLock::take(run());
  clock_.advance(std::chrono::seconds(11));
  watched.refresh();
  EXPECT_EQ(watched.state(), WatchedRun::State::kTrains);
}

TEST_F(WatchedRunTest, ADirectoryThatGoesIsToldAndWhatWasReadStays) {
  apps::CsvSink sink = apps::CsvSink::open({run().metrics(), run().channels(), run().evaluations()}).value();
  sink.write({.wall_s = 1, .env_steps = 2, .learner_steps = 3, .scalars = {{"a/b", 4}}}).value();
  WatchedRun watched(run(), nullptr, clock_);
  watched.refresh();
  std::filesystem::remove_all(path());
  clock_.advance(std::chrono::seconds(11));
  watched.refresh();
  EXPECT_EQ(watched.state(), WatchedRun::State::kGone);
  EXPECT_EQ(watched.newest("a/b"), 4);
}

TEST_F(WatchedRunTest, AChiefIsAskedAndOneThatIsSilentOnlySeldom) {
  int asked = 0;
  bool answers = true;
  WatchedRun watched(
      run(),
      [&](const apps::RunDirectory&) -> Result<std::string> {
        ++asked;
        if (answers) return std::string(kSeen);
        clock_.advance(std::chrono::seconds(2));
        return Error{Code::kUnavailable, "the chief is silent"};
      },
      clock_);
  watched.refresh();
  EXPECT_EQ(watched.state(), WatchedRun::State::kTrains);
  answers = false;
  for (int i = 0; i < 10; ++i) {
    watched.refresh();
    clock_.advance(std::chrono::seconds(1));
  }
  EXPECT_EQ(asked, 2);
  EXPECT_NE(watched.state(), WatchedRun::State::kTrains);
  EXPECT_THAT(watched.notes(), ElementsAre(HasSubstr("silent")));
}

TEST_F(WatchedRunTest, NewsAreOnlyWhatThePageHasNotBeenTold) {
  apps::CsvSink sink = apps::CsvSink::open({run().metrics(), run().channels(), run().evaluations()}).value();
  sink.write({.wall_s = 1, .env_steps = 2, .learner_steps = 3, .scalars = {{"a/b", 4}}}).value();
  sink.record({.wall_s = 1, .source = "evaluator", .step = 3, .env_steps = 2, .values = {{"return", 0.125}}}).value();
  write(run().log(), "one\n");
  write(run().samples() / "gan/step-000000010.png", "x");
  write(run().samples() / "gan/notes.txt", "x");
  WatchedRun watched(run(), nullptr, clock_);
  Told told;
  watched.refresh();
  const auto all = nlohmann::json::parse(news_of(watched, told));
  EXPECT_EQ(all["metrics"]["columns"].dump(), "[[1],[2],[3],[4]]");
  EXPECT_EQ(all["evaluations"]["columns"].dump(), "[[1],[\"evaluator\"],[3],[2],[0.125]]");
  EXPECT_EQ(all["log"].dump(), "[\"one\"]");
  EXPECT_EQ(all["pictures"].dump(), "[\"samples/gan/step-000000010.png\"]");
  const auto nothing = nlohmann::json::parse(news_of(watched, told));
  for (const char* part : {"metrics", "evaluations", "log", "pictures", "config"})
    EXPECT_FALSE(nothing.contains(part)) << part;
  sink.write({.wall_s = 2, .env_steps = 2, .learner_steps = 3, .scalars = {{"a/b", 5}}}).value();
  watched.refresh();
  const auto more = nlohmann::json::parse(news_of(watched, told));
  EXPECT_EQ(more["metrics"].dump(), "{\"columns\":[[2],[2],[3],[5]]}");
}

}  // namespace
}  // namespace troupe::page
