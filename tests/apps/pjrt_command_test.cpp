// What a user sees of PJRT plug-ins: a run on one, steps compiled for TPUs that are not there, and what is said where
// there is no plug-in (docs/engines.md). Tests that need a plug-in are skipped where it was not fetched.
#include <gmock/gmock.h>

#include <fstream>
#include <string>

#include <troupe/tests/apps/program.hpp>
#include <troupe/tests/apps/test_directory.hpp>
#include <troupe/tests/pjrt/plugins.hpp>

namespace troupe::apps {
namespace {

using testing::HasSubstr;

class PjrtCommand : public TestDirectory {
 protected:
  PjrtCommand() {
    std::ofstream(path() / "small.toml") << R"(env = "cartpole-swingup"
max_learner_steps = 100
[replay]
min_items = 100
[d4pg]
policy_layers = [16]
critic_layers = [16]
[learner]
batch_size = 32
[evaluator]
episodes = 1
every_learner_steps = 100
)";
  }
  /// With the fetched plug-ins, whatever the environment of the tests is.
  ProgramResult run(const std::string& arguments) {
    std::string names = "PJRT_NAMES_AND_LIBRARY_PATHS=none:/none";
    for (const char* kind : {"cpu", "cuda", "tpu"}) {
      const auto plugin = pjrt::fetched_plugin(kind);
      if (!plugin.empty()) names += std::string(",") + kind + ":" + plugin.string();
    }
    return run_command(path(), "env '" + names + "' XDG_CACHE_HOME='" + path().string() + "' '" + binary_dir() +
                                   "/bin/troupe' " + arguments);
  }
  /// Where nothing was fetched.
  ProgramResult run_without(const std::string& arguments) {
    return run_command(path(), "env -u PJRT_NAMES_AND_LIBRARY_PATHS -u TPU_LIBRARY_PATH XDG_CACHE_HOME='" +
                                   (path() / "cache").string() + "' '" + binary_dir() + "/bin/troupe' " + arguments);
  }
};

TEST_F(PjrtCommand, WithoutAPluginItIsOneErrorThatSaysWhatToDo) {
  const ProgramResult compiled = run_without("compile small.toml --topology v5e:1x1");
  EXPECT_EQ(compiled.exit_code, 1);
  EXPECT_EQ(compiled.err,
            "troupe: no plug-in \"tpu\" in PJRT_NAMES_AND_LIBRARY_PATHS, and none is fetched; "
            "`tools/bootstrap.sh pjrt tpu` fetches it, or name a file as pjrt:/PATH/TO/PLUGIN.so\n");
  const ProgramResult trained = run_without("train small.toml --run-dir x --set learner.device=pjrt:cpu");
  EXPECT_NE(trained.exit_code, 0);
  EXPECT_THAT(trained.err, HasSubstr("`tools/bootstrap.sh pjrt cpu` fetches it"));
  const ProgramResult doctor = run_without("doctor");
  EXPECT_EQ(doctor.exit_code, 0);
}

TEST_F(PjrtCommand, TrainsOnTheProcessorsPlugin) {
  if (pjrt::fetched_plugin("cpu").empty()) GTEST_SKIP() << pjrt::no_plugin("cpu");
  const ProgramResult trained = run("train small.toml --run-dir x --set learner.device=pjrt:cpu");
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_TRUE(std::filesystem::exists(path() / "x/summary.json"));
  const ProgramResult longer =
      run("train small.toml --resume x --set learner.device=pjrt:cpu --set max_learner_steps=150");
  EXPECT_EQ(longer.exit_code, 0) << longer.err;
  const ProgramResult absent = run("train small.toml --run-dir y --set learner.device=pjrt:cpu#99");
  EXPECT_NE(absent.exit_code, 0);
  EXPECT_THAT(absent.err, HasSubstr("expected 0 to 7"));
}

TEST_F(PjrtCommand, ReplayLiesOnTheLearnersDevice) {
  if (pjrt::fetched_plugin("cpu").empty()) GTEST_SKIP() << pjrt::no_plugin("cpu");
  for (const char* const sampler : {"uniform", "prioritized"}) {
    const std::string common = fmt::format(
        " --set learner.device=pjrt:cpu --set replay.device=pjrt:cpu --set replay.sampler={} --deterministic "
        "--set replay.max_items=900 --set max_learner_steps=0 --set max_env_steps=",
        sampler);
    std::vector<std::string> ends;
    for (const char* const name : {"a", "b"}) {  // with the same bits
      const std::string directory = fmt::format("{}_{}", sampler, name);
      const ProgramResult run = this->run("train small.toml --run-dir " + directory + common + "2500");  // evicts
      ASSERT_EQ(run.exit_code, 0) << run.err;
      EXPECT_THAT(file_text(path() / directory / "log.txt"), HasSubstr("replay on pjrt:cpu#0, for 900 items"));
      ends.push_back(file_text(std::filesystem::directory_iterator(path() / directory / "checkpoints")->path() /
                               "tensors.safetensors"));
    }
    EXPECT_FALSE(ends[0].empty());
    EXPECT_EQ(ends[0], ends[1]);
    const ProgramResult resumed = run(fmt::format("train small.toml --resume {}_a{}3000", sampler, common));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  }
  const ProgramResult group =
      run("train small.toml --run-dir group --set learner.device=pjrt:cpu --set replay.device=pjrt:cpu --set "
          "learner.count=2 --set replay.tolerance=1");
  EXPECT_EQ(group.exit_code, 0) << group.err;
  EXPECT_THAT(file_text(path() / "group/log.txt"), HasSubstr("learner-1: replay on pjrt:cpu#0"));
}

TEST_F(PjrtCommand, CompilesForTpusThatAreNotThere) {
  if (pjrt::fetched_plugin("tpu").empty()) GTEST_SKIP() << pjrt::no_plugin("tpu");
  const ProgramResult one = run("compile small.toml --topology v5e:1x1");
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("learner: 1 replica of 32 rows on v5e:1x1 (TPU v5 lite, 1 devices)"));
  EXPECT_THAT(one.out, HasSubstr("estimates of the compiler"));
  const ProgramResult four = run("compile small.toml --topology v5e:2x2 --replicas 4");
  EXPECT_EQ(four.exit_code, 0) << four.err;
  EXPECT_THAT(four.out, HasSubstr("learner: 4 replicas of 8 rows"));
  EXPECT_THAT(four.out, HasSubstr("collectives: "));
  EXPECT_THAT(four.out, HasSubstr("all-reduce"));
  const ProgramResult looped = run("compile small.toml --topology v6e:1x1 --steps 16");
  EXPECT_EQ(looped.exit_code, 0) << looped.err;
}

