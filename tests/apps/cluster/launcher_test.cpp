// The launcher with shells as nodes: what it prints, whom it starts again, in which order it ends them, and that
// nothing is left. ssh is a script that does what sshd does: the command runs in a session of its own that no signal
// reaches.
#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <troupe/run/stop_request.hpp>
#include <troupe/tests/apps/test_directory.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe::apps {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

bool within(std::chrono::milliseconds time, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

class Launcher : public TestDirectory {
 protected:
  Launcher() {
    std::ofstream(path() / "ssh") << "#!/bin/sh\necho \"ssh got: $*\" >>" << (path() / "ssh.log").string()
                                  << "\necho $$ >" << (path() / "ssh.pid").string() << R"(
while [ "$1" != -- ]; do shift; done
shift
exec 3<&0  # a command in the background would get /dev/null
setsid sh -c "$*" <&3 3<&- &
wait $!
)";
    std::filesystem::permissions(path() / "ssh", std::filesystem::perms::owner_all);
  }
  ~Launcher() override {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  /// Starts the launcher; in the commands, @@ stands for the test's directory.
  void start(std::vector<std::string> arguments, int output = -1) {
    arguments.insert(arguments.begin(), binary_dir() + "/bin/launch_program");
    std::vector<char*> argv;
    for (std::string& argument : arguments) {
      for (std::size_t at; (at = argument.find("@@")) != std::string::npos;) argument.replace(at, 2, path().string());
      argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    std::filesystem::remove(path() / "out");
    pid_ = fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (output < 0) output = open((path() / "out").c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
      dup2(output, 1);
      dup2(output, 2);
      execv(argv[0], argv.data());
      _exit(98);
    }
  }

  /// Its exit code, or minus the signal that ended it; 1000 when it does not end in time.
  int wait_for_end(std::chrono::milliseconds time = 20s) {
    int status = 0;
    if (!within(time, [&] { return waitpid(pid_, &status, WNOHANG) == pid_; })) return 1000;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  int run(const std::vector<std::string>& arguments) {
    start(arguments);
    return wait_for_end();
  }

  std::string out() const { return text_of(path() / "out"); }
  bool says(const std::string& text) const {
    return within(20s, [&] { return out().find(text) != std::string::npos; });
  }

  /// Processes that have the test's directory in their command line: every node's command names it.
  int left_over() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string pid = entry.path().filename();
      if (pid.find_first_not_of("0123456789") != std::string::npos || pid == std::to_string(getpid())) continue;
      std::ifstream stream(entry.path() / "cmdline", std::ios::binary);
      std::string line;
      std::getline(stream, line);  // of a process that ends meanwhile: nothing, where an iterator would throw
      count += line.find(path().string()) != std::string::npos ? 1 : 0;
    }
    return count;
  }
  bool nothing_left(std::chrono::milliseconds time = 10s) const {
    return within(time, [&] { return left_over() == 0; });
  }

  pid_t pid_ = -1;
};

/// A node that says that it runs, on SIGTERM says so too and ends, and else goes on for ever.
constexpr const char* kRuns = "trap 'echo got TERM; exit 0' TERM; echo runs; while :; do sleep 0.05; done; : @@";
/// One that SIGTERM does not impress.
constexpr const char* kStubborn = "trap '' TERM; echo runs; while :; do sleep 0.05; done; : @@";

std::string runs(const std::string& name) { return fmt::format("{}={}", name, kRuns); }
std::string stubborn(const std::string& name) { return fmt::format("{}={}", name, kStubborn); }

TEST_F(Launcher, PutsTheNodesNameBeforeEachOfItsLines) {
  EXPECT_EQ(run({"chief=echo one; echo two >&2; echo; printf 'three\\r\\nno newline'"}), 0);
  EXPECT_EQ(out(), "chief | one\nchief | two\nchief | \nchief | three\nchief | no newline\n");
}

TEST_F(Launcher, NeutralisesEscapesAndCutsLongLines) {
  EXPECT_EQ(
      run({"chief=printf 'a\\033[2Jb\\rother | forged\\t\\n'; head -c 1048576 /dev/zero | tr '\\0' x; echo; echo end"}),
      0);
  const std::string text = out();
  EXPECT_THAT(text, testing::StartsWith("chief | a\\x1b[2Jb\\x0dother | forged\\t\nchief | xxxx"));
  EXPECT_THAT(text, testing::EndsWith("x...\nchief | end\n"));
  EXPECT_LT(text.size(), 4300u);
}

TEST_F(Launcher, GivesEachStartItsInput) {
  EXPECT_EQ(run({"--first-backoff", "0", "chief=cat; read again <@@/again && exit 0; echo x >@@/again; exit 4"}), 0);
  EXPECT_THAT(out(), HasSubstr("chief | chief start 0\nchief | it's \"quoted\" $HOME\n"));
  EXPECT_THAT(out(), HasSubstr("chief | chief start 1\n"));
}

TEST_F(Launcher, StartsANodeAgainThatDiedAndSaysWhy) {
  start({runs("chief"), "actors=echo $$ >@@/pid.$$; mv @@/pid.$$ @@/pid; echo runs; sleep 1000 & wait; : @@"});
  ASSERT_TRUE(says("actors | runs"));
  const pid_t first = std::stoi(text_of(path() / "pid"));
  kill(first, SIGKILL);
  ASSERT_TRUE(within(10s, [&] { return std::stoi(text_of(path() / "pid")) != first; }));
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_THAT(out(), HasSubstr(fmt::format("launcher | TRP-E101 node actors (pid {}) died: signal 9; restarting it in "
                                           "0.1 s (1 of 5 in 60 s)\n",
                                           first)));
  EXPECT_TRUE(nothing_left());
}

TEST_F(Launcher, StartsAFencedNodeAgainAtOnce) {
  start({"--first-backoff", "1000", runs("chief"),
         "actors=read again <@@/again && sleep 1000; echo x >@@/again; exit 75"});
  ASSERT_TRUE(says("died: exit code 75, it was fenced; restarting it in 0 s (1 of 5 in 60 s)"));
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Launcher, ReplacesANodeThatStaysStopped) {
  start({runs("chief"), "actors=read again <@@/again && echo back && sleep 1000; echo x >@@/again; kill -STOP $$",
         "replay=(sleep 0.3; kill -CONT $$) & kill -STOP $$; echo went on; sleep 1000"});
  ASSERT_TRUE(says("died: signal 9; restarting it in 0.1 s (1 of 5 in 60 s)"));
  ASSERT_TRUE(says("actors | back"));
  EXPECT_THAT(out(), HasSubstr("replay | went on"));
  EXPECT_THAT(out(), Not(HasSubstr("node replay")));
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Launcher, AChiefThatIsStoppedForAWhileMakesItsCheckpointAllTheSame) {
  start({"chief=trap 'sleep 0.2; echo saved; exit 0' TERM; echo runs $$; while :; do sleep 0.05; done; : @@"});
  ASSERT_TRUE(says("chief | runs "));
  const std::string text = out();
  const pid_t chief = std::stoi(text.substr(text.find("runs ") + 5));
  kill(chief, SIGSTOP);
  kill(pid_, SIGINT);
  std::this_thread::sleep_for(3s);
  kill(chief, SIGCONT);
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_THAT(out(), HasSubstr("chief | saved\n"));
}

TEST_F(Launcher, LeavesANodeDownThatKeepsDyingAndGoesOn) {
  start({"--first-backoff", "0.001", runs("chief"), "actors=exit 3", "replay=exit 0"});
  ASSERT_TRUE(says("died: exit code 3, after 5 restarts in 60 s; it stays down and the run goes on without it\n"));
  EXPECT_THAT(out(), HasSubstr("restarting it in 0.016 s (5 of 5 in 60 s)\n"));
  EXPECT_THAT(out(), Not(HasSubstr("node replay")));  // it had nothing left to do
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0);
}

