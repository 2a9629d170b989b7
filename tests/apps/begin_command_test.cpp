// How runs begin, fail to begin, begin again and go on, with the built program.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <troupe/tests/apps/program.hpp>
#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

class BeginCommand : public TestDirectory {
 protected:
  BeginCommand() {
    std::ofstream(path() / "c.toml")
        << "env = 'pendulum-swingup'\nmax_env_steps = 600\n[replay]\nmin_items = 100\n"
           "samples_per_insert = 1\n[d4pg]\npolicy_layers = [4]\ncritic_layers = [4]\n"
           "[learner]\nbatch_size = 8\n[evaluator]\nepisodes = 1\n[metrics]\nevery_s = 0.05\n";
  }
  ProgramResult run(const std::string& arguments) { return run_program(path(), arguments); }
  /// Starts the program, and kills it with everything it has started as soon as `file` is there.
  void kill_once_there_is(const std::vector<std::string>& arguments, const fs::path& file) {
    const std::string program = binary_dir() + "/bin/troupe", where = path().string();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::vector<char*> words = {const_cast<char*>("troupe")};
      for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      if (chdir(where.c_str()) == 0 && freopen("killed.log", "w", stdout) != nullptr)
        execv(program.c_str(), words.data());
      _exit(127);
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!fs::exists(path() / file) && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "it ended before it was killed";
  }
};

TEST_F(BeginCommand, WhatCannotBeginLeavesNothing) {
  const std::vector<std::string> settings = {"learner.device=gpu", "learner.device=cuda:-1",
                                             "d4pg.policy_learning_rate=0", "replay.durability=durable",
                                             "replay.max_bytes=65536 --set replay.min_items=5000"};
  for (const std::string& setting : settings) {
    for (const std::string how : {"", " --run-dir new/run"}) {
      const ProgramResult trained = run("train c.toml --set " + setting + how);
      EXPECT_EQ(trained.exit_code, 78) << setting << trained.err;
      EXPECT_TRUE(trained.err.starts_with("--set ") || trained.err.starts_with("c.toml:")) << trained.err;
      EXPECT_EQ(trained.out, "");
      EXPECT_EQ(run("config c.toml --set " + setting).err, trained.err) << setting;
    }
  }
  EXPECT_FALSE(fs::exists(path() / "runs"));
  EXPECT_FALSE(fs::exists(path() / "new"));
  EXPECT_EQ(run("config c.toml --processes --set replay.durability=durable").exit_code, 0);
}

TEST_F(BeginCommand, WhatFailsAsItBeginsLeavesNothing) {
  // No machine has so many of them, and only the learner finds out.
  const ProgramResult trained = run("train c.toml --run-dir new/run --set learner.device=cuda:77");
  EXPECT_EQ(trained.exit_code, 1) << trained.err;
  EXPECT_FALSE(fs::exists(path() / "new")) << trained.err;
}

