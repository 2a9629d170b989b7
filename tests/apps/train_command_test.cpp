// A small training run from the command line, and everything that it leaves behind.
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <troupe/core/config.hpp>
#include <troupe/run/csv_metrics.hpp>
#include <troupe/run/evaluations.hpp>
#include <troupe/tests/apps/program.hpp>
#include <troupe/tests/apps/test_directory.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe::apps {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class TrainCommand : public TestDirectory {
 protected:
  TrainCommand() {
    std::ofstream(path() / "small.toml") << R"(env = "cartpole-swingup"
max_env_steps = 15000
[replay]
min_items = 300
samples_per_insert = 2
[d4pg]
policy_layers = [16]
critic_layers = [16]
[learner]
batch_size = 16
[evaluator]
episodes = 2
every_learner_steps = 50
[metrics]
every_s = 0.05
)";
  }
  ProgramResult run(const std::string& arguments) { return run_program(path(), arguments); }
  std::vector<MetricRow> rows(const std::string& directory) const {
    Result<std::vector<MetricRow>> read = read_metrics_csv(path() / directory / "metrics.csv");
    EXPECT_TRUE(read.ok()) << read.error().message;
    return std::move(read).value();
  }
  std::vector<Evaluation> evaluations(const std::string& directory) const {
    Result<std::vector<Evaluation>> read = read_evaluations_csv(path() / directory / "evaluations.csv");
    EXPECT_TRUE(read.ok()) << read.error().message;
    return std::move(read).value();
  }
};

TEST_F(TrainCommand, SaysWhereNothingIsLearnt) {
  const ProgramResult steps = run("train small.toml --run-dir a --set max_env_steps=500 --set replay.min_items=600");
  EXPECT_EQ(steps.exit_code, 0) << steps.err;
  EXPECT_THAT(steps.err, HasSubstr("TRP-W108 replay.min_items is 600, and max_env_steps 500: nothing will be learnt"));
  const ProgramResult time =
      run("train small.toml --run-dir b --set max_minutes=0.01 --set max_env_steps=0 "
          "--set replay.max_items=1000000 --set replay.min_items=1000000");
  EXPECT_EQ(time.exit_code, 0) << time.err;
  EXPECT_THAT(time.err, ContainsRegex("TRP-W109 nothing was learnt: the learner took no step in [0-9]+ env steps, "
                                      "replay.min_items is 1000000\n"));
  EXPECT_EQ(time.err.find("TRP-W108"), std::string::npos) << time.err;
}

TEST_F(TrainCommand, RecordsTheRunAndGoesOnWithIt) {
  const ProgramResult first = run("train small.toml --run-dir a --seed 5");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.out.find("training on cartpole-swingup in a\n"), std::string::npos) << first.out;
  EXPECT_NE(first.out.find("\n  ended by       max_env_steps\n"), std::string::npos) << first.out;
  EXPECT_EQ(first.out.find('\x1b'), std::string::npos);  // no terminal, no control characters
  for (const char* name : {"config.toml", "metrics.csv", "channels.csv", "evaluations.csv", "learning_curve.svg",
                           "summary.json", "status.json", "log.txt", "checkpoints"}) {
    EXPECT_TRUE(std::filesystem::exists(path() / "a" / name)) << name;
  }
  EXPECT_NE(file_text(path() / "a/config.toml").find("\nseed = 5\n"), std::string::npos);
  const std::string summary = file_text(path() / "a/summary.json");
  EXPECT_NE(summary.find("\"env_steps\": 15000,"), std::string::npos) << summary;
  EXPECT_NE(summary.find("\"seed\": 5,"), std::string::npos) << summary;
  EXPECT_NE(summary.find("\"episodes\": 2}"), std::string::npos) << summary;
  const std::vector<MetricRow> before = rows("a");
  EXPECT_EQ(before.back().env_steps, 15000);
  const std::vector<Evaluation> found = evaluations("a");
  ASSERT_GT(found.size(), 1u);
  EXPECT_EQ(found.front().source, "evaluator");
  EXPECT_EQ(found.back().source, "final");
  EXPECT_EQ(found.back().env_steps, 15000);

  const ProgramResult second = run("train small.toml --resume a --seed 5 --set max_env_steps=25000 --quiet");
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(second.out, "");
  EXPECT_NE(file_text(path() / "a/summary.json").find("\"env_steps\": 25000,"), std::string::npos);
  const std::vector<MetricRow> after = rows("a");
  ASSERT_GT(after.size(), 2u);
  EXPECT_EQ(after.front().wall_s, before.front().wall_s);
  MetricRow last;
  for (const MetricRow& row : after) {
    EXPECT_GE(row.wall_s, last.wall_s);
    EXPECT_GE(row.env_steps, last.env_steps);
    EXPECT_GE(row.learner_steps, last.learner_steps);
    last = row;
  }
  EXPECT_EQ(after.back().env_steps, 25000);
  std::set<std::pair<std::string, std::int64_t>> once;
  for (const Evaluation& evaluation : evaluations("a")) {
    EXPECT_TRUE(once.emplace(evaluation.source, evaluation.step).second) << evaluation.source << evaluation.step;
  }
  EXPECT_TRUE(once.contains({"final", found.back().step})) << "that of the first start";
  EXPECT_GT(once.size(), found.size());
}