TEST_F(Launcher, EndsTheRunWhenNoOtherNodeIsLeft) {
  EXPECT_EQ(run({"--first-backoff", "0.001", runs("chief"), "actors=exit 3", "replay=exit 78"}), 3);
  EXPECT_THAT(out(),
              HasSubstr("exit code 78, its configuration is wrong; it stays down and the run goes on without it"));
  EXPECT_THAT(out(), HasSubstr("after 5 restarts in 60 s; it stays down and the run ends with it\n"));
  EXPECT_THAT(out(), HasSubstr("chief | got TERM\n")) << "which is when it makes its last checkpoint";
  EXPECT_TRUE(nothing_left());
}

TEST_F(Launcher, EndsTheRunWhenTheChiefKeepsDying) {
  EXPECT_EQ(run({"--first-backoff", "0.001", "chief=exit 3", runs("actors")}), 3);
  EXPECT_THAT(out(), HasSubstr("TRP-E103 node chief"));
  EXPECT_THAT(out(), HasSubstr("it stays down and the run ends with it\n"));
  EXPECT_THAT(out(), HasSubstr("actors | got TERM\n"));
  EXPECT_TRUE(nothing_left());
  EXPECT_EQ(run({"--first-backoff", "0.001", "chief=kill -KILL $$"}), 137);
}