TEST_F(BeginCommand, AStartThatWasKilledBeforeItsFirstCheckpointIsRepeated) {
  for (const std::string how : {"", "--processes"}) {
    const std::string directory = "r" + how;
    std::vector<std::string> arguments = {"train", "c.toml", "--run-dir=" + directory, "--set", "max_env_steps=0"};
    if (!how.empty()) arguments.push_back(how);
    kill_once_there_is(arguments, directory + "/metrics.csv");
    ASSERT_TRUE(fs::exists(path() / directory / "config.toml"));
    const ProgramResult resumed = run("train c.toml --resume=" + directory + " " + how);
    EXPECT_EQ(resumed.exit_code, 1);
    EXPECT_EQ(resumed.err, "troupe: " + directory +
                               ": the run has no checkpoint to go on from; start it again with --run-dir " + directory +
                               "\n");
    ProgramResult again;
    for (int attempt = 0; attempt < 50; ++attempt) {  // the killed run's other processes are on their way out
      again = run("train c.toml --run-dir=" + directory + " " + how);
      if (again.err.find("another process trains") == std::string::npos) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    EXPECT_EQ(again.exit_code, 0) << again.out << again.err;
    EXPECT_TRUE(fs::exists(path() / directory / "summary.json"));
    const ProgramResult third = run("train c.toml --run-dir=" + directory + " " + how);
    EXPECT_EQ(third.exit_code, 1) << "now there is something to lose";
    EXPECT_EQ(third.err,
              "troupe: run directory " + directory + ": is not empty; go on from it with --resume, or name another\n");
  }
}

TEST_F(BeginCommand, AStartThatWasKilledAtItsFirstFileIsRepeated) {
  fs::create_directories(path() / "r");
  std::ofstream(path() / "r/config.toml.tmp-4711") << "env = ";
  const ProgramResult begun = run("train c.toml --run-dir r");
  EXPECT_EQ(begun.exit_code, 0) << begun.err;
  fs::create_directories(path() / "s/samples");
  EXPECT_EQ(run("train c.toml --run-dir s").err,
            "troupe: run directory s: is not empty; go on from it with --resume, or name another\n")
      << "whose samples these are, nobody knows";
}

TEST_F(BeginCommand, ARunGoesOnOnlyInTheWayItWasBegun) {
  const auto files = [&](const char* directory) {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(path() / directory)) all.push_back(entry.path().filename());
    std::ranges::sort(all);
    return all;
  };
  ASSERT_EQ(run("train c.toml --quiet --run-dir one").exit_code, 0);
  const ProgramResult quiet = run("train c.toml --quiet --run-dir nodes --processes");
  ASSERT_EQ(quiet.exit_code, 0) << quiet.err;
  EXPECT_EQ(quiet.out + quiet.err, "");
  const auto one = files("one"), nodes = files("nodes");
  EXPECT_EQ(run("train c.toml --resume one --processes").err,
            "troupe: one: the run has no checkpoint of nodes, only of one process: go on from it in one\n");
  EXPECT_EQ(run("train c.toml --resume nodes").err,
            "troupe: nodes: the run has no checkpoint of one process, only of nodes: go on from it over nodes "
            "(--processes, or as it was begun)\n");
  EXPECT_EQ(files("one"), one);
  EXPECT_EQ(files("nodes"), nodes);
  const ProgramResult status = run("status one");
  EXPECT_EQ(status.exit_code, 0) << status.err;
}

TEST_F(BeginCommand, APolicyThatFitsNoMessageIsAMistakeOfTheConfiguration) {
  const ProgramResult large = run("train c.toml --set d4pg.policy_layers=[8192,8192,8192]");
  EXPECT_EQ(large.exit_code, 78);
  EXPECT_TRUE(large.err.starts_with("c.toml: algorithm: its policy is too large: got 134")) << large.err;
  EXPECT_NE(large.err.find(" parameters, expected at most 134217727, as float32 in one message\n"), std::string::npos);
}

TEST_F(BeginCommand, AReaderWhoHasGoneDoesNotEndARun) {
  const ProgramResult ended = run_script(path(), "troupe train c.toml --run-dir r | true; echo ${PIPESTATUS[0]} >code");
  EXPECT_EQ(text_of(path() / "code"), "0\n") << ended.err;
  EXPECT_TRUE(fs::exists(path() / "r/summary.json"));
}

TEST_F(BeginCommand, ResumeNamesTheKeysThatDifferAndMayNot) {
  ASSERT_EQ(run("train c.toml --quiet --run-dir r").exit_code, 0);
  const auto before = fs::last_write_time(path() / "r/log.txt");
  for (const std::string how : {"", " --processes"}) {
    const ProgramResult resumed =
        run("train c.toml --resume r --set d4pg.discount=0.9 --set env=cartpole-swingup --set actors.count=2 "
            "--set d4pg.policy_layers=[5] --set max_env_steps=900" +
            how);
    EXPECT_EQ(resumed.exit_code, 78);
    EXPECT_EQ(resumed.out, "");
    EXPECT_EQ(resumed.err,
              "--set env=cartpole-swingup: env: got \"cartpole-swingup\", but r has \"pendulum-swingup\", which is the "
              "same for all of a run\n"
              "--set actors.count=2: actors.count: got 2, but r has 1, which is the same for all of a run\n"
              "--set d4pg.discount=0.9: d4pg.discount: got 0.9, but r has 0.99, which is the same for all of a run\n"
              "--set d4pg.policy_layers=[5]: d4pg.policy_layers: got [5], but r has [4], which is the same for all "
              "of a run\n");
  }
  EXPECT_EQ(fs::last_write_time(path() / "r/log.txt"), before) << "nothing was begun";
  EXPECT_EQ(run("train c.toml --quiet --resume r --set max_env_steps=900 --set learner.publish_period=3 "
                "--set d4pg.sigma=0.1 --set evaluator.episodes=2")
                .exit_code,
            0);
}

}  // namespace
}  // namespace troupe::apps