TEST_F(TrainCommand, ARunThatHasEndedIsEvaluatedNoSecondTime) {
  ASSERT_EQ(run("train small.toml --run-dir e --quiet --set max_env_steps=3000").exit_code, 0);
  const std::string before = file_text(path() / "e/evaluations.csv");
  ASSERT_NE(before.find(",final,"), std::string::npos) << before;
  ASSERT_EQ(run("train small.toml --resume e --quiet --set max_env_steps=3000").exit_code, 0);
  EXPECT_EQ(file_text(path() / "e/evaluations.csv").substr(0, before.size()), before);
  std::set<std::int64_t> finals;
  for (const Evaluation& evaluation : evaluations("e")) {
    if (evaluation.source != "final") continue;
    EXPECT_TRUE(finals.insert(evaluation.step).second) << evaluation.step;
  }
}

TEST_F(TrainCommand, ATermSignalMakesACheckpointAndExitsWith0) {
  const std::string program = binary_dir() + "/bin/troupe";
  const std::string directory = path() / "b", config = path() / "small.toml";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    execl(program.c_str(), "troupe", "train", config.c_str(), "--run-dir", directory.c_str(), "--quiet", "--set",
          "max_env_steps=0", nullptr);
    _exit(127);
  }
  // Evaluations mean that the run is under way.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!std::filesystem::exists(path() / "b/evaluations.csv") ||
         file_text(path() / "b/evaluations.csv").find(",evaluator,") == std::string::npos) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  kill(child, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const std::string summary = file_text(path() / "b/summary.json");
  EXPECT_NE(summary.find("\"stop_reason\": \"stop requested\""), std::string::npos);
  const std::vector<Evaluation> recorded = evaluations("b");
  ASSERT_FALSE(recorded.empty()) << "the test stopped the run before its first evaluation";
  const double mean = find_scalar(recorded.back().values, kReturn).value_or(-1);
  EXPECT_NE(summary.find(fmt::format("\"final_return\": {{\"mean\": {}, ", mean)), std::string::npos) << summary;
  EXPECT_FALSE(std::filesystem::is_empty(path() / "b/checkpoints"));
}

TEST_F(TrainCommand, ATermSignalEndsALongFinalEvaluation) {
  const ProgramResult ended = run_script(path(), R"(
troupe train small.toml --run-dir b --set max_env_steps=500 --set evaluator.episodes=1000 \
  --set evaluator.every_learner_steps=1000000 >out 2>&1 &
until ls b/checkpoints/step-* >/dev/null 2>&1; do sleep 0.05; done
sleep 0.5
kill -TERM $!
timeout 10 tail --pid=$! -f /dev/null && wait $!
)");
  EXPECT_EQ(ended.exit_code, 0) << text_of(path() / "out");
  const std::string summary = file_text(path() / "b/summary.json");
  EXPECT_NE(summary.find("\"stop_reason\": \"max_env_steps\""), std::string::npos) << summary;
  EXPECT_NE(summary.find("\"final_return\": null"), std::string::npos) << summary;
}