TEST_F(Launcher, DoesNotStartAgainWhatWouldEndTheSameWay) {
  EXPECT_EQ(run({"chief=exit 78", runs("actors")}), 78);
  EXPECT_THAT(out(), HasSubstr("died: exit code 78, its configuration is wrong; it stays down and the run ends"));
  EXPECT_EQ(run({"chief=exit 76", runs("actors")}), 1) << "as a run in one process";
  EXPECT_THAT(out(), HasSubstr("died: exit code 76, the run has ended with an error; it stays down and the run ends"));
  EXPECT_EQ(run({"chief=exec @@/no-such-program"}), 127);
  EXPECT_THAT(out(), HasSubstr("exit code 127, its program cannot be started"));
}

TEST_F(Launcher, ANodeWithoutInputIsAFailedStart) {
  EXPECT_EQ(run({"--first-backoff", "0.001", "refused=echo runs"}), 1);
  EXPECT_THAT(out(), HasSubstr("launcher | TRP-E101 node refused could not be started: no secret for it; restarting"));
  EXPECT_THAT(out(), Not(HasSubstr("refused | ")));
}

TEST_F(Launcher, EndsTheOthersWhenTheChiefIsDone) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(run({"--end-grace", "0.5", "chief=until [ -e @@/ready ]; do sleep 0.01; done", runs("actors"),
                 "stubborn=trap '' TERM; : >@@/ready; while :; do sleep 0.05; done; : @@"}),
            0);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 500ms);
  EXPECT_THAT(out(), HasSubstr("actors | got TERM\n"));
  EXPECT_THAT(out(), HasSubstr("launcher | node stubborn (pid "));
  EXPECT_THAT(out(), HasSubstr(") did not end in 0.5 s: killed\n"));
  EXPECT_THAT(out(), Not(HasSubstr("TRP-E101")));
  EXPECT_TRUE(nothing_left());
}

TEST_F(Launcher, TheFirstSignalStopsTheChiefAndTheChiefsEndTheOthers) {
  start({"chief=trap 'sleep 0.3; echo checkpoint; exit 0' TERM; echo runs; while :; do sleep 0.05; done; : @@",
         runs("actors")});
  ASSERT_TRUE(says("chief | runs") && says("actors | runs"));
  kill(pid_, SIGINT);
  EXPECT_EQ(wait_for_end(), 0);
  const std::string text = out();
  EXPECT_THAT(text, HasSubstr("launcher | stopping: the chief makes its checkpoint; once more to kill everything"));
  EXPECT_LT(text.find("chief | checkpoint"), text.find("actors | got TERM"));
  EXPECT_LT(text.find("actors | got TERM"), text.size());
  EXPECT_TRUE(nothing_left());
}

TEST_F(Launcher, AChiefThatDoesNotStopIsKilled) {
  start({"--stop-grace", "0.3", stubborn("chief"), runs("actors")});
  ASSERT_TRUE(says("chief | runs") && says("actors | runs"));
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 137);
  EXPECT_THAT(out(), HasSubstr("actors | got TERM\n"));
  EXPECT_TRUE(nothing_left());
}