TEST_F(PjrtCommand, CompilesModelsWhoseDataIsNotThere) {
  if (pjrt::fetched_plugin("tpu").empty()) GTEST_SKIP() << pjrt::no_plugin("tpu");
  std::ofstream(path() / "gan.toml") << R"(
[replicas.gan]
model = "sngan"
data = "cifar10"
data_dir = "not-here"
batch_size = 16
steps = 10
)";
  const ProgramResult four = run("compile gan.toml --topology v5e:2x2 --replicas 4");
  EXPECT_EQ(four.exit_code, 0) << four.err;
  EXPECT_THAT(four.out, HasSubstr("gan: 4 replicas of 4 rows"));
}

TEST_F(PjrtCommand, CompilesForGpusThatAreNotThere) {
  if (!pjrt::no_gpu_compiler().empty()) GTEST_SKIP() << pjrt::no_gpu_compiler();
  const ProgramResult four = run("compile small.toml --topology h100:4 --replicas 4");
  EXPECT_EQ(four.exit_code, 0) << four.err;
  EXPECT_THAT(four.out, HasSubstr("learner: 4 replicas of 8 rows on h100:4 (NVIDIA H100 80GB HBM3, 4 devices)"));
  EXPECT_THAT(four.out, HasSubstr("all-reduce"));
  const ProgramResult none = run("compile small.toml --topology h100:0");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("topology \"h100:0\", expected a100, h100 or h200 and how many"));
}

TEST_F(PjrtCommand, ReplicasOnItsDevicesAreOneProgram) {
  if (pjrt::fetched_plugin("cpu").empty()) GTEST_SKIP() << pjrt::no_plugin("cpu");
  const std::string how =
      " --set learner.replicator=multi_device --set learner.count=2 --set "
      "'learner.device=[\"pjrt:cpu#0\",\"pjrt:cpu#1\"]'";
  const ProgramResult trained = run("train small.toml --run-dir x" + how);
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  const ProgramResult longer = run("train small.toml --resume x --set max_learner_steps=150" + how);
  EXPECT_EQ(longer.exit_code, 0) << longer.err;
  const ProgramResult verified = run("verify small.toml --replicas 2" + how);
  EXPECT_EQ(verified.exit_code, 0) << verified.out;
}

TEST_F(PjrtCommand, WhatDoesNotCompileIsOneErrorEach) {
  if (pjrt::fetched_plugin("tpu").empty()) GTEST_SKIP() << pjrt::no_plugin("tpu");
  const ProgramResult odd = run("compile small.toml --topology v5e:2x2 --replicas 3");
  EXPECT_EQ(odd.exit_code, 1);
  EXPECT_EQ(odd.err, "troupe: learner: 32 rows a step, expected a multiple of 3 replicas\n");
  const ProgramResult unknown = run("compile small.toml --topology v7");
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("troupe: learner: it does not compile: pjrt: libtpu.so"));
  const ProgramResult many = run("compile small.toml --topology v5e:1x1 --replicas 2");
  EXPECT_EQ(many.exit_code, 1) << many.out;
}

}  // namespace
}  // namespace troupe::apps
