// The program's command line: exit codes and what is printed where.
#include <algorithm>

#include <troupe/tests/apps/program.hpp>
#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

class Cli : public TestDirectory {
 protected:
  ProgramResult run(const std::string& arguments) { return run_program(path(), arguments); }
  void write(const std::string& name, const std::string& text) { std::ofstream(path() / name) << text; }
};

TEST_F(Cli, WrongUsageExitsWith64AndSaysWhatIsWrong) {
  EXPECT_EQ(run("").exit_code, 64);
  EXPECT_EQ(run("train").exit_code, 64);
  EXPECT_EQ(run("train a.toml b.toml").exit_code, 64);
  EXPECT_EQ(run("train a.toml --no-such-option").exit_code, 64);
  EXPECT_EQ(run("train a.toml --run-dir x --resume y").exit_code, 64);
  EXPECT_EQ(run("config").exit_code, 64);
  EXPECT_EQ(run("config --explain a.toml").exit_code, 64);
  EXPECT_EQ(run("render x --width 0").exit_code, 64);
  const ProgramResult mistyped = run("trian");
  EXPECT_EQ(mistyped.exit_code, 64);
  EXPECT_EQ(mistyped.err, "troupe: unknown command trian (did you mean train?); see troupe --help\n");
  EXPECT_EQ(mistyped.out, "");
}

TEST_F(Cli, HelpExitsWith0AndNamesEveryCommand) {
  const ProgramResult help = run("--help");
  EXPECT_EQ(help.exit_code, 0);
  for (const std::string name : {"train", "render", "export", "sample", "eval", "envs", "config", "version"}) {
    EXPECT_NE(help.out.find("\n  " + name), std::string::npos) << help.out;
    EXPECT_EQ(run(name + " --help").exit_code, 0);
  }
}

TEST_F(Cli, AnOptionThatIsNoneIsNamedWithoutACommandToo) {
  const ProgramResult unknown = run("--nosuch");
  EXPECT_EQ(unknown.exit_code, 64);
  EXPECT_NE(unknown.err.find("--nosuch"), std::string::npos) << unknown.err;
  EXPECT_EQ(run("").exit_code, 64);
  EXPECT_EQ(run("").err, "troupe: a command is missing; see troupe --help\n");
}

TEST_F(Cli, VersionNamesReleaseAndCommit) {
  const ProgramResult version = run("version");
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(run("--version").out, version.out);
  EXPECT_TRUE(testing::internal::RE::FullMatch(
      version.out,
      testing::internal::RE("troupe [0-9]+\\.[0-9]+\\.[0-9]+ \\(([0-9a-f]{12}(\\+changes)?|no commit)\\)\n")))
      << version.out;
}

TEST_F(Cli, BadConfigurationsExitWith78AndListEveryMistake) {
  write("bad.toml", "env = 'cartpole-swingu'\n[learner]\nbatchsize = 1\n[d4pg]\natoms = 1\n");
  const std::string mistakes =
      "bad.toml:3: unknown key learner.batchsize (did you mean learner.batch_size?)\n"
      "bad.toml:5: d4pg.atoms: out of range: got 1, expected 2 .. 1024\n"
      "--set seed=-1: out of range: got -1, expected >= 0\n";
  for (const std::string command : {"train bad.toml --seed -1", "config bad.toml --set seed=-1"}) {
    const ProgramResult result = run(command);
    EXPECT_EQ(result.exit_code, 78) << command;
    EXPECT_EQ(result.err.substr(0, result.err.find('\n'))
                  .find("bad.toml:1: env: unknown value \"cartpole-swingu\" (did you mean \"cartpole-swingup\"?)"),
              0u)
        << result.err;
    EXPECT_EQ(result.err.substr(result.err.find('\n') + 1), mistakes) << command;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_FALSE(std::filesystem::exists(path() / "runs"));  // nothing was begun
  const ProgramResult absent = run("train absent.toml");
  EXPECT_EQ(absent.exit_code, 78);
  EXPECT_EQ(absent.err, "absent.toml: no such file\n");
}

TEST_F(Cli, ShippedConfigurationsAreKnownByTheirNames) {
  const ProgramResult named = run("config cartpole_swingup");
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_NE(named.err.find("configuration cartpole_swingup: /"), std::string::npos) << named.err;
  EXPECT_EQ(named.out, run("config " + source_dir() + "/apps/configs/cartpole_swingup.toml").out);
  EXPECT_EQ(run("graph cartpole_swingup -o -").exit_code, 0);
  const ProgramResult mistyped = run("train cartpole_swingap");
  EXPECT_EQ(mistyped.exit_code, 78);
  EXPECT_NE(mistyped.err.find("did you mean cartpole_swingup"), std::string::npos) << mistyped.err;
}

TEST_F(Cli, ConfigPrintsTheResolvedFileWhichResolvesToItself) {
  write("good.toml", "env = 'cheetah-run'\nseed = 4\n");
  const ProgramResult first = run("config --set d4pg.atoms=11 good.toml");
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.out.find("\nseed = 4\n"), std::string::npos);
  EXPECT_NE(first.out.find("\natoms = 11\n"), std::string::npos);
  write("resolved.toml", first.out);
  EXPECT_EQ(run("config resolved.toml").out, first.out);
}

