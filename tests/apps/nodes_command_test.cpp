// A small training run as several processes, started in each of the ways that need no other program: by the launcher,
// by a cluster file, by TF_CONFIG, and with a node that joins later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <troupe/core/text.hpp>
#include <troupe/tests/apps/program.hpp>
#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

using testing::HasSubstr;

class NodesCommand : public TestDirectory {
 protected:
  NodesCommand() {
    std::ofstream(path() / "small.toml") << R"(env = "cartpole-swingup"
max_env_steps = 4000
[actors]
count = 2
[replay]
min_items = 300
samples_per_insert = 2
[d4pg]
policy_layers = [16]
critic_layers = [16]
[learner]
batch_size = 16
[evaluator]
episodes = 1
[placement]
actors.nodes = 2
parameters.nodes = 0
evaluator.nodes = 0
)";
  }

  ProgramResult run_script(const std::string& script) const {
    return apps::run_script(path(), "wall_clock=" TROUPE_WALL_CLOCK_LIBRARY "\n" + script);
  }
  std::string summary(const std::string& run) const { return text_of(path() / run / "summary.json"); }
};

TEST_F(NodesCommand, TooFewDescriptorsAreOneErrorAndASoftLimitIsRaised) {
  const ProgramResult few = run_script("ulimit -n 40; troupe train small.toml --processes --run-dir few\n");
  EXPECT_EQ(few.exit_code, 1) << few.out << few.err;
  EXPECT_THAT(few.err, HasSubstr("ulimit -n: 40 open files for each process, expected at least 72 with 5 nodes"));
  const ProgramResult soft =
      run_script("ulimit -Sn 40; troupe train small.toml --processes --run-dir soft --set max_env_steps=600\n");
  EXPECT_EQ(soft.exit_code, 0) << soft.out << soft.err;
}

TEST_F(NodesCommand, TooFewAddressesAreSaidOnceForEachNode) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer wants more address space than the limits leave";
#endif
  for (int kilobytes = 250'000; kilobytes <= 350'000; kilobytes += 50'000) {
    const ProgramResult narrow = run_script(fmt::format(
        "ulimit -v {0}; troupe train small.toml --processes --run-dir v{0} --set max_minutes=0.1\n", kilobytes));
    EXPECT_LE(narrow.exit_code, 1) << narrow.out << narrow.err;
    // Each of five nodes may be started six times, which is four lines a time: W180, where it listens, why it ends,
    // and that it is started again.
    const std::string said = narrow.out + narrow.err;
    int of_starts = 0, others = 0;
    for (const std::string_view line : lines(said)) {
      const bool of_start =
          std::ranges::any_of(std::array{"TRP-W180 ", " listens on ", "TRP-E153 ", "TRP-E101 node "},
                              [line](const char* part) { return line.find(part) != std::string_view::npos; });
      ++(of_start ? of_starts : others);
    }
    EXPECT_LE(of_starts, 5 * 6 * 4) << said;
    EXPECT_LE(others, 100) << said;
  }
}

TEST_F(NodesCommand, TrainsWithAProcessForEachRoleAndGoesOnInAnotherPlacement) {
  const ProgramResult first = run_program(path(), "train small.toml --processes --run-dir a");
  ASSERT_EQ(first.exit_code, 0) << first.out << first.err;
  EXPECT_THAT(first.out, HasSubstr("chief | training on cartpole-swingup in a\n"));
  EXPECT_THAT(first.out, HasSubstr("I node actors-1 has joined (incarnation 1)\n"));
  EXPECT_THAT(first.out, HasSubstr("chief |   ended by       max_env_steps\n"));
  EXPECT_EQ(first.out.find("TRP-E"), std::string::npos) << first.out;
  EXPECT_THAT(summary("a"), HasSubstr("\"env_steps\": 4000,"));

  const ProgramResult second = run_program(
      path(), "train small.toml --processes --resume a --set max_env_steps=6000 --set placement.actors.nodes=1");
  ASSERT_EQ(second.exit_code, 0) << second.out << second.err;
  EXPECT_THAT(second.out, HasSubstr("chief | resuming cartpole-swingup in a\n"));
  EXPECT_THAT(summary("a"), HasSubstr("\"env_steps\": 6000,"));
}

