// The programs of examples/, which have registries of their own: every command knows what they have registered, and
// their topologies run in one process, over processes, with a node that joins, and go on from their checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/core.h>

#include <troupe/tests/apps/program.hpp>
#include <troupe/tests/apps/test_directory.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe::apps {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class OwnProgram : public TestDirectory {
 protected:
  OwnProgram() {
    for (const char* const name : {"hello_topology", "hello_environment"}) {
      std::filesystem::copy_file(fmt::format("{}/examples/{}.toml", source_dir(), name),
                                 path() / fmt::format("{}.toml", name));
    }
  }
  ProgramResult roles(const std::string& arguments) const { return run("hello_topology", arguments); }
  ProgramResult environment(const std::string& arguments) const { return run("hello_environment", arguments); }
  /// A bash script in which "roles" is the program.
  ProgramResult run_script(const std::string& script) const {
    std::ofstream(path() / "script.sh") << fmt::format("roles() {{ exec {}/bin/hello_topology \"$@\"; }}\n", binary_dir())
                                        << script;
    return run_command(path(), "bash script.sh");
  }

 private:
  ProgramResult run(const std::string& program, const std::string& arguments) const {
    return run_command(path(), fmt::format("'{}/bin/{}' {}", binary_dir(), program, arguments));
  }
};

TEST_F(OwnProgram, ItsTopologyRunsInOneProcessAlsoDeterministically) {
  for (const std::string how : {"", " --deterministic"}) {
    const ProgramResult ended = roles("train hello_topology.toml --run-dir a" + how);
    EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
    EXPECT_THAT(ended.out,
                AllOf(HasSubstr("training on display, thermometer in a\n"),
                      ContainsRegex("mean of 100 measurements: 2[01]\\.[0-9]+ degrees\n"), HasSubstr("roles done")));
    EXPECT_THAT(text_of(path() / "a/metrics.csv"), HasSubstr("wall_s"));
    std::filesystem::remove_all(path() / "a");
  }
}

TEST_F(OwnProgram, ItsTopologyRunsOverProcesses) {
  const ProgramResult ended = roles(
      "train hello_topology.toml --processes --run-dir a --set placement.thermometer.nodes=2 --set "
      "roles.display.measurements=5000");
  EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
  EXPECT_THAT(ended.out, ContainsRegex("display *\\| mean of 5000 measurements: 2[01]\\.[0-9]+ degrees\n"));
  EXPECT_THAT(ended.out, HasSubstr("node thermometer-1 has joined"));
  EXPECT_THAT(text_of(path() / "a/cluster.toml"), HasSubstr("roles = { thermometer = [1] }"));
}

