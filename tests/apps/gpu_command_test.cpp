// The program with learners and inference on GPUs: on the emulated device (tests/gpu/emulator), and on a
// machine that has none.
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <troupe/tests/apps/program.hpp>
#include <troupe/tests/apps/test_directory.hpp>
#include <troupe/tests/paths.hpp>

namespace troupe::apps {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// One line matches, from its beginning on.
auto HasLine(const std::string& pattern) { return ContainsRegex("\n" + pattern); }

#ifdef HAS_SIMULATED_NCCL
constexpr bool kHasNccl = true;  ///< beside the emulated plug-ins
#else
constexpr bool kHasNccl = false;
#endif

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
[d4pg]
policy_layers = [16]
critic_layers = [16]
[learner]
batch_size = 16
[evaluator]
episodes = 1
every_learner_steps = 50
)";
  }
  /// On emulated GPUs; `emulator` is what they are told (emulator.h).
  ProgramResult on_gpus(const std::string& arguments, const std::string& emulator = "") {
    return run_command(path(), "env TROUPE_PLUGIN_PATH=" EMULATED_PLUGINS " TROUPE_EMULATOR='" + emulator + "' '" +
                                   binary_dir() + "/bin/troupe' " + arguments);
  }
  /// Where no plug-in finds a GPU.
  ProgramResult without(const std::string& arguments) { return on_gpus(arguments, "driver=0"); }
  /// What a run over processes says of which a kernel fails once there are checkpoints and learned steps. It goes on
  /// until a second process of a node named so (a pattern) has joined and there are two more checkpoints.
  std::string lose_gpu_of(const std::string& node, const std::string& arguments) {
    std::string script = R"--(
says() { until grep -q "$1" out; do sleep 0.05; done; }
newer_cut() {
  local before="$(cat a/checkpoints/cut.json)"
  while [ "$(cat a/checkpoints/cut.json)" = "$before" ]; do sleep 0.05; done
}
export TROUPE_PLUGIN_PATH=PLUGINS TROUPE_EMULATOR=fail_when=$PWD/fail
troupe train small.toml --processes --run-dir a --set max_env_steps=0 --set checkpoint.every_s=1 ARGUMENTS >out 2>&1 &
says 'learner [1-9]'
until [ -e a/checkpoints/cut.json ]; do sleep 0.05; done
newer_cut
touch fail
says 'node NODE has joined (incarnation 2)'
newer_cut
newer_cut
kill -INT $!
wait $!
)--";
    for (const auto& [name, value] :
         {std::pair{"PLUGINS", std::string(EMULATED_PLUGINS)}, {"ARGUMENTS", arguments}, {"NODE", node}}) {
      script.replace(script.find(name), std::string(name).size(), value);
    }
    const ProgramResult run = run_script(path(), script);
    EXPECT_EQ(run.exit_code, 0) << text_of(path() / "out");
    return text_of(path() / "out");
  }
};

TEST_F(GpuCommand, TrainsOnOneGpuAndActsOnAnother) {
  const ProgramResult run = on_gpus(
      "train small.toml --run-dir a --set learner.device=cuda:0 "
      "--set inference.device=cuda:1");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("ended by       max_env_steps"));
  EXPECT_THAT(file_text(path() / "a/log.txt"), HasSubstr("learner: one_device on cuda:0"));
  EXPECT_THAT(file_text(path() / "a/config.toml"), HasSubstr("device = [\"cuda:0\"]"));
  const ProgramResult resumed =
      on_gpus("train small.toml --resume a --set learner.device=cuda:0 --set max_env_steps=4000");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
}

TEST_F(GpuCommand, ReplayLiesInTheLearnersGpu) {
  for (const char* const sampler : {"uniform", "prioritized"}) {
    const std::string common = fmt::format(
        "--set learner.device=cuda:0 --set replay.device=cuda:0 --set replay.sampler={} "
        "--set replay.max_items=900 --set max_env_steps=6000",  // evicts, and lasts for some rows of metrics
        sampler);
    const std::string directory = std::string("in_") + sampler;
    const ProgramResult run = on_gpus(fmt::format("train small.toml --run-dir {} {}", directory, common));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("ended by       max_env_steps"));
    const std::string log = file_text(path() / directory / "log.txt");
    EXPECT_THAT(log, HasSubstr("learner: one_device on cuda:0"));
    EXPECT_THAT(log, HasSubstr("replay on cuda:0"));
    // All that was inserted came to the learner, and a checkpoint has it.
    const std::string metrics = file_text(path() / directory / "metrics.csv");
    EXPECT_THAT(metrics.substr(0, metrics.find('\n')), HasSubstr("learner/items"));
    const ProgramResult resumed =
        on_gpus(fmt::format("train small.toml --resume {} {} --set max_env_steps=6500", directory, common));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  }
}