TEST_F(NodesCommand, CtrlCMakesACheckpointAndEndsAllProcesses) {
  const ProgramResult ended = run_script(R"(
troupe train small.toml --processes --run-dir a --set max_env_steps=0 >out 2>&1 &
until grep -q 'learner [1-9]' out; do sleep 0.1; done
kill -INT $!
wait $!
)");
  EXPECT_EQ(ended.exit_code, 0) << text_of(path() / "out");
  EXPECT_THAT(text_of(path() / "out"), HasSubstr("chief |   ended by       stop requested\n"));
  EXPECT_THAT(text_of(path() / "out"), HasSubstr("TRP-I001 stopping; checkpoint "));
  EXPECT_TRUE(std::filesystem::exists(path() / "a/checkpoints/cut.json"));
}

TEST_F(NodesCommand, ARunThatEndsWithAnErrorEndsOnceAndSaysWhy) {
  const ProgramResult ended = run_script(R"(
troupe train small.toml --processes --run-dir a --set max_env_steps=0 --set supervisor.max_restarts=0 >out 2>&1 & run=$!
until grep -q 'learner [1-9]' out; do sleep 0.1; done
kill -9 $(pgrep -f -- "--name learner --run-dir=($PWD/)?a")
wait $run
)");
  const std::string out = text_of(path() / "out");
  EXPECT_EQ(ended.exit_code, 1) << out;
  EXPECT_THAT(out, HasSubstr("chief | troupe: learner: its node died: "));
  EXPECT_THAT(out, HasSubstr("died: exit code 76, the run has ended with an error; it stays down and the run ends"));
  EXPECT_THAT(out, testing::Not(HasSubstr("TRP-E504")));
  EXPECT_THAT(out, testing::Not(HasSubstr("its configuration is wrong")));
}

TEST_F(NodesCommand, GoesOnWithWhatIsLeftOfARun) {
  ASSERT_EQ(run_program(path(), "train small.toml --processes --run-dir a").exit_code, 0);
  const auto resume = [&](int steps) {
    const ProgramResult ended =
        run_program(path(), fmt::format("train small.toml --processes --resume a --set max_env_steps={}", steps));
    return fmt::format("{}: {}{}", ended.exit_code, ended.out, ended.err);
  };
  std::ofstream(path() / "a/chief.address") << "foo";  // the chief writes its own in any case
  EXPECT_THAT(resume(5000), testing::StartsWith("0: "));

  std::filesystem::rename(path() / "a/chief.json", path() / "chief.json");
  EXPECT_THAT(resume(6000), testing::AllOf(testing::StartsWith("65: "),
                                           HasSubstr("a/chief.json: the chief's journal is missing, but there is "
                                                     "checkpoint step-")));
  EXPECT_FALSE(std::filesystem::exists(path() / "a/chief.json"));
  std::filesystem::rename(path() / "chief.json", path() / "a/chief.json");

  // Somebody else has the chief's port by now.
  std::ofstream(path() / "other.py") << R"---(import pathlib, socket, time
with socket.create_server(("127.0.0.1", int(pathlib.Path("a/chief.address").read_text().split(":")[1]))):
    print("up", flush=True)
    time.sleep(60)
)---";
  const ProgramResult elsewhere = run_script(R"---(python3 other.py >other & other=$!
until grep -q up other; do sleep 0.05; done
(troupe train small.toml --processes --resume a --set max_env_steps=5500); code=$?
kill $other
exit $code
)---");
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.out << elsewhere.err;
  EXPECT_THAT(elsewhere.out, HasSubstr("Address already in use; another port will do"));

  // A node that cannot begin, without which nothing is learnt.
  std::filesystem::remove_all(path() / "a/nodes/learner");
  std::ofstream(path() / "a/nodes/learner") << "no folder";
  EXPECT_THAT(resume(0), testing::AllOf(testing::StartsWith("1: "), HasSubstr("learner | troupe: a/nodes/learner: "),
                                        HasSubstr("after 5 restarts in 60 s; it stays down and the run ends with it")));
  std::filesystem::remove(path() / "a/nodes/learner");
  EXPECT_THAT(resume(6000), testing::StartsWith("0: "));
}

