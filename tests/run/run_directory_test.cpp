#include <troupe/run/run_directory.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <csignal>
#include <iterator>
#include <optional>
#include <thread>
#include <vector>

#include <troupe/actors/control/chief_journal.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/stop_request.hpp>

#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

class RunDirectoryTest : public TestDirectory {
 protected:
  RunDirectoryTest() : before_(std::filesystem::current_path()) { std::filesystem::current_path(path()); }
  ~RunDirectoryTest() override { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

TEST_F(RunDirectoryTest, NamesCarryTheTimeAndDoNotCollide) {
  const Result<ClaimedRun> first = make_run_directory({.name = "cartpole", .unix_s = 1'700'000'000});
  const Result<ClaimedRun> second = make_run_directory({.name = "cartpole", .unix_s = 1'700'000'000});
  ASSERT_TRUE(first.ok()) << first.error().message;
  ASSERT_TRUE(second.ok()) << second.error().message;
  const std::string name = first->run().path.string();
  EXPECT_EQ(name.substr(0, 16), "runs/cartpole-20");
  EXPECT_EQ(name.size(), std::string("runs/cartpole-20231114-221320").size());
  EXPECT_EQ(second->run().path.string(), name + "-2");
  EXPECT_TRUE(std::filesystem::is_directory(second->run().path));
}

TEST_F(RunDirectoryTest, ANameOfAnyLengthMakesADirectory) {
  for (const std::string& name : std::vector<std::string>{std::string(250, 'x'), std::string(255, 'x'),
                                                          "Gr\xC3\xB6\xC3\x9F"
                                                          "e (1)",
                                                          ".hidden", "-"}) {
    const Result<ClaimedRun> made = make_run_directory({.name = name, .unix_s = 1'700'000'000});
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_TRUE(std::filesystem::is_directory(made->run().path)) << made->run().path;
  }
  const std::string long_path = std::string(200, 'a') + "/" + std::string(200, 'b');
  EXPECT_TRUE(make_run_directory({.requested = long_path, .name = "x"}).ok());
  const Result<ClaimedRun> too_long = make_run_directory({.requested = std::string(3900, '/') + "x", .name = "x"});
  EXPECT_EQ(too_long.error().code, Code::kInvalidArgument);
  EXPECT_NE(too_long.error().message.find("the path has 3901 bytes, expected at most 3776"), std::string::npos)
      << too_long.error().message;
}

TEST_F(RunDirectoryTest, TheIdIsTheDirectorysNameMadeSafe) {
  EXPECT_EQ(RunDirectory{"runs/a-1"}.id(), "a-1");
  EXPECT_EQ(RunDirectory{"runs/a-1/"}.id(), "a-1");
  EXPECT_EQ(RunDirectory{"runs/a-1/../b"}.id(), "b");
  EXPECT_EQ(RunDirectory{"./b/."}.id(), "b");
  EXPECT_EQ(RunDirectory{"."}.id(), safe_name(path().filename().string()));
  EXPECT_EQ(RunDirectory{"x/My run"}.id(), safe_name("My run"));
  EXPECT_NE(RunDirectory{"x/My run"}.id(), RunDirectory{"x/my run"}.id());
  EXPECT_FALSE(RunDirectory{""}.id().empty());
  EXPECT_FALSE(RunDirectory{"/"}.id().empty());
}

TEST_F(RunDirectoryTest, ARequestedDirectoryMustBeEmpty) {
  {
    Result<ClaimedRun> made = make_run_directory({.requested = "a/b", .name = "x"});
    ASSERT_TRUE(made.ok()) << made.error().message;
    made->keep();
  }
  EXPECT_TRUE(make_run_directory({.requested = "a/b", .name = "x"}).ok());  // there and empty
  EXPECT_TRUE(std::filesystem::exists("a/b")) << "it was there before";
  std::ofstream("a/b/file") << "x";
  const Result<ClaimedRun> taken = make_run_directory({.requested = "a/b", .name = "x"});
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, Code::kAlreadyExists);
  EXPECT_EQ(taken.error().message, "run directory a/b: is not empty; go on from it with --resume, or name another");
  std::ofstream("file") << "x";
  EXPECT_EQ(make_run_directory({.requested = "file/sub", .name = "x"}).error().code, Code::kIo);
}

TEST_F(RunDirectoryTest, OfARunThatNeverBeganNothingIsLeft) {
  {
    const Result<ClaimedRun> made = make_run_directory({.requested = "a/b/c", .name = "x"});
    ASSERT_TRUE(made.ok());
    for (const char* name : {"config.toml", "log.txt", "metrics.csv", "evaluations.csv", "events.out.tfevents.1.host",
                             "config.toml.tmp-7"}) {
      std::ofstream(made->run().path / name) << "x";
    }
    std::filesystem::create_directories(made->run().path / "nodes/chief");
  }
  EXPECT_FALSE(std::filesystem::exists("a"));
  { const Result<ClaimedRun> made = make_run_directory({.name = "x"}); }
  EXPECT_FALSE(std::filesystem::exists("runs"));
  std::filesystem::create_directories("runs/other");
  { const Result<ClaimedRun> made = make_run_directory({.name = "x"}); }
  EXPECT_TRUE(std::filesystem::exists("runs/other"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator("runs"), {}), 1);
  {
    const Result<ClaimedRun> made = make_run_directory({.requested = "d", .name = "x"});
    std::ofstream("d/notes.txt") << "somebody's";
  }
  EXPECT_TRUE(std::filesystem::exists("d/notes.txt"));
}

TEST_F(RunDirectoryTest, WhoeverHasClaimedItHasItAlone) {
  {
    Result<ClaimedRun> made = make_run_directory({.requested = "a", .name = "x"});
    ASSERT_TRUE(made.ok());
    EXPECT_EQ(RunLock::take({"a"}).error().code, Code::kUnavailable);
    EXPECT_EQ(make_run_directory({.requested = "a", .name = "x"}).error().code, Code::kUnavailable);
    EXPECT_EQ(ClaimedRun::reopen({"a"}).error().code, Code::kUnavailable);
  }
  EXPECT_FALSE(std::filesystem::exists("a"));
  std::optional<ClaimedRun> other;
  {
    Result<ClaimedRun> made = make_run_directory({.requested = "a", .name = "x"});
    ASSERT_TRUE(made.ok());
    std::ofstream("a/config.toml") << "env = 'a'";
    made->unlock();
    other.emplace(ClaimedRun::reopen({"a"}).value());
  }
  EXPECT_TRUE(std::filesystem::exists("a/config.toml")) << "somebody else trains there by then";
}

class StartedRun : public RunDirectoryTest {
 protected:
  StartedRun() {
    std::filesystem::create_directories("a/checkpoints/chief");
    std::filesystem::create_directories("a/checkpoints/.unfinished-step-000000001");
    std::filesystem::create_directories("a/security");
    for (const char* name : {"log.txt", "metrics.csv", "channels.csv", "events.out.tfevents.1.host"}) {
      std::ofstream(std::string("a/") + name) << "x";
    }
    EXPECT_TRUE(write_config({"a"}, parse_config("", "", {}, {}).value()).ok());
  }
  static bool refused(const std::string& config = "") {
    const auto made = make_run_directory({.requested = "a", .name = "x", .config = config});
    return !made.ok() && made.error().code == Code::kAlreadyExists;
  }
};

TEST_F(StartedRun, BeforeItsFirstCheckpointMayBeRepeated) {
  actors::ChiefJournal journal{.nodes = {{"chief", 1}, {"learner", 1}}};
  ASSERT_TRUE(actors::save_journal("a/chief.json", journal).ok());
  std::filesystem::create_directories("a/checkpoints/learner/step-000000001");  // a cut that no other node has written
  {
    Result<ClaimedRun> again = make_run_directory({.requested = "a", .name = "x"});
    ASSERT_TRUE(again.ok()) << again.error().message;
    again->keep();
  }
  EXPECT_TRUE(std::filesystem::exists("a/log.txt")) << "it may say why the first start ended";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator("a"), {}), 1);
  EXPECT_TRUE(refused()) << "a log alone is no start of a run";
}

TEST_F(StartedRun, SetsAsideWhatWasRecordedWithoutACheckpoint) {
  const auto begin_again = [] {
    Result<ClaimedRun> again = make_run_directory({.requested = "a", .name = "x"});
    ASSERT_TRUE(again.ok()) << again.error().message;
    again->keep();
  };
  std::ofstream("a/metrics.csv") << "wall_s\n1\n";
  EXPECT_TRUE(is_recorded({"a"}));
  begin_again();
  EXPECT_EQ(text_of("a/earlier-1/metrics.csv"), "wall_s\n1\n");
  EXPECT_TRUE(std::filesystem::exists("a/earlier-1/config.toml"));
  EXPECT_FALSE(std::filesystem::exists("a/metrics.csv"));
  EXPECT_FALSE(is_recorded({"a"}));
  ASSERT_TRUE(write_config({"a"}, parse_config("", "", {}, {}).value()).ok());
  std::ofstream("a/evaluations.csv") << "wall_s\n2\n";
  EXPECT_TRUE(is_recorded({"a"}));
  begin_again();
  EXPECT_EQ(text_of("a/earlier-1/metrics.csv"), "wall_s\n1\n");
  EXPECT_EQ(text_of("a/earlier-2/evaluations.csv"), "wall_s\n2\n");
  EXPECT_TRUE(std::filesystem::exists("a/earlier-1/events.out.tfevents.1.host"));
  {  // a start that fails at once
    Result<ClaimedRun> failed = make_run_directory({.requested = "a", .name = "x"});
    ASSERT_TRUE(failed.ok()) << failed.error().message;
  }
  EXPECT_TRUE(std::filesystem::exists("a/log.txt")) << "of those before";
  begin_again();
  std::ofstream("a/earlier-notes.txt") << "x";
  EXPECT_TRUE(refused()) << "somebody's own";
}

TEST_F(StartedRun, KeepsEveryCheckpointAndWhatIsNotItsOwn) {
  const auto refused_with = [&](const char* folder) {
    std::filesystem::create_directories(folder);
    std::ofstream(std::string(folder) + "/x") << "x";
    const bool is = refused();
    std::filesystem::remove_all(folder);
    return is;
  };
  EXPECT_TRUE(refused_with("a/checkpoints/step-000000001"));
  EXPECT_TRUE(refused_with("a/checkpoints/.replaced-step-000000001"));
  EXPECT_TRUE(refused_with("a/checkpoints/backup")) << "of somebody who has renamed it";
  EXPECT_TRUE(refused_with("a/checkpoints/learner")) << "a part of a cut, for all that is known";
  EXPECT_TRUE(refused_with("a/thesis"));
  ASSERT_TRUE(actors::save_journal("a/chief.json", {.last_cut = 1, .nodes = {{"learner", 1}}}).ok());
  EXPECT_TRUE(refused_with("a/checkpoints/learner")) << "of a cut whose cut.json is gone";
  std::filesystem::remove("a/chief.json");
  std::ofstream("a/summary.json") << "{}";
  EXPECT_TRUE(refused()) << "it has ended";
  std::filesystem::remove("a/summary.json");
  std::filesystem::rename("a/checkpoints", "elsewhere");
  std::filesystem::create_directory_symlink("nowhere", "a/checkpoints");
  EXPECT_TRUE(refused()) << "another disk's";
  std::filesystem::remove("a/checkpoints");
  std::filesystem::create_directory("other");
  EXPECT_TRUE(refused("other/../a/config.toml")) << "the configuration that is to be trained";
  std::ofstream("a/config.toml") << "# mine\nenv = 'a'\n";
  EXPECT_TRUE(refused()) << "no run has written it";
  ASSERT_TRUE(write_config({"a"}, parse_config("", "", {}, {}).value()).ok());
  EXPECT_FALSE(refused()) << "nothing of that is left";
}

TEST_F(RunDirectoryTest, ItsRecordsAreKnown) {
  std::filesystem::create_directories("a/checkpoints");
  for (const char* name : {"a/config.toml", "a/checkpoints/x", "a/log.txt", "a/../a/metrics.csv", "a/evaluations.csv",
                           "a/events.out.tfevents.7"}) {
    EXPECT_TRUE(is_record_of({"a"}, name)) << name;
  }
  for (const char* name : {"a/export/x.onnx", "a/render/x.png", "a/x.png", "config.toml", "b/config.toml", "a"}) {
    EXPECT_FALSE(is_record_of({"a"}, name)) << name;
  }
}

TEST_F(RunDirectoryTest, OnlyARunCanBeOpened) {
  EXPECT_EQ(open_run_directory("absent").error().message, "absent: not the directory of a run: it has no config.toml");
  std::ofstream("config.toml") << "env = 'a'";
  const Result<RunDirectory> run = open_run_directory(".");
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->checkpoints(), "./checkpoints");
  std::ofstream("config.toml").close();
  EXPECT_THAT(open_run_directory(".").error().message, testing::HasSubstr(".: its config.toml is empty"));
}

TEST_F(RunDirectoryTest, WhereItsFilesGoMustBeNoFolders) {
  std::filesystem::create_directories("a/checkpoints/step-000000000001");
  ASSERT_TRUE(check_resumable({"a"}, false).ok());
  for (const char* name : {"a/summary.json", "a/status.json", "a/learning_curve.svg"}) {
    std::filesystem::create_directory(name);
    EXPECT_EQ(check_resumable({"a"}, false).error().message,
              std::string(name) + ": is no file, and the run writes one there: move it away");
    std::filesystem::remove(name);
    std::ofstream(name) << "{}";
    EXPECT_TRUE(check_resumable({"a"}, false).ok()) << name;
  }
}

TEST_F(RunDirectoryTest, OneProcessAtATimeTrainsInIt) {
  const RunDirectory run{"."};
  {
    const Result<RunLock> first = RunLock::take(run);
    ASSERT_TRUE(first.ok()) << first.error().message;
    const Result<RunLock> second = RunLock::take(run);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().message, ".: another process trains in this directory");
  }
  EXPECT_TRUE(RunLock::take(run).ok());
  EXPECT_EQ(RunLock::take({"absent"}).error().code, Code::kIo);
}

TEST_F(RunDirectoryTest, WhoLooksAtARunDoesNotKeepItFromBeginning) {
  const RunDirectory run{"."};
  std::atomic<bool> ends = false;
  std::thread looks([&] {
    while (!ends) EXPECT_TRUE(progress_of(run).ok());
  });
  int refused = 0;
  for (int i = 0; i < 300; ++i) refused += RunLock::take(run).ok() ? 0 : 1;
  EXPECT_EQ(refused, 0);
  ends = true;
  looks.join();
}

TEST(StopRequest, TheFirstSignalAsksAndALaterOneEnds) {
  {
    const StopRequest stop;
    EXPECT_FALSE(stop.flag());
    std::raise(SIGTERM);
    std::raise(SIGTERM);  // the same request, on another way
    EXPECT_TRUE(stop.flag());
  }
  {
    const StopRequest stop;
    EXPECT_FALSE(stop.flag());  // a new request starts unset
    std::raise(SIGINT);
    EXPECT_TRUE(stop.flag());
  }
  {
    const StopRequest stop;
    std::raise(SIGHUP);
    std::this_thread::sleep_for(StopRequest::kSameRequest);
    std::raise(SIGHUP);  // kernel and shell both say that the terminal is gone
    EXPECT_TRUE(stop.flag());
  }
  {
    const auto before = std::signal(SIGHUP, SIG_IGN);  // nohup
    {
      const StopRequest stop;
      std::raise(SIGHUP);
      EXPECT_FALSE(stop.flag());
    }
    EXPECT_EQ(std::signal(SIGHUP, before), SIG_IGN);
  }
  EXPECT_EXIT(
      {
        const StopRequest stop;
        std::raise(SIGTERM);
        std::raise(SIGINT);  // Ctrl-C, by somebody who has waited enough
      },
      testing::KilledBySignal(SIGINT), "");
  EXPECT_EXIT(
      {
        const StopRequest stop;
        std::raise(SIGTERM);
        std::this_thread::sleep_for(StopRequest::kSameRequest);
        std::raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
}

/// Ends with 0, unless one of the signals ends it.
[[noreturn]] void ask_from_two_threads_at_once(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const StopRequest stop;
    std::atomic<int> here{0};
    const auto ask = [&here] {
      for (++here; here < 2;) {
      }
      std::raise(SIGTERM);  // to the thread that calls
    };
    const std::jthread one(ask), other(ask);
  }
  std::_Exit(0);  // what other tests' libraries do at the end they cannot do in a forked process
}

TEST(StopRequest, TheSameRequestMayReachSeveralThreadsAtOnce) {
  EXPECT_EXIT(ask_from_two_threads_at_once(5000), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace troupe::apps