/// A classifier in two replicas, each on a GPU of its own.
class GpuGroup : public GpuCommand {
 protected:
  GpuGroup() {
    std::ofstream(path() / "group.toml") << R"([replicas.classifier]
model = "classifier"
data = "synthetic"
layers = [16]
replicator = "multi_device"
count = 2
batch_size = 33
steps = 40
evaluate_every_steps = 20
device = ["cuda:0", "cuda:1"]
)";
  }
  /// The accuracy of the run in the folder `run`.
  double accuracy(const std::string& run) {
    const auto summary = nlohmann::json::parse(file_text(path() / run / "summary.json"));
    return summary["replicas"]["classifier"]["evaluation"]["accuracy"];
  }
  std::string log(const std::string& run) { return file_text(path() / run / "log.txt"); }
  static constexpr const char* kWorkers = " --set replicas.classifier.replicator=multi_worker";
};

TEST_F(GpuGroup, ReplicasMeetByNcclOrThroughTheHostAndLearnTheSame) {
  const ProgramResult run = on_gpus("train group.toml --run-dir a");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(log("a"), HasSubstr("classifier: multi_device on cuda:0"));
  const ProgramResult host = on_gpus("train group.toml --run-dir b --set replicas.classifier.reduce=reduction_to_one");
  ASSERT_EQ(host.exit_code, 0) << host.err;
  EXPECT_THAT(log("b"), HasSubstr("classifier: gradients go through the host: that is how they reduce"));
  const ProgramResult shared = on_gpus("train group.toml --run-dir c --set replicas.classifier.device=cuda:1");
  ASSERT_EQ(shared.exit_code, 0) << shared.err;
  EXPECT_NEAR(accuracy("a"), accuracy("b"), 0.02);  // sums in another order
  EXPECT_NEAR(accuracy("a"), accuracy("c"), 0.02);
  if (!kHasNccl) return;
  EXPECT_THAT(log("a"), ContainsRegex("classifier: gradients by NCCL [0-9.]+ on cuda:0, cuda:1"));
  EXPECT_THAT(log("c"), HasSubstr("classifier: gradients go through the host: rank 0 and rank 1 share a GPU"));
}

TEST_F(GpuGroup, MembersOfAGroupMeetByNcclWithinAProcess) {
  const ProgramResult run = on_gpus(std::string("train group.toml --run-dir a") + kWorkers);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const ProgramResult rounded =
      on_gpus(std::string("train group.toml --run-dir b --set replicas.classifier.wire=bf16") + kWorkers);
  ASSERT_EQ(rounded.exit_code, 0) << rounded.err;
  EXPECT_THAT(log("b"),
              HasSubstr("classifier-0: wire = \"bf16\" is how they travel on Troupe's own links; gradients go "
                        "through the host"));
  EXPECT_NEAR(accuracy("a"), accuracy("b"), 0.03);
  if (!kHasNccl) return;
  EXPECT_THAT(log("a"), ContainsRegex("classifier-0: gradients by NCCL [0-9.]+ on cuda:0, cuda:1"));
}

// The simulated NCCL knows the ranks of one process only, and refuses others: a library that does not work.
TEST_F(GpuGroup, MembersOfSeveralProcessesGoOnThroughTheHostWhereNcclFails) {
  const ProgramResult run =
      on_gpus(std::string("train group.toml --run-dir a --processes --set replicas.classifier.nodes=2") + kWorkers);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const ProgramResult alone = on_gpus("train group.toml --run-dir b");
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  EXPECT_NEAR(accuracy("a"), accuracy("b"), 0.02);
  if (!kHasNccl) return;
  EXPECT_THAT(run.out + run.err + log("a"), HasSubstr("nobody answers at the address of this id"));
  EXPECT_THAT(run.out + run.err + log("a"), HasSubstr("gradients go through the host"));
}