TEST_F(Cli, ExplainNamesEveryKeyWithItsMeaning) {
  const ProgramResult result = run("config --explain");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.out.find("learner.batch_size\n    Rows of a step, over all replicas\n    an integer, "
                            "rows, 1 .. 65536, the same for all of a run; default "
                            "256\n"),
            std::string::npos)
      << result.out;
  EXPECT_NE(
      result.out.find("; default []\n      action_repeat: Each action for several steps of the environment, whose "
                      "rewards are added\n"),
      std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("; required\n"), std::string::npos);
  EXPECT_NE(result.out.find("\nagents.NAME.KEY\n"), std::string::npos);
}

TEST_F(Cli, EnvsListsSpecsAsTextAndJson) {
  const ProgramResult text = run("envs");
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("cartpole-swingup\n"
                          "  observation  5 numbers: position [3], velocity [2]\n"
                          "  action       1 number, from [-1] to [1]\n"
                          "  episode      1000 steps of 0.01 s\n"
                          "  cameras      fixed, lookatcart, free\n"),
            std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("  action       38 numbers, each from -1 to 1\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("CartPole-v1\n"
                          "  observation  4 numbers: observation [4]\n"
                          "  action       1 number, each one of 2 choices\n"
                          "  episode      500 steps of 0.02 s\n"),
            std::string::npos)
      << text.out;
  EXPECT_NE(
      text.out.find("\nquadruped-walk\n"
                    "  observation  78 numbers: egocentric_state [44], torso_velocity [3], torso_upright, imu [6], "
                    "force_torque [24]\n"
                    "  action       12 numbers, from [-1, -1, -0.8, "),
      std::string::npos)
      << text.out;
  const ProgramResult json = run("envs --json");
  EXPECT_EQ(json.exit_code, 0);
  EXPECT_NE(json.out.find("{\"name\": \"cartpole-swingup\", \"observation\": [{\"name\": \"position\", \"dtype\": "
                          "\"float64\", \"shape\": [3]}, {\"name\": \"velocity\", \"dtype\": \"float64\", \"shape\": "
                          "[2]}], \"action\": {\"low\": [-1], \"high\": [1]}, \"episode_steps\": 1000, "
                          "\"control_dt\": 0.01, \"cameras\": [\"fixed\", \"lookatcart\", \"free\"]}"),
            std::string::npos)
      << json.out;
}

TEST_F(Cli, WhatIsNotARunCannotBeRenderedOrResumed) {
  write("good.toml", "env = 'cheetah-run'\n");
  const std::string message = "troupe: nowhere: not the directory of a run: it has no config.toml\n";
  for (const std::string command : {"render nowhere", "train good.toml --resume nowhere"}) {
    const ProgramResult result = run(command);
    EXPECT_EQ(result.exit_code, 1) << command;
    EXPECT_EQ(result.err, message) << command;
  }
}