TEST_F(TrainCommand, ARunWhoseDirectoryIsMovedLeavesAnotherInItsPlaceAlone) {
  const ProgramResult ended = run_script(path(), R"(
troupe train small.toml --run-dir b --set max_env_steps=0 >out 2>&1 &
until ls b/checkpoints/step-* >/dev/null 2>&1 || [ -s b/metrics.csv ]; do sleep 0.05; done
mv b moved
mkdir b
head -1 moved/config.toml >b/config.toml
timeout 20 tail --pid=$! -f /dev/null
wait $!
)");
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_NE(text_of(path() / "out").find("run directory b: it was moved or replaced"), std::string::npos)
      << text_of(path() / "out");
  for (const auto& entry : std::filesystem::directory_iterator(path() / "b")) {
    EXPECT_EQ(entry.path().filename(), "config.toml") << entry.path();
  }
  EXPECT_TRUE(std::filesystem::exists(path() / "b/config.toml"));
}

/// A run on a terminal of its own, which the test can close.
class Terminal {
 public:
  Terminal(const std::filesystem::path& directory, const std::vector<std::string>& arguments) {
    pid_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (pid_ != 0) return;
    std::filesystem::current_path(directory);
    const std::string program = binary_dir() + "/bin/troupe";
    std::vector<char*> words = {const_cast<char*>(program.c_str())};
    for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    execv(program.c_str(), words.data());
    _exit(127);
  }
  ~Terminal() {
    hang_up();
    if (pid_ > 0) kill(pid_, SIGKILL);
  }
  /// Not where /dev/pts is not mounted: some containers and chroots.
  bool is_there() const { return pid_ > 0; }
  void hang_up() {
    if (terminal_ >= 0) close(std::exchange(terminal_, -1));
  }
  /// Reads what was written, so that nobody waits for room. False at the end.
  bool read_some(std::string* text = nullptr) {
    char bytes[4096];
    pollfd file{terminal_, POLLIN, 0};
    if (poll(&file, 1, 50) <= 0) return true;
    const ssize_t got = read(terminal_, bytes, sizeof bytes);
    if (text != nullptr && got > 0) text->append(bytes, static_cast<std::size_t>(got));
    return got > 0;
  }
  /// The status that waitpid() gives; -1 after 60 s.
  int wait() {
    int status = 0;
    for (int i = 0; i < 1200; ++i) {
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return status;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return -1;
  }

 private:
  int terminal_ = -1;
  pid_t pid_ = -1;
};

class ClosedTerminal : public TrainCommand, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(, ClosedTerminal, ::testing::Values("--seed=1", "--processes"),
                         [](const auto& info) { return info.index == 0 ? "InOneProcess" : "OverProcesses"; });

TEST_P(ClosedTerminal, MakesALastCheckpoint) {
  Terminal terminal(path(), {"train", "small.toml", "--run-dir", "t", "--set", "max_env_steps=0", GetParam()});
  if (!terminal.is_there()) GTEST_SKIP() << "needs pseudo terminals (/dev/pts)";
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (file_text(path() / "t/metrics.csv").find("learner/steps_per_s") == std::string::npos) {
    ASSERT_TRUE(terminal.read_some()) << "it has ended";
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  terminal.hang_up();
  const int status = terminal.wait();
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_NE(file_text(path() / "t/summary.json").find("\"stop_reason\": \"stop requested\""), std::string::npos);
  EXPECT_FALSE(std::filesystem::is_empty(path() / "t/checkpoints"));
}

TEST_F(TrainCommand, ADumbTerminalGetsNoEscapes) {
  for (const char* const term : {"dumb", "xterm"}) {
    setenv("TERM", term, 1);
    Terminal terminal(path(), {"train", "small.toml", "--run-dir", term, "--set", "max_env_steps=400"});
    if (!terminal.is_there()) GTEST_SKIP() << "needs pseudo terminals (/dev/pts)";
    std::string text;
    while (terminal.read_some(&text)) {
    }
    EXPECT_EQ(terminal.wait(), 0) << text;
    EXPECT_NE(text.find("ended by"), std::string::npos) << text;
    EXPECT_EQ(text.find('\x1b') == std::string::npos, term == std::string("dumb")) << text;
  }
}

TEST_F(TrainCommand, LimitsOfTheSystemEndInOneError) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer wants more address space than the limits leave";
#endif
  struct Case {
    std::string limit, arguments, expected;
    bool at_once = true;
  };
  // Each env actor has 8 MB of stack and 12 of arena, each episode of an evaluation the latter. What shows only when
  // roles are made is tried again for a while.
  for (const Case& c : {Case{"ulimit -v 3000000", "--set actors.count=400", "env actors in 1 process need at least"},
                        Case{"true", "--set actors.count=1024 --set d4pg.policy_layers=[8192,8192]",
                             "env actors in 1 process need at least"},
                        Case{"ulimit -v 3000000", "--set actors.count=140", "ulimit -v", false},
                        Case{"ulimit -v 3000000", "--set evaluator.episodes=1000", "TRP-E153 out of memory", false}}) {
    const ProgramResult result =
        run_script(path(), c.limit + "; troupe train small.toml --run-dir x " + c.arguments + "\n");
    EXPECT_EQ(result.exit_code, 1) << c.limit << result.err;
    EXPECT_NE(result.err.find(c.expected), std::string::npos) << c.limit << result.err;
    if (c.at_once) {
      EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    }
  }
}

TEST_F(TrainCommand, TooFewAddressesAbortNothing) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer wants more address space than the limits leave";
#endif
  for (int kilobytes = 400'000; kilobytes <= 850'000; kilobytes += 50'000) {
    std::filesystem::remove_all(path() / "a");
    const ProgramResult result = run_script(
        path(), fmt::format("ulimit -v {}; troupe train small.toml --run-dir a --set max_env_steps=400\n", kilobytes));
    // glibc itself ends a process where it cannot remember which of a thread's variables are to be destroyed.
    const bool by_glibc = result.err.find("Fatal glibc error: failed to register TLS destructor") != std::string::npos;
    EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 1 || by_glibc)
        << kilobytes << ": " << result.exit_code << result.err;
  }
}