TEST_F(Launcher, AChiefThatSaysHowFarItIsHasMoreTimeToStop) {
  const std::string busy =
      "chief=trap 'for i in 1 2 3 4 5 6 7 8; do sleep 0.2; echo part $i; done; exit 0' TERM; echo runs; "
      "while :; do sleep 0.05; done; : @@";
  start({"--stop-grace", "0.8", busy, runs("actors")});
  ASSERT_TRUE(says("chief | runs") && says("actors | runs"));
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_THAT(out(), HasSubstr("chief | part 8\n"));
  start({"--stop-grace", "0.8", "--stop-most", "1", busy, runs("actors")});
  ASSERT_TRUE(says("chief | runs") && says("actors | runs"));
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 137) << "but not for ever";
  EXPECT_TRUE(nothing_left());
}

TEST_F(Launcher, TheSecondSignalKillsEverythingAtOnce) {
  for (const int signal : {SIGINT, SIGTERM}) {
    start({"--ssh", "@@/ssh", stubborn("chief"), stubborn("here:actors")});
    ASSERT_TRUE(says("chief | runs") && says("actors | runs"));
    kill(pid_, signal);
    ASSERT_TRUE(says("stopping"));
    kill(pid_, SIGTERM);  // the same request, on another way
    if (signal == SIGTERM) std::this_thread::sleep_for(StopRequest::kSameRequest);
    EXPECT_EQ(kill(pid_, 0), 0);
    kill(pid_, signal);
    EXPECT_EQ(wait_for_end(2s), 128 + signal);
    EXPECT_TRUE(nothing_left());
  }
}

TEST_F(Launcher, KilledItselfItLeavesNothingBehind) {
  start({"--ssh", "@@/ssh", stubborn("chief"), stubborn("here:actors")});
  ASSERT_TRUE(says("chief | runs") && says("actors | runs"));
  EXPECT_GE(left_over(), 4);
  kill(pid_, SIGKILL);
  EXPECT_EQ(wait_for_end(), -SIGKILL);
  EXPECT_TRUE(nothing_left(5s));
}

TEST_F(Launcher, KillsWhatANodeHasStartedItself) {
  EXPECT_EQ(run({"chief=sh -c 'while :; do sleep 0.05; done; : @@' & echo $! >@@/pid"}), 0);
  EXPECT_TRUE(nothing_left(2s));
}

TEST_F(Launcher, RunsNodesOnOtherHostsBySsh) {
  EXPECT_EQ(run({"--ssh", "@@/ssh", "alice@gpu-1:chief=cat; echo \"it's $((1 + 1))\"; echo problem >&2; exit 0"}), 0);
  EXPECT_EQ(out(), "chief | chief start 0\nchief | it's \"quoted\" $HOME\nchief | it's 2\nchief | problem\n");
  EXPECT_THAT(text_of(path() / "ssh.log"), testing::StartsWith("ssh got: -o BatchMode=yes alice@gpu-1 -- '/"));
  EXPECT_EQ(run({"--ssh", "@@/ssh", "h:chief=exit 78"}), 78);
}

TEST_F(Launcher, EndsANodeOnAnotherHostThroughItsTether) {
  start({"--ssh", "@@/ssh", runs("h:chief"), runs("h:actors")});
  ASSERT_TRUE(says("chief | runs") && says("actors | runs"));
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_THAT(out(), HasSubstr("chief | got TERM\n"));
  EXPECT_THAT(out(), HasSubstr("actors | got TERM\n"));
  EXPECT_TRUE(nothing_left());
}