TEST_F(NodesCommand, ARunDirectoryTakesItsReplayAlong) {
  const auto train = [&](const std::string& arguments) {
    const ProgramResult ended = run_program(path(), "train small.toml --processes " + arguments);
    return fmt::format("{}: {}{}", ended.exit_code, ended.out, ended.err);
  };
  ASSERT_THAT(train("--run-dir a"), testing::StartsWith("0: "));
  std::filesystem::rename(path() / "a", path() / "moved");
  ASSERT_THAT(train("--run-dir a --seed 2 --set max_env_steps=1000"), testing::StartsWith("0: "));  // another run
  const auto resumed = train("--resume moved --set max_env_steps=5000");
  EXPECT_THAT(resumed, testing::AllOf(testing::StartsWith("0: "), testing::Not(HasSubstr("TRP-W302"))));

  const auto journal = path() / "moved/nodes/replay/replay/journal";
  std::filesystem::remove_all(journal);
  std::filesystem::create_directory(journal);
  EXPECT_THAT(
      train("--resume moved --set max_env_steps=6000"),
      testing::AllOf(testing::Not(testing::StartsWith("0: ")),
                     HasSubstr("journal moved/nodes/replay/replay/journal: it is empty, expected the rows "
                               "before row "),
                     HasSubstr("refused: to go on without its rows, remove moved/nodes/replay/replay/journal")));
  std::filesystem::remove_all(journal);
  EXPECT_THAT(train("--resume moved --set max_env_steps=6000"),
              testing::AllOf(testing::StartsWith("0: "), HasSubstr("TRP-W302")));
}

TEST_F(NodesCommand, NodesFindEachOtherByTfConfigAndMakeACheckpointWhenAllAreAskedToEndAtOnce) {
  const ProgramResult ended = run_script(R"(
port=$((20000 + $$ % 10000))
for task in chief:0 worker:0 worker:1 ps:0 evaluator:0; do
  export TF_CONFIG='{"cluster": {"chief": ["127.0.0.1:'$port'"], "ps": ["127.0.0.1:'$((port + 3))'"],
                                 "evaluator": ["127.0.0.1:'$((port + 4))'"],
                                 "worker": ["127.0.0.1:'$((port + 1))'", "127.0.0.1:'$((port + 2))'"]},
                     "task": {"type": "'${task%:*}'", "index": '${task#*:}'}}'
  troupe node small.toml --set max_env_steps=0 --run-dir a --keep-up >$task 2>&1 &
done
until grep -q 'learner [1-9]' chief:0; do sleep 0.1; done
kill $(jobs -p)
for node in $(jobs -p); do wait $node || exit; done
)");
  EXPECT_EQ(ended.exit_code, 0) << text_of(path() / "chief:0") << text_of(path() / "ps:0");
  EXPECT_THAT(text_of(path() / "chief:0"), HasSubstr("node worker-1 has joined (incarnation 1)\n"));
  EXPECT_THAT(text_of(path() / "worker:1"), HasSubstr("worker-1 | "));
  EXPECT_THAT(summary("a"), HasSubstr("\"stop_reason\": \"stop requested\""));
  EXPECT_TRUE(std::filesystem::exists(path() / "a/checkpoints/cut.json"));
}