TEST_F(Cli, EveryMistakeOfTheCommandLineIsOneLineThatSaysWho) {
  write("c.toml", "env = 'cheetah-run'\n");
  for (const std::string arguments :
       {"", "train", "train a.toml b.toml", "train a.toml --nope", "config", "render", "eval", "export r --format h5",
        "render x --width 0", "train $'\\x1b[31m' --nope=$'\\x1b[31m'", "verify c.toml --replicas 0", "sample r -n -1",
        "node c.toml --port 65536", "node c.toml --port -1", "token r --minutes 0", "--nope", "tarin", "up h"}) {
    const ProgramResult result = run_script(path(), "troupe " + arguments + "\n");
    EXPECT_EQ(result.exit_code, 64) << arguments << result.err;
    EXPECT_TRUE(result.err.starts_with("troupe: ")) << arguments << ": " << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_NE(result.err.find("--help\n"), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find('\x1b'), std::string::npos);
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(Cli, AnEmptyValueIsRefusedByEveryOption) {
  write("c.toml", "env = 'cheetah-run'\n");
  for (const std::string arguments : {"train ''",
                                      "train c.toml --resume ''",
                                      "train c.toml --resume=",
                                      "train c.toml --run-dir ''",
                                      "train c.toml --set ''",
                                      "train c.toml --seed ''",
                                      "train c.toml --max-minutes ''",
                                      "config ''",
                                      "graph ''",
                                      "graph c.toml -o ''",
                                      "render ''",
                                      "export '' --format onnx",
                                      "export r --format ''",
                                      "export r -o ''",
                                      "export r --format onnx --examples ''",
                                      "export r --format onnx --what ''",
                                      "sample ''",
                                      "sample r -o ''",
                                      "sample r --what ''",
                                      "eval ''",
                                      "eval r --what ''",
                                      "verify ''",
                                      "status ''",
                                      "stop ''",
                                      "token ''",
                                      "token r --output ''",
                                      "token r --name ''",
                                      "node c.toml --run-dir ''",
                                      "node c.toml --token ''",
                                      "node c.toml --cluster '' --name a",
                                      "node --join '' --name a",
                                      "node --join r --name ''",
                                      "up '' c.toml",
                                      "up h ''"}) {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 64) << arguments << result.err;
    EXPECT_TRUE(result.err.starts_with("troupe: ")) << arguments << result.err;
  }
  EXPECT_FALSE(std::filesystem::exists(path() / "runs"));
}

TEST_F(Cli, ANumberThatIsNoneOrTooLargeIsRefused) {
  write("c.toml", "env = 'cheetah-run'\n");
  for (const std::string command : {"eval r --seed ", "render r --seed ", "sample r --seed "}) {
    for (const std::string seed :
         {"-1", "1.5", "nan", "0x10", "1e3", "9223372036854775808", "99999999999999999999", "' 1'"}) {
      const ProgramResult result = run(command + seed);
      EXPECT_EQ(result.exit_code, 64) << command << seed << result.err;
      EXPECT_NE(result.err.find("expected a whole number from 0 to 9223372036854775807"), std::string::npos)
          << result.err;
    }
    EXPECT_EQ(run(command + "9223372036854775807").exit_code, 1) << "there is no run r";
  }
  for (const std::string tolerance : {"-1", "nan", "inf", "-inf", "x", "1x", "-0.001"}) {
    EXPECT_EQ(run("verify c.toml --tolerance " + tolerance).exit_code, 64) << tolerance;
    EXPECT_EQ(run("verify c.toml --tolerance=" + tolerance).exit_code, 64) << tolerance;
  }
  for (const std::string minutes : {"-1", "nan", "inf", "1e300", "x"}) {
    EXPECT_EQ(run("train c.toml --max-minutes " + minutes).exit_code, 78) << minutes;
  }
  EXPECT_FALSE(std::filesystem::exists(path() / "runs"));
}

TEST_F(Cli, AFileThatIsMissingOrADirectoryIsOneError) {
  std::filesystem::create_directory(path() / "d");
  for (const std::string name : {"absent", "d", "/dev/null", "$'\\x1b[31m'"}) {
    for (const std::string command :
         {"train ", "config ", "graph ", "verify ", "up hosts.toml ", "node --run-dir r "}) {
      const ProgramResult result = run_script(path(), "troupe " + command + name + "\n");
      EXPECT_TRUE(result.exit_code == 78 || result.exit_code == 1) << command << name << result.err;
      EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << command << name << ": " << result.err;
      EXPECT_EQ(result.err.find('\x1b'), std::string::npos) << result.err;
    }
    for (const std::string command :
         {"render ", "eval ", "sample ", "export --format onnx ", "status ", "stop ", "token "}) {
      const ProgramResult result = run_script(path(), "troupe " + command + name + "\n");
      EXPECT_EQ(result.exit_code, 1) << command << name << result.err;
      EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << command << name << ": " << result.err;
      EXPECT_TRUE(result.err.starts_with("troupe: ")) << result.err;
      EXPECT_EQ(result.err.find('\x1b'), std::string::npos) << result.err;
    }
  }
}

TEST_F(Cli, ANodeWithoutItsRunDirectoryIsToldSo) {
  write("c.toml", "env = 'cheetah-run'\n");
  for (const std::string arguments : {"node c.toml", "node c.toml --keep-up"}) {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 78) << result.err;
    EXPECT_EQ(result.err, "--run-dir: missing, expected the run directory that all nodes share\n");
  }
}

