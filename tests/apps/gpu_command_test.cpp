// The program with learners and inference on GPUs: on the emulated device (tests/gpu/emulator), and on a
// machine that has none.
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <troupe/tests/apps/program.hpp>
#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

using testing::HasSubstr;

class GpuCommand : public TestDirectory {
 protected:
  GpuCommand() {
    std::ofstream(path() / "small.toml") << R"(env = "cartpole-swingup"
max_env_steps = 3000
[actors]
inference = "server"
[replay]
min_items = 300
samples_per_insert = 0.5
[learner]
batch_size = 16
policy_layers = [16]
critic_layers = [16]
[evaluator]
episodes = 1
every_learner_steps = 50
)";
  }
  /// On emulated GPUs; `emulator` is what they are told (emulator.h).
  ProgramResult on_gpus(const std::string& arguments, const std::string& emulator = "") {
    return run_command(path(), "env TROUPE_PLUGIN_PATH=" EMULATED_PLUGINS " TROUPE_EMULATOR='" + emulator +
                                   "' '" TROUPE_BINARY_DIR "/bin/troupe' " + arguments);
  }
  /// Where no plug-in finds a GPU.
  ProgramResult without(const std::string& arguments) { return on_gpus(arguments, "driver=0"); }
};

TEST_F(GpuCommand, TrainsOnOneGpuAndActsOnAnother) {
  const ProgramResult run = on_gpus(
      "train small.toml --run-dir a --set learner.device=cuda:0 "
      "--set inference.device=cuda:1");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("ended by       max_env_steps"));
  EXPECT_THAT(file_text(path() / "a/log.txt"), HasSubstr("learner: on cuda:0"));
  EXPECT_THAT(file_text(path() / "a/config.toml"), HasSubstr("device = [\"cuda:0\"]"));
  const ProgramResult resumed =
      on_gpus("train small.toml --resume a --set learner.device=cuda:0 --set max_env_steps=4000");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
}

TEST_F(GpuCommand, ReplayLiesInTheLearnersGpu) {
  for (const char* const sampler : {"uniform", "prioritized"}) {
    const std::string common = fmt::format(
        "--set learner.device=cuda:0 --set replay.device=cuda:0 --set replay.sampler={} "
        "--set replay.max_items=900",  // evicts
        sampler);
    const std::string directory = std::string("in_") + sampler;
    const ProgramResult run = on_gpus(fmt::format("train small.toml --run-dir {} {}", directory, common));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("ended by       max_env_steps"));
    const std::string log = file_text(path() / directory / "log.txt");
    EXPECT_THAT(log, HasSubstr("learner: on cuda:0"));
    EXPECT_THAT(log, HasSubstr("replay on cuda:0"));
    // All that was inserted came to the learner, and a checkpoint has it.
    const std::string metrics = file_text(path() / directory / "metrics.csv");
    EXPECT_THAT(metrics.substr(0, metrics.find('\n')), HasSubstr("learner/inserts"));
    const ProgramResult resumed =
        on_gpus(fmt::format("train small.toml --resume {} {} --set max_env_steps=4000", directory, common));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  }
}

TEST_F(GpuCommand, AReplicaGroupHasAGpuForEachReplica) {
  std::ofstream(path() / "group.toml") << R"([replicas.classifier]
model = "classifier"
data = "synthetic"
layers = [16]
replicator = "multi_device"
count = 2
batch_size = 32
steps = 40
evaluate_every_steps = 20
device = ["cuda:0", "cuda:1"]
)";
  const ProgramResult run = on_gpus("train group.toml --run-dir a");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(file_text(path() / "a/log.txt"), HasSubstr("classifier: multi_device on cuda:0"));
}

TEST_F(GpuCommand, AutoSaysWhatItHasChosenAndWhy) {
  const ProgramResult gpu = on_gpus("train small.toml --run-dir a --set learner.device=auto");
  ASSERT_EQ(gpu.exit_code, 0) << gpu.err;
  EXPECT_THAT(file_text(path() / "a/log.txt"), HasSubstr("device auto: cuda:0 ("));
  const ProgramResult cpu = without("train small.toml --run-dir b --set learner.device=auto");
  ASSERT_EQ(cpu.exit_code, 0) << cpu.err;
  EXPECT_THAT(file_text(path() / "b/log.txt"), HasSubstr("device auto: cpu, because cuda: no NVIDIA driver"));
}

TEST_F(GpuCommand, AGpuThatIsNotThereIsOneError) {
  const ProgramResult run = on_gpus("train small.toml --run-dir a --set learner.device=cuda:7");
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.err, HasSubstr("cuda:7: this machine has 2 GPUs, expected 0 to 1"));
  const ProgramResult none = without("train small.toml --run-dir b --set learner.device=cuda:0");
  EXPECT_NE(none.exit_code, 0);
  EXPECT_THAT(none.err, HasSubstr("no NVIDIA driver"));
  const ProgramResult bad = on_gpus("train small.toml --run-dir c --set learner.device=gpu");
  EXPECT_NE(bad.exit_code, 0);
  EXPECT_THAT(bad.err, HasSubstr("learner.device: device \"gpu\", expected \"auto\", \"cpu\" or \"cuda:N\""));
}

TEST_F(GpuCommand, AKernelThatFailsEndsTheLearnerWithItsName) {
  const ProgramResult run = on_gpus("train small.toml --run-dir a --set learner.device=cuda:0", "fail_kernel=3000");
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.err, HasSubstr("learner"));
  EXPECT_THAT(run.err, HasSubstr("cuda:0"));
  EXPECT_THAT(run.err, HasSubstr("illegal memory access"));
}

TEST_F(GpuCommand, DoctorShowsWhatThereIsAndWhatIsMissing) {
  const ProgramResult gpus = on_gpus("doctor");
  ASSERT_EQ(gpus.exit_code, 0) << gpus.err;
  for (const char* const expected :
       {"\ncuda:0 ", "\ncuda:1 ", "\nauto       cuda:0\n", "plug-in    " EMULATED_PLUGINS}) {
    EXPECT_THAT(gpus.out, HasSubstr(expected));
  }
  const ProgramResult none = without("doctor");
  ASSERT_EQ(none.exit_code, 0) << none.err;
  EXPECT_THAT(none.out, HasSubstr("driver     none: install NVIDIA's driver"));
  EXPECT_THAT(none.out, HasSubstr("\nauto       cpu\n"));
  const ProgramResult nowhere =
      run_command(path(), "env TROUPE_PLUGIN_PATH=/nowhere '" TROUPE_BINARY_DIR "/bin/troupe' doctor");
  EXPECT_EQ(nowhere.exit_code, 0) << nowhere.err;
}

}  // namespace
}  // namespace troupe::apps
