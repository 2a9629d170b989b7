// What a user sees of the processor: TROUPE_MAX_ISA, bfloat16 without instructions for it, what was measured to be
// fastest (docs/processors.md).
#include <gmock/gmock.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <string>

#include <troupe/tests/apps/program.hpp>
#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

using testing::HasSubstr;
using testing::Not;

/// What was wrapped for a terminal.
std::string in_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    if (!std::isspace(static_cast<unsigned char>(c)))
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  return line;
}

class ProcessorCommand : public TestDirectory {
 protected:
  ProcessorCommand() {
    std::ofstream(path() / "small.toml") << R"(env = "cartpole-swingup"
max_env_steps = 1500
[replay]
min_items = 300
samples_per_insert = 8
[d4pg]
policy_layers = [64, 64]
critic_layers = [64, 64]
[learner]
batch_size = 64
threads = 1
[evaluator]
episodes = 1
every_learner_steps = 1000
)";
    std::filesystem::create_directory(path() / "cache");
  }
  /// With a cache folder of this test's, and all that the processor has unless `variables` hold it down.
  ProgramResult run(const std::string& variables, const std::string& arguments) {
    return run_command(path(), "env -u TROUPE_MAX_ISA XDG_CACHE_HOME='" + (path() / "cache").string() + "' " +
                                   variables + " '" + binary_dir() + "/bin/troupe' " + arguments);
  }
  std::filesystem::path kept() const {
    const auto folder = path() / "cache/troupe/plans";
    if (!std::filesystem::exists(folder)) return {};
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".txt") return entry.path();
    }
    return {};
  }
};

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_F(ProcessorCommand, AnUnknownInstructionSetIsRefusedBeforeAnythingIsMade) {
  for (const char* command : {"train small.toml --run-dir a", "doctor", "version"}) {
    const ProgramResult refused = run("TROUPE_MAX_ISA=avx9", command);
    EXPECT_EQ(refused.exit_code, 64) << command;
    EXPECT_EQ(refused.err, "troupe: TROUPE_MAX_ISA is \"avx9\", expected sse41, avx, avx2 or avx512\n");
  }
  EXPECT_FALSE(std::filesystem::exists(path() / "a"));
}

TEST_F(ProcessorCommand, DoctorSaysHowThisMachineComputes) {
  const ProgramResult held = run("TROUPE_MAX_ISA=sse41", "doctor");
  ASSERT_EQ(held.exit_code, 0) << held.err;
  EXPECT_THAT(held.out, HasSubstr("generic kernels (TROUPE_MAX_ISA holds them down), products by "));
  EXPECT_THAT(in_one_line(held.out), HasSubstr("bf16 by way of fp32 "));
  const ProgramResult free = run("", "doctor");
  ASSERT_EQ(free.exit_code, 0) << free.err;
  EXPECT_THAT(free.out, Not(HasSubstr("TROUPE_MAX_ISA")));
  EXPECT_THAT(free.out, HasSubstr("\nplans      nothing measured yet"));
}

TEST_F(ProcessorCommand, TrainsInBfloat16WithoutInstructionsForItAndSaysOnceThatItIsSlower) {
  const ProgramResult half =
      run("TROUPE_MAX_ISA=sse41", "train small.toml --run-dir a --seed 5 --set learner.compute=bf16");
  ASSERT_EQ(half.exit_code, 0) << half.err;
  EXPECT_EQ(count(half.err, "bfloat16: this processor multiplies none by itself"), 1) << half.err;
  const ProgramResult full = run("TROUPE_MAX_ISA=sse41", "train small.toml --run-dir b --seed 5");
  ASSERT_EQ(full.exit_code, 0) << full.err;
  EXPECT_THAT(full.err, Not(HasSubstr("bfloat16")));
}

TEST_F(ProcessorCommand, WhatWasMeasuredIsKeptAndShown) {
  const ProgramResult by_rule = run("", "train small.toml --run-dir a --deterministic");
  ASSERT_EQ(by_rule.exit_code, 0) << by_rule.err;
  EXPECT_TRUE(kept().empty()) << "a deterministic run measured";
  if (run("", "doctor").out.find("products by eigen") != std::string::npos)
    GTEST_SKIP() << "this build has one way only";

  const ProgramResult measured = run("", "train small.toml --run-dir b");
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  ASSERT_FALSE(kept().empty()) << measured.err;
  const ProgramResult shown = run("", "doctor");
  EXPECT_THAT(shown.out, HasSubstr("product nn 64 x 64 x 64: "));
  EXPECT_THAT(in_one_line(shown.out), HasSubstr("to measure again, remove " + kept().string()));
  EXPECT_THAT(run("TROUPE_MAX_ISA=sse41", "doctor").out, HasSubstr("nothing measured yet")) << "of another processor";

  std::ofstream(kept(), std::ios::app) << "x";
  const ProgramResult damaged = run("", "train small.toml --run-dir c");
  EXPECT_EQ(damaged.exit_code, 0) << damaged.err;
  EXPECT_EQ(count(damaged.err, kept().string() + " is damaged"), 1) << damaged.err;
  EXPECT_THAT(run("", "doctor").err, Not(HasSubstr("damaged")));
}

TEST_F(ProcessorCommand, TrainsWhereNothingCanBeKept) {
  std::ofstream(path() / "cache/troupe") << "a file in the way";
  const ProgramResult done = run("", "train small.toml --run-dir a");
  EXPECT_EQ(done.exit_code, 0) << done.err;
}

}  // namespace
}  // namespace troupe::apps
