// Whatever a file or a directory is called, it can be trained from and in.
#include <string>
#include <vector>

#include <troupe/core/text.hpp>
#include <troupe/tests/apps/program.hpp>
#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kNames = {
    "my run (1) a+b=c,d~e",           "Gr\xC3\xB6\xC3\x9F\xff\xfe", ".hidden", "-dash",
    "[it's]\t\n%s{}$(id);&|*?<>\"\\", std::string(240, 'x')};

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

class AnyName : public TestDirectory {
 protected:
  static constexpr const char* kConfig =
      "env = 'pendulum-swingup'\nmax_env_steps = 400\n[replay]\nmin_items = 100\nsamples_per_insert = 1\n"
      "[d4pg]\npolicy_layers = [4]\ncritic_layers = [4]\n[learner]\nbatch_size = 8\n[evaluator]\nepisodes = 1\n";
  ProgramResult run(const std::string& arguments) { return run_program(path(), arguments); }
  void write(const fs::path& name) { std::ofstream(path() / name) << kConfig; }
  /// That a run is whole: its checkpoint can be read and its summary is there.
  void expect_trained(const fs::path& directory) {
    EXPECT_TRUE(fs::exists(path() / directory / "summary.json")) << directory;
    const ProgramResult eval = run("eval " + quoted("./" + directory.string()) + " --episodes 1");
    EXPECT_EQ(eval.exit_code, 0) << eval.err;
  }
};

TEST_F(AnyName, OfTheConfigurationWillDo) {
  for (const std::string& name : kNames) {
    write(name + ".toml");
    const ProgramResult trained = run("train --quiet -- " + quoted(name + ".toml"));
    ASSERT_EQ(trained.exit_code, 0) << printable(name) << trained.err;
    std::vector<fs::path> made;
    for (const auto& entry : fs::directory_iterator(path() / "runs")) made.push_back(entry.path());
    ASSERT_EQ(made.size(), 1u) << printable(name);
    EXPECT_TRUE(made[0].filename().string().starts_with(std::string(shortened(name, 100))))
        << printable(made[0].string());
    expect_trained(fs::path("runs") / made[0].filename());
    fs::remove_all(path() / "runs");
    fs::remove(path() / (name + ".toml"));
  }
}

TEST_F(AnyName, OfTheRunDirectoryWillDo) {
  write("c.toml");
  for (const std::string& name : kNames) {
    const ProgramResult trained = run("train c.toml --run-dir=" + quoted(name));
    ASSERT_EQ(trained.exit_code, 0) << printable(name) << trained.err;
    EXPECT_NE(trained.out.find("recorded in    " + printable(name, 4096) + "\n"), std::string::npos) << trained.out;
    EXPECT_EQ(trained.out.find('\t'), std::string::npos);
    const ProgramResult resumed = run("train c.toml --quiet --set max_env_steps=500 --resume=" + quoted(name));
    EXPECT_EQ(resumed.exit_code, 0) << printable(name) << resumed.err;
    expect_trained(name);
  }
}

TEST_F(AnyName, OfADirectoryDeepDownWillDo) {
  write("c.toml");
  std::string deep;
  while (path().string().size() + deep.size() < 3200) deep += std::string(200, 'd') + "/";
  EXPECT_EQ(run("train c.toml --quiet --run-dir " + deep).exit_code, 0);
  expect_trained(deep);
  const std::string too_deep = deep + deep.substr(0, 804);
  const ProgramResult refused = run("train c.toml --quiet --run-dir " + too_deep);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("bytes, expected at most 3776"), std::string::npos) << refused.err;
}

TEST_F(AnyName, OfARunOverProcessesWillDo) {
  const std::string name = "-my run (1) \xC3\xB6\xff";
  write("c.toml");
  const ProgramResult trained = run("train c.toml --processes --run-dir=" + quoted(name));
  ASSERT_EQ(trained.exit_code, 0) << trained.out << trained.err;
  expect_trained(name);
  const ProgramResult resumed = run("train c.toml --processes --set max_env_steps=500 --resume=" + quoted(name));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
}

}  // namespace
}  // namespace troupe::apps