TEST_F(OwnProgram, NodesJoinWithSeveralInstancesAndTheRunGoesOnFromItsCheckpoint) {
  const ProgramResult ended = run_script(R"(
roles train hello_topology.toml --processes --run-dir a --set roles.display.measurements=1000000000 >run 2>&1 & run=$!
says() {
  (roles status a) >status 2>/dev/null || return 1
  for line in "$@"; do grep -qE "^thermometer-$line" status || return 1; done
}
for _ in $(seq 400); do says '1 +thermometer +up' && break; sleep 0.1; done
(roles node --join a --name wrong --role display) >wrong 2>&1; echo "exit code $?" >>wrong
(roles node --join a --name many --instances 65) >>wrong 2>&1; echo "exit code $?" >>wrong
roles node --join a --name extra --instances 3 >extra 2>&1 & extra=$!
for _ in $(seq 400); do says '2 +extra +up' '3 +extra +up' '4 +extra +up' && break; sleep 0.1; done
cp status joined
(roles token a --role display -o d.token) >>wrong 2>&1; echo "exit code $?" >>wrong
(roles token a --name bearer -o t.token) >token 2>&1 || exit 3
roles node a/config.toml --token t.token --run-dir b --instances 2 >bearer 2>&1 & bearer=$!
for _ in $(seq 400); do says '5 +bearer +up' '6 +bearer +up' && break; sleep 0.1; done
kill -9 $extra
roles node --join a --name extra >extra2 2>&1 & extra=$!
for _ in $(seq 400); do says '2 +extra +up +1 ' '3 +extra +up +1 ' '4 +extra +up +1 ' && break; sleep 0.1; done
cp status again
(roles stop a) || exit 4
wait $run || exit 5
wait $bearer || exit 6
wait $extra || exit 7
(roles train hello_topology.toml --processes --resume a --set roles.display.measurements=1) >resumed 2>&1
echo "exit code $?" >>resumed
)");
  EXPECT_EQ(ended.exit_code, 0) << text_of(path() / "run") << text_of(path() / "extra") << text_of(path() / "bearer")
                                << text_of(path() / "extra2");
  for (const int i : {2, 3, 4}) {
    EXPECT_THAT(text_of(path() / "joined"), ContainsRegex(fmt::format("thermometer-{} +extra +up", i)));
  }
  EXPECT_THAT(text_of(path() / "joined"),
              HasSubstr("message Celsius: opaque (only who takes it knows what is in it), at most 8 bytes\n"));
  for (const int i : {2, 3, 4}) {
    EXPECT_THAT(text_of(path() / "again"), ContainsRegex(fmt::format("thermometer-{} +extra +up +1 ", i)))
        << "the same instances as before, whatever the node says now";
  }
  EXPECT_THAT(text_of(path() / "again"), ContainsRegex("thermometer-5 +bearer +up"));
  EXPECT_EQ(text_of(path() / "wrong"),
            "--role: got \"display\", expected thermometer: only it may be hosted by nodes that join a run\n"
            "exit code 78\n"
            "troupe: --instances: Value 65 not in range 1 to 64; see hello_topology node --help\nexit code 64\n"
            "troupe: --role: got \"display\", expected thermometer: only it may be hosted by nodes that join a run\n"
            "exit code 1\n");
  EXPECT_THAT(text_of(path() / "resumed"), ContainsRegex("exit code 0\n$")) << "more than one were shown before";
}

TEST_F(OwnProgram, EveryCommandKnowsTheRegistry) {
  EXPECT_THAT(roles("config hello_topology.toml").out,
              AllOf(HasSubstr("[roles.thermometer]\n"), HasSubstr("lowest = 20.0\n"), HasSubstr("[[channels]]\n"),
                    HasSubstr("[placement.display]\n")));
  EXPECT_THAT(roles("config --explain").out, HasSubstr("roles.NAME.lowest, with kind = \"thermometer\"\n"));
  EXPECT_THAT(roles("graph hello_topology.toml -o -").out, HasSubstr("\"thermometer\" -> \"display\""));
  EXPECT_THAT(environment("envs").out, AllOf(HasSubstr("valley\n  observation  2 numbers: position, velocity\n"),
                                             HasSubstr("cartpole-swingup\n")));
  EXPECT_THAT(environment("config hello_environment.toml").out, HasSubstr("[valley]\n"));
  EXPECT_THAT(environment("trian").err, HasSubstr("(did you mean train?); see hello_environment --help"));
  const ProgramResult wrong = roles("config hello_topology.toml --set channels[0].to=display.kelvin");
  EXPECT_EQ(wrong.exit_code, 78);
  EXPECT_THAT(wrong.err, HasSubstr("hello_topology.toml:10: channels[0]: channel thermometer.celsius -> display.kelvin: "
                                   "role \"display\" has no inlet \"kelvin\": there is celsius\n"));
}

TEST_F(OwnProgram, AnEnvironmentOfOnesOwnIsTrainedEvaluatedAndExported) {
  for (const std::string how : {"", " --processes"}) {
    const ProgramResult ended = environment(
        "train hello_environment.toml --run-dir a --set max_learner_steps=150 --set replay.min_items=200 "
        "--set evaluator.episodes=2 --set valley.episode_steps=50" +
        how);
    ASSERT_EQ(ended.exit_code, 0) << ended.out << ended.err;
    const ProgramResult evaluated = environment("eval a --episodes 2");
    EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
    EXPECT_THAT(evaluated.out, HasSubstr("learner (d4pg) at step 150\n"));
    EXPECT_EQ(environment("export a -o p.onnx").exit_code, 0);
    EXPECT_THAT(environment("render a").err, HasSubstr("valley: this environment has no picture of itself"));
    std::filesystem::remove_all(path() / "a");
  }
}

}  // namespace
}  // namespace troupe::apps
