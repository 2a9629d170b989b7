#include <troupe/apps/run/run_directory.hpp>

#include <csignal>
#include <thread>

#include <troupe/apps/run/stop_request.hpp>

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
  const Result<RunDirectory> first = make_run_directory({}, "cartpole", 1'700'000'000);
  const Result<RunDirectory> second = make_run_directory({}, "cartpole", 1'700'000'000);
  ASSERT_TRUE(first.ok()) << first.error().message;
  ASSERT_TRUE(second.ok()) << second.error().message;
  const std::string name = first->path.string();
  EXPECT_EQ(name.substr(0, 16), "runs/cartpole-20");
  EXPECT_EQ(name.size(), std::string("runs/cartpole-20231114-221320").size());
  EXPECT_EQ(second->path.string(), name + "-2");
  EXPECT_TRUE(std::filesystem::is_directory(second->path));
}

TEST_F(RunDirectoryTest, ARequestedDirectoryMustBeEmpty) {
  const Result<RunDirectory> made = make_run_directory("a/b", "x", 0);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(make_run_directory("a/b", "x", 0).ok());  // there and empty
  std::ofstream("a/b/file") << "x";
  const Result<RunDirectory> taken = make_run_directory("a/b", "x", 0);
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, Code::kAlreadyExists);
  EXPECT_EQ(taken.error().message, "run directory a/b: is not empty; go on from it with --resume, or name another");
  std::ofstream("file") << "x";
  EXPECT_EQ(make_run_directory("file/sub", "x", 0).error().code, Code::kIo);
}

TEST_F(RunDirectoryTest, OnlyARunCanBeOpened) {
  EXPECT_EQ(open_run_directory("absent").error().message, "absent: not the directory of a run: it has no config.toml");
  std::ofstream("config.toml") << "env = 'a'";
  const Result<RunDirectory> run = open_run_directory(".");
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->checkpoints(), "./checkpoints");
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
        std::raise(SIGINT);
        std::this_thread::sleep_for(StopRequest::kSameRequest);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace troupe::apps