TEST_F(NodesCommand, NodesOfAClusterFileAndSomeThatJoinAreOneRun) {
  const auto cluster = [](const std::string& name, const std::string& on_chief, const std::string& there) {
    return fmt::format(
        "run = \"by-hand\"\n[[nodes]]\nname = \"chief\"\nroles = {{ metrics = [0], replay = [0], "
        "learner = [0], parameters = [0], {} }}\n[[nodes]]\nname = \"{}\"\nroles = {{ {} }}\n",
        on_chief, name, there);
  };
  std::ofstream(path() / "cluster.toml") << cluster("actors", "evaluator = [0]", "actor = [0, 1]");
  std::ofstream(path() / "other.toml") << cluster("stranger", "actor = [0, 1]", "evaluator = [0]");
  const std::int64_t early_s = -2 * 3600, late_s = 40 * 86400;  // of clocks that are wrong
  std::ofstream(path() / "early").write(reinterpret_cast<const char*>(&early_s), sizeof(early_s));
  std::ofstream(path() / "late").write(reinterpret_cast<const char*>(&late_s), sizeof(late_s));
  const ProgramResult ended = run_script(R"(
clock() { export ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=$wall_clock TROUPE_WALL_CLOCK=$1; }
troupe node small.toml --cluster cluster.toml --name chief --run-dir a --set max_env_steps=0 >chief 2>&1 & chief=$!
troupe node small.toml --cluster cluster.toml --name actors --run-dir a --set max_env_steps=0 >actors 2>&1 & actors=$!
until grep -q 'node actors has joined' chief; do sleep 0.1; done
troupe node --join a --name extra >extra 2>&1 & extra=$!
until grep -q 'node extra has joined' chief; do sleep 0.1; done
troupe node --join a --name extra >twice 2>&1 & twice=$!  # the name of one that lives
until grep -q 'TRP-E161 node id extra is already in use by 127.0.0.1:' twice; do sleep 0.1; done
kill $twice
(troupe token a --name bearer --output join.token) >/dev/null || exit 4
troupe node small.toml --token join.token --set max_env_steps=0 >bearer 2>&1 & bearer=$!
until grep -q 'node bearer has joined' chief; do sleep 0.1; done
(troupe status a --json) >status || exit 5
(troupe node --join a --name other --set seed=99) >>wrong 2>&1; echo "exit code $?" >>wrong
(troupe node small.toml --cluster other.toml --name stranger --run-dir a --set max_env_steps=0) >>wrong 2>&1
echo "exit code $?" >>wrong
(troupe node --join a --name late --port $(cut -d: -f2 a/chief.address)) >>wrong 2>&1; echo "exit code $?" >>wrong
(troupe node a/config.toml --token join.token --run-dir b) >>wrong 2>&1; echo "exit code $?" >>wrong
(clock early; troupe node a/config.toml --token join.token --run-dir b) >>wrong 2>&1; echo "exit code $?" >>wrong
(clock late; troupe node a/config.toml --token join.token --run-dir b) >>wrong 2>&1; echo "exit code $?" >>wrong
kill $extra $bearer
wait $extra || exit 3
wait $bearer || exit 6
troupe node small.toml --token join.token --set max_env_steps=0 >>bearer 2>&1 & bearer=$!  # with what it has kept
until [ $(grep -c 'node bearer has joined' chief) = 2 ]; do sleep 0.1; done
(troupe stop a) || exit 7
wait $chief || exit 1
wait $actors || exit 2
wait $bearer || exit 8
)");
  EXPECT_EQ(ended.exit_code, 0) << text_of(path() / "chief") << text_of(path() / "actors") << text_of(path() / "extra")
                                << text_of(path() / "bearer");
  for (const char* node : {"chief", "actors", "extra", "bearer"}) {
    EXPECT_THAT(text_of(path() / "status"), testing::ContainsRegex(fmt::format("\"name\": ?\"{}\"", node)));
  }
  // Each is one clear error; 78 says that another try would be in vain.
  EXPECT_THAT(text_of(path() / "wrong"),
              testing::ContainsRegex("TRP-E162 node other has another configuration than the run .hash [0-9a-f]+, "
                                     "expected [0-9a-f]+.: start it with the run's config.toml\nexit code 78\n"
                                     ".*TRP-E163 node stranger is not part of this run\nexit code 78\n"
                                     "troupe: listen on 127.0.0.1:[0-9]+: Address already in use\nexit code 1\n"
                                     "troupe: join: .* says: TRP-S712 join token was used .*\nexit code 1\n"
                                     "troupe: TRP-S710 peer certificate rejected: not valid before .*: are the clocks "
                                     "right. .*\nexit code 1\n"
                                     "TRP-S712 join token expired at .*\nexit code 78\n$"));
}

TEST_F(NodesCommand, ALimitThatIsMetBeforeTheRunBeginsIsAnError) {
  std::ofstream(path() / "cluster.toml") << R"(run = "alone"
[[nodes]]
name = "chief"
roles = { metrics = [0], replay = [0], parameters = [0], evaluator = [0], actor = [0, 1] }
[[nodes]]
name = "learner"
roles = { learner = [0] }
)";
  const ProgramResult late =
      run_program(path(), "node small.toml --cluster cluster.toml --name chief --run-dir a --set max_minutes=0.01");
  EXPECT_EQ(late.exit_code, 76) << late.out;
  EXPECT_THAT(late.err, HasSubstr("troupe: the run has met its limit (max_minutes) and had not begun"));
}