TEST_F(GpuGroup, SaysWhatIsMissingForNccl) {
  if (!kHasNccl) GTEST_SKIP() << "built without NCCL";
  std::filesystem::create_directories(path() / "plugins");
  for (const auto& entry : std::filesystem::directory_iterator(EMULATED_PLUGINS)) {
    if (entry.path().filename() != "libnccl.so.2") {
      std::filesystem::create_symlink(entry.path(), path() / "plugins" / entry.path().filename());
    }
  }
  std::ofstream(path() / "plugins/libnccl.so.2") << "no library";
  const ProgramResult run = run_command(path(), "env TROUPE_PLUGIN_PATH='" + (path() / "plugins").string() + "' '" +
                                                    binary_dir() + "/bin/troupe' train group.toml --run-dir a");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(log("a"), ContainsRegex("classifier: nccl: cannot open its libraries: .*; install NVIDIA's libnccl2"));
  EXPECT_THAT(log("a"), HasSubstr("; gradients go through the host"));
  const ProgramResult nowhere = on_gpus("train group.toml --run-dir b --set security.nccl_interface=nowhere0");
  EXPECT_NE(nowhere.exit_code, 0);
  EXPECT_THAT(nowhere.err, HasSubstr("interface is \"nowhere0\", expected one of this host's: "));
}

TEST_F(GpuGroup, LearnersOfD4pgMeetTheSameWay) {
  const ProgramResult run =
      on_gpus("train small.toml --run-dir a --set learner.count=2 --set learner.device='[\"cuda:0\", \"cuda:1\"]'");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("ended by       max_env_steps"));
  if (!kHasNccl) return;
  EXPECT_THAT(log("a"), ContainsRegex("learner-0: gradients by NCCL [0-9.]+ on cuda:0, cuda:1"));
}

TEST_F(GpuGroup, EachLearnerHoldsAShardOfReplayInItsGpu) {
  const std::string two =
      " --set learner.count=2 --set learner.device='[\"cuda:0\", \"cuda:1\"]' --set replay.device='[\"cuda:0\", "
      "\"cuda:1\"]' --set replay.sampler=prioritized --set replay.tolerance=0.2 --set replay.max_items=900 --set "
      "max_env_steps=6000";
  const ProgramResult run = on_gpus("train small.toml --run-dir a" + two);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(log("a"), HasSubstr("learner-0: replay on cuda:0, for 450 items"));
  EXPECT_THAT(log("a"), HasSubstr("learner-1: replay on cuda:1, for 450 items"));
  if (kHasNccl) {
    EXPECT_THAT(log("a"), HasSubstr("learner-0: gradients by NCCL"));
  }
  // Half a sample for each item that either of them has inserted, but those on their way when the run ends.
  const auto steps = nlohmann::json::parse(file_text(path() / "a/summary.json"))["learner_steps"].get<double>();
  EXPECT_GT(steps, 0.75 * 0.5 * 6000 / 16);
  EXPECT_LT(steps, 1.05 * 0.5 * 6000 / 16);
  const ProgramResult resumed = on_gpus("train small.toml --resume a" + two + " --set max_env_steps=6500");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(log("a"), HasSubstr("learner-1: goes on from step"));
  const ProgramResult alone = on_gpus("train small.toml --resume a" + two + " --set learner.count=1");
  EXPECT_THAT(alone.err, HasSubstr("learner.count: got 1, but a has 2, which is the same for all of a run"));
  for (const char* const again : {"b", "c"}) {
    const ProgramResult same =
        on_gpus(fmt::format("train small.toml --deterministic --run-dir {}{} --set max_env_steps=3000", again, two));
    ASSERT_EQ(same.exit_code, 0) << same.err;
  }
  EXPECT_EQ(file_text(path() / "b/evaluations.csv"), file_text(path() / "c/evaluations.csv"));
}

TEST_F(GpuCommand, AProgramWithAnOperationOfItsOwnRunsOnAGpu) {
  const std::string program = "'" + binary_dir() + "/bin/hello_op' ";
  const ProgramResult cpu = run_command(path(), program + "cpu");
  const ProgramResult gpu = run_command(path(), "env TROUPE_PLUGIN_PATH=" EMULATED_PLUGINS " " + program + "cuda:0");
  EXPECT_EQ(cpu.out, "centre 1.333, loss 24.583\n") << cpu.err;
  EXPECT_EQ(gpu.out, cpu.out) << gpu.err;
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
  EXPECT_THAT(bad.err, HasSubstr("learner.device: device \"gpu\", expected \"auto\", \"cpu\", \"cuda:N\""));
}

TEST_F(GpuCommand, AKernelThatFailsEndsTheLearnerWithItsName) {
  const ProgramResult run = on_gpus("train small.toml --run-dir a --set learner.device=cuda:0", "fail_kernel=3000");
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.err, HasSubstr("learner"));
  EXPECT_THAT(run.err, HasSubstr("cuda:0"));
  EXPECT_THAT(run.err, HasSubstr("illegal memory access"));
  EXPECT_THAT(run.err, Not(HasSubstr("restart"))) << "which this process would do in vain";
}