TEST_F(Cli, AStandardOutputThatFailsIsOneErrorAndNoSuccess) {
  write("c.toml",
        "env = 'pendulum-swingup'\nmax_env_steps = 300\n[replay]\nmin_items = 100\nsamples_per_insert = 1\n"
        "[d4pg]\npolicy_layers = [4]\ncritic_layers = [4]\n[learner]\nbatch_size = 8\n[evaluator]\nepisodes = 1\n");
  ASSERT_EQ(run("train c.toml --quiet --run-dir r").exit_code, 0);
  for (const std::string command :
       {"config --explain", "config c.toml", "envs", "envs --json", "version", "--version", "--help", "train --help",
        "doctor", "graph c.toml -o -", "graph c.toml -o x.dot", "eval r", "eval r --json", "export r --format onnx",
        "export r --format onnx -o -", "status r", "verify c.toml --replicas 1 --steps 1",
        "train c.toml --run-dir full"}) {
    const ProgramResult result = run_script(path(), "troupe " + command + " >/dev/full\n");
    EXPECT_EQ(result.exit_code, 1) << command << result.err;
    const std::string last =
        result.err.substr(result.err.rfind("troupe: ") == std::string::npos ? 0 : result.err.rfind("troupe: "));
    EXPECT_TRUE(last.starts_with("troupe: the standard output cannot be written")) << command << result.err;
    // Nor does one that is closed, or a standard error that is full, end the program by a signal.
    EXPECT_GE(run_script(path(), "troupe " + command + " >&- 2>/dev/full\n").exit_code, 0) << command;
    std::filesystem::remove_all(path() / "full");
  }
  EXPECT_EQ(run_script(path(), "troupe nope 2>/dev/full\n").exit_code, 64);
}

TEST_F(Cli, GraphWritesWhatTheSuffixSaysAndNeverItsInput) {
  write("c.toml", "env = 'cheetah-run'\n");
  EXPECT_EQ(run("graph c.toml -o g.dot").exit_code, 0);
  EXPECT_TRUE(text_of(path() / "g.dot").starts_with("digraph")) << text_of(path() / "g.dot");
  const ProgramResult text = run("graph c.toml -o -");
  EXPECT_EQ(text.out, text_of(path() / "g.dot"));
  const ProgramResult png = run("graph c.toml -o g.png");
  if (png.err.find("graphviz") == std::string::npos) {
    EXPECT_EQ(png.exit_code, 0) << png.err;
    EXPECT_EQ(text_of(path() / "g.png").substr(1, 3), "PNG");
  }
  for (const std::string name : {"c.toml", "./c.toml", "g.jpg", "g", ".", "absent/g.svg"}) {
    const ProgramResult refused = run("graph c.toml -o " + name);
    EXPECT_EQ(refused.exit_code, 1) << name;
    EXPECT_TRUE(refused.err.starts_with("troupe: -o " + name + ": ")) << refused.err;
  }
  EXPECT_EQ(text_of(path() / "c.toml"), "env = 'cheetah-run'\n");
  EXPECT_EQ(run("graph c.toml -o /dev/null").exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(Cli, StatusOfARunWithinOneProcessSaysWhatIsTrue) {
  write("c.toml",
        "env = 'pendulum-swingup'\nmax_env_steps = 300\n[replay]\nmin_items = 100\nsamples_per_insert = 1\n"
        "[d4pg]\npolicy_layers = [4]\ncritic_layers = [4]\n[learner]\nbatch_size = 8\n[evaluator]\nepisodes = 1\n");
  ASSERT_EQ(run("train c.toml --quiet --run-dir r").exit_code, 0);
  const ProgramResult status = run("status r");
  EXPECT_EQ(status.exit_code, 0) << status.err;
  EXPECT_TRUE(status.out.starts_with("run r, in one process, which has ended: ")) << status.out;
  EXPECT_NE(status.out.find(" 300 env steps, "), std::string::npos) << status.out;
  EXPECT_NE(status.out.find("last checkpoint step-"), std::string::npos) << status.out;
  EXPECT_NE(run("status r --json").out.find("\"training\":false,\"ended\":true,"), std::string::npos);
  const ProgramResult stop = run("stop r");
  EXPECT_EQ(stop.exit_code, 1);
  EXPECT_EQ(stop.err, "troupe: r: a run within one process, which is not there now\n");
}

}  // namespace
}  // namespace troupe::apps