TEST_F(TrainCommand, ALimitOfFilesIsAFullDisk) {
  const ProgramResult result =
      run_script(path(), "ulimit -f 20; troupe train small.toml --run-dir f --set max_env_steps=400\n");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.err.find("File too large"), std::string::npos) << result.err;
}

TEST_F(TrainCommand, ClosedStandardStreamsAreNoFilesOfTheRun) {
  for (const std::string closed : {"<&- >&- 2>&-", "<&- 2>&-", ">&-", "<&-"}) {
    std::filesystem::remove_all(path() / "n");
    const ProgramResult result =
        run_script(path(), "troupe train small.toml --run-dir n --set max_env_steps=400 " + closed);
    EXPECT_EQ(result.exit_code, 0) << closed;
    EXPECT_FALSE(rows("n").empty()) << closed;
    EXPECT_EQ(file_text(path() / "n/metrics.csv").find("training on"), std::string::npos) << closed;
    EXPECT_NE(file_text(path() / "n/summary.json").find("\"env_steps\": 400,"), std::string::npos) << closed;
  }
}

TEST_F(TrainCommand, RendersTheTrainedPolicy) {
  ASSERT_EQ(run("train small.toml --run-dir c --quiet --set max_env_steps=400").exit_code, 0);
  const ProgramResult rendered = run("render c --width 64 --height 48");
  if (rendered.exit_code == 1 && rendered.err.find("EGL") != std::string::npos) GTEST_SKIP() << rendered.err;
  ASSERT_EQ(rendered.exit_code, 0) << rendered.err;
  EXPECT_NE(rendered.out.find(" in 1000 steps of cartpole-swingup with the policy of learner step "), std::string::npos)
      << rendered.out;
  EXPECT_EQ(file_text(path() / "c/render/strip.png").substr(1, 3), "PNG");
  EXPECT_EQ(file_text(path() / "c/render/episode.gif").substr(0, 6), "GIF89a");
}

}  // namespace
}  // namespace troupe::apps
