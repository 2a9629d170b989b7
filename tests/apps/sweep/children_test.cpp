// run_children() with shells. This process is the parent, so a child asks for the end by a signal to $PPID.
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include <troupe/apps/sweep/children.hpp>
#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::chrono_literals;

class Children : public TestDirectory {
 protected:
  int run(const std::vector<std::string>& scripts, ChildrenOptions options = {}) {
    std::vector<ChildCommand> commands;
    for (std::size_t i = 0; i < scripts.size(); ++i) {
      commands.push_back({{"sh", "-c", "cd " + path().string() + "\n" + scripts[i]}, log(i)});
    }
    return run_commands(commands, std::move(options));
  }
  int run_commands(const std::vector<ChildCommand>& commands, ChildrenOptions options = {}) {
    endings_.assign(commands.size(), "not started");
    options.ends = [this](std::size_t number, const ChildEnding& ending) { endings_[number] = in_words(ending); };
    const auto asked = run_children(commands, options);
    EXPECT_TRUE(asked.ok()) << asked.error().message;
    return asked.value();
  }
  std::filesystem::path log(std::size_t i) const { return path() / fmt::format("{}.log", i); }

  std::vector<std::string> endings_;
};

TEST_F(Children, RunSeveralAtATimeAndNoMore) {
  // Each says how many there are while it runs; the second of two waits for the first, so they do run together.
  const std::string script =
      "touch at.$$; ls at.* 2>/dev/null | wc -l; for i in $(seq 100); do [ $(ls at.* seen.* 2>/dev/null | wc -l) -ge 2 ] && break; "
      "sleep 0.05; done; touch seen.$$; rm at.$$; echo problem >&2";
  EXPECT_EQ(run(std::vector<std::string>(5, script), {.jobs = 2}), 0);
  EXPECT_THAT(endings_, testing::Each("exit code 0"));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_THAT(text_of(log(i)), testing::MatchesRegex("[12]\nproblem\n")) << "both streams, and never three at a time";
  }
}

TEST_F(Children, AreSaidToHaveEndedInTheirOwnWay) {
  EXPECT_EQ(run_commands({{{"sh", "-c", "exit 3"}, log(0)},
                          {{"sh", "-c", "kill -9 $$"}, log(1)},
                          {{"/no/such/program"}, log(2)},
                          {{"true"}, path() / "no/folder/log"}}),
            0);
  EXPECT_THAT(endings_, ElementsAre("exit code 3", "signal 9", "exit code 127",
                                    HasSubstr("it could not be started: " + path().string())));
  EXPECT_THAT(text_of(log(2)), HasSubstr("no such program"));
}

TEST_F(Children, AreAskedToEndAndNoMoreAreStarted) {
  const std::string saves = "trap 'echo saved; exit 0' TERM; touch ready; while :; do sleep 0.02; done";
  const std::string asks = "until [ -e ready ]; do sleep 0.02; done; kill -TERM $PPID; sleep 60";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(run({saves, asks, "echo late"}, {.jobs = 2}), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  EXPECT_THAT(endings_, ElementsAre("exit code 0", "signal 15", "not started"));
  EXPECT_EQ(text_of(log(0)), "saved\n");
}

TEST_F(Children, ThatDoNotEndAreKilledWithAllThatTheyStarted) {
  const std::string deaf =
      "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ >grandchild; sleep 100' & sleep 0.2; kill -INT $PPID; sleep 100";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(run({deaf}, {.stop_grace = 300ms}), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  EXPECT_THAT(endings_, ElementsAre("signal 9"));
  const int grandchild = std::stoi(text_of(path() / "grandchild"));
  for (int i = 0; i < 200 && kill(grandchild, 0) == 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_NE(kill(grandchild, 0), 0);
}

TEST_F(Children, AreKilledByTheSecondSignalButNotByOneThatComesWithTheFirst) {
  const std::string patient =
      "trap 'sleep 0.2; echo saved; exit 0' TERM; kill -TERM $PPID; kill -TERM $PPID; "
      "while :; do sleep 0.02; done";
  EXPECT_EQ(run({patient}), 1);
  EXPECT_EQ(text_of(log(0)), "saved\n");
  const std::string deaf = "trap '' TERM; kill -TERM $PPID; sleep 2.2; kill -TERM $PPID; sleep 100";
  EXPECT_EQ(run({deaf}), 2);
  EXPECT_THAT(endings_, ElementsAre("signal 9"));
}

TEST_F(Children, HaveEqualSharesOfTheProcessors) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  const int processors = CPU_COUNT(&all);
  if (processors < 2) GTEST_SKIP() << "one processor cannot be shared out";
  const std::string script = "nproc; taskset -p $$ | sed 's/.*: //'";
  run({script, script}, {.jobs = 2});
  EXPECT_EQ(std::stoi(text_of(log(0))), processors / 2);
  EXPECT_EQ(std::stoi(text_of(log(1))), processors - processors / 2);
  EXPECT_NE(text_of(log(0)), text_of(log(1)));
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&all, &after)) << "this process keeps all";
  std::filesystem::remove(log(0));
  run({"nproc"}, {.jobs = 4096});
  EXPECT_EQ(std::stoi(text_of(log(0))), processors) << "more places than processors";
}

TEST_F(Children, OfNoCommandsAreNoWork) { EXPECT_EQ(run({}), 0); }

}  // namespace
}  // namespace troupe::apps
