// The program's command line: exit codes and what is printed where.
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

TEST_F(Cli, VersionNamesReleaseAndCommit) {
  const ProgramResult version = run("version");
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_TRUE(testing::internal::RE::FullMatch(
      version.out,
      testing::internal::RE("troupe [0-9]+\\.[0-9]+\\.[0-9]+ \\(([0-9a-f]{12}(\\+changes)?|no commit)\\)\n")))
      << version.out;
}

TEST_F(Cli, BadConfigurationsExitWith78AndListEveryMistake) {
  write("bad.toml", "env = 'cartpole-swingu'\n[learner]\nbatchsize = 1\natoms = 1\n");
  const std::string mistakes =
      "bad.toml:3: unknown key learner.batchsize (did you mean learner.batch_size?)\n"
      "bad.toml:4: learner.atoms: out of range: got 1, expected 2 .. 1024\n"
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

TEST_F(Cli, ConfigPrintsTheResolvedFileWhichResolvesToItself) {
  write("good.toml", "env = 'cheetah-run'\nseed = 4\n");
  const ProgramResult first = run("config --set learner.atoms=11 good.toml");
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.out.find("\nseed = 4\n"), std::string::npos);
  EXPECT_NE(first.out.find("\natoms = 11\n"), std::string::npos);
  write("resolved.toml", first.out);
  EXPECT_EQ(run("config resolved.toml").out, first.out);
}

TEST_F(Cli, ExplainNamesEveryKeyWithItsMeaning) {
  const ProgramResult result = run("config --explain");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(
      result.out.find("learner.batch_size\n    Items in a learner step, over all learners\n    an integer, items, 1 .. 65536; default "
                      "256\n"),
      std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("; required\n"), std::string::npos);
}

TEST_F(Cli, EnvsListsSpecsAsTextAndJson) {
  const ProgramResult text = run("envs");
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("cartpole-swingup\n"
                          "  observation  5 numbers: position [3], velocity [2]\n"
                          "  action       1 numbers, from [-1] to [1]\n"
                          "  episode      1000 steps of 0.01 s\n"),
            std::string::npos)
      << text.out;
  const ProgramResult json = run("envs --json");
  EXPECT_EQ(json.exit_code, 0);
  EXPECT_NE(json.out.find("{\"name\": \"cartpole-swingup\", \"observation\": [{\"name\": \"position\", \"dtype\": "
                          "\"float64\", \"shape\": [3]}, {\"name\": \"velocity\", \"dtype\": \"float64\", \"shape\": "
                          "[2]}], \"action\": {\"low\": [-1], \"high\": [1]}, \"episode_steps\": 1000, "
                          "\"control_dt\": 0.01}"),
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

}  // namespace
}  // namespace troupe::apps