TEST_F(Launcher, StartsANodeAgainWhoseConnectionIsLost) {
  start({"--ssh", "@@/ssh", runs("chief"),
         "h:actors=trap 'exit 0' TERM; echo $$ >>@@/pids; echo runs; while :; do sleep 0.05; done; : @@"});
  ASSERT_TRUE(says("actors | runs"));
  kill(std::stoi(text_of(path() / "ssh.pid")), SIGKILL);
  ASSERT_TRUE(says("died: signal 9; restarting it in 0.1 s"));
  ASSERT_TRUE(within(10s, [&] {
    const std::string pids = text_of(path() / "pids");
    return std::count(pids.begin(), pids.end(), '\n') == 2;
  }));
  const pid_t first = std::stoi(text_of(path() / "pids"));
  EXPECT_TRUE(within(5s, [&] { return kill(first, 0) != 0; }));  // the one that lost its tether is gone
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Launcher, TriesAHostAgainThatCannotBeReachedWithoutCountingItAsACrash) {
  std::ofstream(path() / "dead") << "#!/bin/sh\necho x >>" << (path() / "tries").string() << "; exit 255\n";
  std::filesystem::permissions(path() / "dead", std::filesystem::perms::owner_all);
  start({"--ssh", "@@/dead", "--first-backoff", "0.001", "--max-backoff", "0.01", runs("chief"), "h:actors=:"});
  ASSERT_TRUE(within(10s, [&] { return text_of(path() / "tries").size() > 20; }));
  EXPECT_THAT(out(),
              HasSubstr("died: exit code 255, dead did not reach its host or lost it; trying again in 0.01 s\n"));
  EXPECT_THAT(out(), Not(HasSubstr("stays down")));
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_EQ(run({"--ssh", "@@/dead", "--first-backoff", "0.001", "--max-backoff", "0.01", "--unreachable-max", "0.1",
                 "h:chief=:"}),
            255);
  EXPECT_THAT(out(), HasSubstr("it stays down"));
}

TEST_F(Launcher, AsksSoonForAPlaceThatIsBeingRestartedAndSaysSoOnce) {
  std::ofstream(path() / "relay") << "#!/bin/sh\necho x >>" << (path() / "tries").string() << "; exit 254\n";
  std::filesystem::permissions(path() / "relay", std::filesystem::perms::owner_all);
  start({"--ssh", "@@/relay", "--first-backoff", "0.001", "--max-backoff", "1000", "--restarting-backoff", "0.01",
         runs("chief"), "h:actors=:"});
  ASSERT_TRUE(within(10s, [&] { return text_of(path() / "tries").size() > 20; }));
  const std::string died = "died: exit code 254, its place is being restarted; trying again in 0.001 s\n";
  const std::string text = out();
  EXPECT_NE(text.find(died), std::string::npos) << text;
  EXPECT_EQ(text.find("TRP-E101"), text.rfind("TRP-E101")) << text;
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_EQ(run({"--ssh", "@@/relay", "--first-backoff", "0.001", "--restarting-backoff", "0.01", "--unreachable-max",
                 "0.1", "h:chief=:"}),
            254);
  EXPECT_THAT(out(), HasSubstr("it stays down"));
}

/// A chief that listens elsewhere at each start, `@@/go` on, and ends of `@@/die`.
constexpr const char* kAnnounces =
    "chief=trap 'exit 0' TERM; until [ -e @@/go ]; do sleep 0.01; done; echo listens $$; echo is up; "
    "while :; do [ -e @@/die ] && rm @@/die && exit 3; sleep 0.02; done";

TEST_F(Launcher, StartsTheOthersWhenTheChiefSaysWhereItListens) {
  start({"--announced", kAnnounces, runs("actors")});
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(out(), "");
  std::ofstream(path() / "go");
  ASSERT_TRUE(says("actors | runs"));
  EXPECT_THAT(out(), Not(HasSubstr("listens")));
  EXPECT_THAT(out(), HasSubstr("chief | is up\n"));
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Launcher, StartsTheOthersAnewWhenTheChiefHasMoved) {
  std::ofstream(path() / "go");
  start({"--announced", "--restarting-backoff", "0.01", kAnnounces, runs("actors"), stubborn("replay")});
  ASSERT_TRUE(says("actors | runs") && says("replay | runs"));
  std::ofstream(path() / "die");
  ASSERT_TRUE(says("launcher | the chief has come back at another address: the other nodes are started anew\n"));
  ASSERT_TRUE(within(10s, [&] { return out().rfind("actors | runs") > out().find("started anew"); }));
  EXPECT_THAT(out(), HasSubstr("actors | got TERM\n"));
  EXPECT_THAT(out(), Not(HasSubstr("node actors")));  // it did not die
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Launcher, AChiefThatNeverListensEndsTheRun) {
  EXPECT_EQ(run({"--announced", "--first-backoff", "0.001", "chief=exit 3", runs("actors")}), 3);
  EXPECT_THAT(out(), Not(HasSubstr("actors")));
}