TEST_F(NodesCommand, ADeterministicRunEndsWithItsFirstLostNode) {
  std::ofstream(path() / "cluster.toml") << R"(run = "in-step"
[[nodes]]
name = "chief"
roles = { metrics = [0], replay = [0], learner = [0], parameters = [0], evaluator = [0] }
[[nodes]]
name = "actors"
roles = { actor = [0, 1] }
)";
  const ProgramResult ended = run_script(R"(
keys="--set deterministic=true --set max_env_steps=0"
troupe node small.toml --cluster cluster.toml --name actors --run-dir a $keys >actors 2>&1 & actors=$!
troupe node small.toml --cluster cluster.toml --name chief --run-dir a $keys >chief 2>&1 & chief=$!
until grep -q 'learner: one_device on cpu' chief; do sleep 0.1; done
kill -9 $actors
wait $chief; code=$?
(troupe node small.toml --cluster cluster.toml --name chief --run-dir a $keys) >again 2>&1
exit $code
)");
  EXPECT_EQ(ended.exit_code, 76) << text_of(path() / "chief");
  EXPECT_THAT(text_of(path() / "chief"), HasSubstr("troupe: TRP-E125 node actors is lost in round "));
  EXPECT_THAT(text_of(path() / "again"), HasSubstr("TRP-E504 "));
}

TEST_F(NodesCommand, WhatIsWrongIsOneClearError) {
  const auto say = [&](const std::string& arguments) {
    const ProgramResult ended = run_program(path(), arguments);
    return fmt::format("{}: {}{}", ended.exit_code, ended.out, ended.err);
  };
  EXPECT_THAT(say("node"), HasSubstr("64: "));
  EXPECT_THAT(say("node small.toml --run-dir a"),
              testing::StartsWith("1: troupe: this node cannot find its place: expected --cluster FILE --name NAME"));
  EXPECT_EQ(say("node small.toml --run-dir a --cluster none.toml --name x"), "1: troupe: none.toml: no such file\n");
  EXPECT_EQ(say("train small.toml --processes --set placement.actors.nodes=3"),
            "78: --set placement.actors.nodes=3: placement.actors.nodes must not exceed actors.count: got 3 and 2\n");
  EXPECT_THAT(say("node small.toml --set deterministic=true --token none.token"),
              HasSubstr("this run is deterministic (deterministic = true), and takes in only the nodes that it was "
                        "planned with"));
  EXPECT_EQ(say("up none.toml small.toml"), "78: none.toml: no such file\n");
  EXPECT_EQ(say("status none"), "1: troupe: none: not the directory of a run over nodes: it has no chief.address\n");
  EXPECT_EQ(say("token none"), "1: troupe: none: not the directory of a run over nodes: it has no chief.address\n");
  std::ofstream(path() / "no.token") << "none";
  EXPECT_THAT(say("node small.toml --token no.token"),
              HasSubstr("78: no.token: mode 0644 opens it to others, expected 0600: run chmod 600 no.token\n"));
  std::ofstream(path() / "start") << R"--({"program": "0.0.9 (f00)"})--";
  EXPECT_THAT(say("node --from-launcher --name chief --run-dir c <start"),
              testing::ContainsRegex("^78: TRP-E160 the launcher is troupe 0.0.9 .f00., this host has troupe .*: build "
                                     "the same commit on both\n$"));
  std::ofstream(path() / "hosts.toml") << "hosts = ['nowhere']";
  const ProgramResult no_ssh = run_script("PATH=/none troupe up hosts.toml small.toml --run-dir d");
  EXPECT_EQ(no_ssh.exit_code, 127);
  EXPECT_THAT(no_ssh.out, HasSubstr("chief | cannot execute ssh: no such program\n"));
  EXPECT_THAT(no_ssh.out,
              HasSubstr("died: exit code 127, there is no ssh here or no such program on its host; it stays "
                        "down and the run ends with it\n"));
}

}  // namespace
}  // namespace troupe::apps