TEST_F(GpuCommand, ALearnerThatLosesItsGpuGoesOnInANewProcessFromTheLastCheckpoint) {
  const std::string out = lose_gpu_of("learner", "--set learner.device=cuda:0");
  EXPECT_THAT(out,
              HasLine("learner . [^\n]*TRP-E152 learner: cuda:0 [^\n]*illegal memory access[^\n]*; this process ends"));
  EXPECT_THAT(out, HasLine("chief . [^\n]*TRP-E101 learner: cuda:0 [^\n]*illegal memory access[^\n]*; the next process "
                           "of node learner runs it as incarnation 1 .1 of 3."));
  EXPECT_THAT(out, HasSubstr("died: exit code 71, its device was lost; restarting it in 0.1 s (1 of 5 in 60 s)"));
  EXPECT_THAT(out, HasLine("learner . [^\n]* learner: goes on from step [1-9]"));
  for (const char* const other : {"actors", "replay", "parameters", "evaluator", "inference"}) {
    EXPECT_THAT(out, HasSubstr(std::string("node ") + other + " has joined (incarnation 1)"));
    EXPECT_THAT(out, Not(HasSubstr(std::string("node ") + other + " has joined (incarnation 2)")));
  }
}

TEST_F(GpuCommand, AnInferenceServerThatLosesItsGpuIsReplaced) {
  const std::string out = lose_gpu_of("inference", "--set inference.device=cuda:0");
  EXPECT_THAT(out, HasLine("inference . [^\n]*TRP-E152 inference: cuda:0 "));
  for (const char* const other : {"learner", "actors", "replay"}) {
    EXPECT_THAT(out, Not(HasSubstr(std::string("node ") + other + " has joined (incarnation 2)")));
  }
}

TEST_F(GpuCommand, OneOfTwoLearnersLosesItsGpuAndTheOtherGoesOn) {
  const std::string out = lose_gpu_of("learner-[01]",
                                      "--set learner.count=2 --set placement.learner.nodes=2 "
                                      "--set 'learner.device=[\"cuda:0\", \"cuda:1\"]'");
  EXPECT_THAT(out, HasLine("learner-[01] . [^\n]*TRP-E152 learner-[01]: cuda:[01] "));
  EXPECT_THAT(out, ContainsRegex("group learner: epoch 1.[0-9]+ of learner-0, learner-1\n(.|\n)*"
                                 "group learner: epoch 1.[0-9]+ of learner-[01]\n(.|\n)*"
                                 "group learner: epoch 1.[0-9]+ of learner-0, learner-1\n"));
}

// The other one's step is compiled for a group of one, and then for two again, and is fed from the same table.
TEST_F(GpuCommand, OneOfTwoLearnersWithReplayInItsGpuComesBackWithItsShard) {
  const std::string out = lose_gpu_of("learner-[01]",
                                      "--set learner.count=2 --set placement.learner.nodes=2 "
                                      "--set 'learner.device=[\"cuda:0\", \"cuda:1\"]' "
                                      "--set 'replay.device=[\"cuda:0\", \"cuda:1\"]' --set replay.tolerance=0.2");
  EXPECT_THAT(out, HasLine("learner-[01] . [^\n]*TRP-E152 learner-[01]: cuda:[01] "));
  EXPECT_THAT(out, HasLine("learner-[01] . [^\n]*TRP-I301 learner-[01]: [1-9][0-9]* items recovered"));
  EXPECT_THAT(out, ContainsRegex("group learner: epoch 1.[0-9]+ of learner-[01]\n(.|\n)*"
                                 "group learner: epoch 1.[0-9]+ of learner-0, learner-1\n"));
}

TEST_F(GpuCommand, AGpuThatNewProcessesLoseTooEndsTheRun) {
  const ProgramResult run = on_gpus(
      "train small.toml --processes --run-dir a --set learner.device=cuda:0 --set checkpoint.every_s=1000 "
      "--set max_env_steps=0",
      "fail_kernel=500");
  EXPECT_NE(run.exit_code, 0);
  EXPECT_THAT(run.out, HasLine("chief . troupe: learner: cuda:0 [^\n]*illegal memory access[^\n]* .after 3 restarts."));
  EXPECT_THAT(run.out, Not(HasSubstr("goes on without it"))) << "nobody waits for a learner that never comes";
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
      run_command(path(), "env TROUPE_PLUGIN_PATH=/nowhere '" + binary_dir() + "/bin/troupe' doctor");
  EXPECT_EQ(nowhere.exit_code, 0) << nowhere.err;
}

}  // namespace
}  // namespace troupe::apps