TEST_F(Launcher, AReaderThatDoesNotReadHoldsNobodyUp) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  start({"chief=i=0; while [ $i -lt 60000 ]; do echo a line that is rather long, so that sixty thousand are much; "
         "i=$((i + "
         "1)); done; : >@@/written; until [ -e @@/go ]; do sleep 0.01; done; echo end"},
        ends[1]);
  close(ends[1]);
  ASSERT_TRUE(within(20s, [&] { return std::filesystem::exists(path() / "written"); }));
  std::string text(8 << 20, '\0');
  std::size_t size = 0;
  for (ssize_t got; (got = read(ends[0], text.data() + size, text.size() - size)) > 0;) {
    size += static_cast<std::size_t>(got);
    if (std::string_view(text).substr(0, size).ends_with("nobody read them\n")) std::ofstream(path() / "go");
  }
  text.resize(size);
  close(ends[0]);
  EXPECT_EQ(wait_for_end(), 0);
  EXPECT_LT(size, 2u << 20);
  EXPECT_EQ(text.substr(text.rfind("launcher")).find("launcher | "), 0u);
  EXPECT_TRUE(text.ends_with(" lines were dropped: nobody read them\nchief | end\n")) << text.substr(size - 200);
}

TEST_F(Launcher, AReaderThatIsGoneHoldsNobodyUp) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  start({"chief=echo lost; echo more; : >@@/ready; until [ -e @@/go ]; do sleep 0.01; done; echo end; exit 0"},
        ends[1]);
  close(ends[0]);
  close(ends[1]);
  ASSERT_TRUE(within(20s, [&] { return std::filesystem::exists(path() / "ready"); }));
  std::ofstream(path() / "go");
  EXPECT_EQ(wait_for_end(), 0);
}

/// Runs the tether alone, with `input` and then silence or the end of the input.
class Tether : public TestDirectory {
 protected:
  int run(const std::string& input, const std::string& options, const std::string& command, double open_s = 0.5) {
    std::ofstream(path() / "input", std::ios::binary) << input;
    const std::string line =
        fmt::format("(cat {0}/input; exec sleep {1}) | {2}/bin/launch_program tether {3} sh -c '{4}' >{0}/out 2>&1",
                    path().string(), open_s, binary_dir(), options, command);
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string out() const { return text_of(path() / "out"); }
};

TEST_F(Tether, HandsTheInputOverAndTheExitCodeBack) {
  EXPECT_EQ(run("5\nab\nc\n\n\n", "", "cat; exit 7"), 7);
  EXPECT_EQ(out(), "ab\nc\n");
}

TEST_F(Tether, EndsTheCommandWithItsInput) {
  EXPECT_EQ(run("0\n", "", "trap \"echo got TERM; exit 5\" TERM; while :; do sleep 0.05; done"), 5);
  EXPECT_EQ(out(), "got TERM\n");
  EXPECT_EQ(run("0\n", "--grace 0.1", "trap \"\" TERM; while :; do sleep 0.05; done"), 137);
}

TEST_F(Tether, KillsACommandThatStaysStopped) {
  EXPECT_EQ(run("0\n", "--silence 1000 --grace 1000", "kill -STOP $$; sleep 1000", 3), 137);
}

TEST_F(Tether, SilenceCountsAsTheEnd) {
  EXPECT_EQ(run("0\n", "--silence 0.4", "trap \"echo got TERM; exit 5\" TERM; while :; do sleep 0.05; done", 1), 5);
  EXPECT_EQ(out(), "got TERM\n");
}

TEST_F(Tether, MalformedInputIsRefused) {
  const std::string number = "tether: expected a number of bytes up to 1048576, then as many\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"x\n", number},
      {"\n", number},
      {"-1\n", number},
      {"1048577\n", number},
      {"111111111111111111111111111111", number},
      {"5\nabc", "tether: the input ended before it was complete\n"},
      {"", "tether: the input ended before it was complete\n"},
  };
  for (const auto& [input, message] : cases) {
    EXPECT_EQ(run(input, "", "echo started", 0), 99) << input;
    EXPECT_EQ(out(), message) << input;
  }
  EXPECT_EQ(run("5\nabc", "--silence 0.1", "echo started"), 99);
  EXPECT_EQ(out(), "tether: no input in 0.1 s\n");
}

}  // namespace
}  // namespace troupe::apps
