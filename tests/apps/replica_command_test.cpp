// Runs of replica groups, pictures of topologies and the comparison of N replicas with one, with the built program.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <troupe/messages/checkpoint.hpp>
#include <troupe/run/csv_metrics.hpp>
#include <troupe/tests/apps/program.hpp>
#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

class ReplicaCommand : public TestDirectory {
 protected:
  ProgramResult run(const std::string& arguments) { return run_program(path(), arguments); }
  void write(const std::string& name, const std::string& text) { std::ofstream(path() / name) << text; }
  std::string read(const std::string& name) { return text_of(path() / name); }
  /// 4000 made-up images of 8 x 8 in ten classes, which overlap.
  void write_config(const std::string& more = "") {
    write("c.toml",
          "[replicas.mlp]\nmodel = 'classifier'\ndata = 'synthetic'\nlayers = [32]\nbatch_size = 40\nsteps = 400\n"
          "evaluate_every_steps = 200\n" +
              more);
  }
};

TEST_F(ReplicaCommand, TrainRecordsARunOfAReplicaGroupAlone) {
  write_config();
  const ProgramResult result = run("train c.toml --run-dir r");
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("training on mlp in "), std::string::npos) << result.out;
  const auto summary = nlohmann::json::parse(read("r/summary.json"));
  EXPECT_EQ(summary["stop_reason"], "replica steps");
  EXPECT_EQ(summary["learner_steps"], 400);
  EXPECT_EQ(summary["replicas"]["mlp"]["evaluated_step"], 400);
  EXPECT_GT(summary["replicas"]["mlp"]["evaluation"]["accuracy"], 0.9);
  const std::vector<Evaluation> evaluations = read_evaluations_csv(path() / "r/evaluations.csv").value();
  ASSERT_FALSE(evaluations.empty());
  EXPECT_EQ(evaluations.back().source, "mlp-evaluator");
  EXPECT_EQ(evaluations.back().step, 400);
  EXPECT_EQ(find_scalar(evaluations.back().values, "accuracy"), summary["replicas"]["mlp"]["evaluation"]["accuracy"]);
  const std::vector<MetricRow> rows = read_metrics_csv(path() / "r/metrics.csv").value();
  ASSERT_FALSE(rows.empty()) << "however short the run is";
  EXPECT_EQ(find_scalar(rows.back().scalars, "mlp/step"), 400);
  EXPECT_EQ(find_scalar(rows.back().scalars, "mlp/loss"), summary["replicas"]["mlp"]["metrics"]["loss"]);
  EXPECT_NE(read("r/learning_curve.svg").find(">mlp: accuracy<"), std::string::npos);
  // What has ended goes on as what it is: ended.
  const ProgramResult resumed = run("train c.toml --resume r");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(read_evaluations_csv(path() / "r/evaluations.csv")->size(), evaluations.size());
}

TEST_F(ReplicaCommand, TrainShowsAndJudgesWhatAGanDraws) {
  write("g.toml",
        "[replicas.gan]\nmodel = 'sngan'\ndata = 'synthetic'\nlayers = [32]\nbatch_size = 40\nsteps = 60\n"
        "evaluate_every_steps = 30\nevaluation_images = 600\nreplicator = 'multi_worker'\ncount = 2\nn_dis = 2\n");
  // A process for each of both replicas; the evaluator is with the chief.
  for (const std::string how : {"--run-dir one", "--run-dir several --processes --set replicas.gan.nodes=2"}) {
    const ProgramResult result = run("train g.toml " + how);
    ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
    const std::filesystem::path folder = path() / (how.find("several") == std::string::npos ? "one" : "several");
    const auto evaluation = nlohmann::json::parse(text_of(folder / "summary.json"))["replicas"]["gan"]["evaluation"];
    EXPECT_GT(evaluation["frechet_distance"], 0) << evaluation;
    EXPECT_GT(evaluation["inception_score"], 1) << evaluation;
    EXPECT_GT(evaluation["judge_accuracy"], 0.9) << evaluation;
    EXPECT_EQ(evaluation["judge_generated_images"], 600) << evaluation;
    EXPECT_TRUE(std::filesystem::exists(folder / "samples/gan/step-000000060.png"));
    EXPECT_TRUE(std::filesystem::exists(folder / "samples/gan/all.gif"));
    const std::vector<Evaluation> recorded = read_evaluations_csv(folder / "evaluations.csv").value();
    ASSERT_FALSE(recorded.empty());
    EXPECT_EQ(recorded.back().step, 60);
    EXPECT_EQ(find_scalar(recorded.back().values, "frechet_distance"), evaluation["frechet_distance"]);
  }
}

TEST_F(ReplicaCommand, TrainsAResidualNetworkOfItsName) {
  write("c.toml",
        "[replicas.net]\nmodel = 'resnet'\ndepth = 20\ndata = 'synthetic'\nbatch_size = 40\nsteps = 60\n"
        "optimizer = 'sgd'\nlearning_rate = 0.05\nlabel_smoothing = 0.1\nevaluate_every_steps = 60\n");
  const ProgramResult result = run("train c.toml --run-dir r");
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const auto evaluation = nlohmann::json::parse(read("r/summary.json"))["replicas"]["net"]["evaluation"];
  EXPECT_GT(evaluation["accuracy"], 0.25) << evaluation;  // of ten classes, after 60 steps
  EXPECT_GT(evaluation["top5_accuracy"], evaluation["accuracy"]) << evaluation;
}

/// All tensors of a run's newest checkpoint that belong to one instance.
std::vector<std::byte> tensors_of(const std::filesystem::path& run, const std::string& instance) {
  const auto checkpoint = messages::open_newest_checkpoint((run / "checkpoints").string()).value();
  std::vector<std::byte> all;
  for (const auto& tensor : checkpoint.tensors) {
    if (tensor.name.starts_with(instance + "/")) all.insert(all.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  return all;
}

TEST_F(ReplicaCommand, DeterministicGroupsOfAnySizeComeToTheSameBits) {
  write_config("replicator = 'multi_worker'\ndeterministic = true\n");
  const auto train = [&](const std::string& run_dir, const std::string& count) {
    const ProgramResult result =
        run("train c.toml --run-dir " + run_dir + " --quiet --set replicas.mlp.steps=60 --set " +
            "replicas.mlp.evaluate_every_steps=30 --set replicas.mlp.count=" + count);
    ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  };
  const auto evaluation = [&](const std::string& run_dir) {
    return nlohmann::json::parse(read(run_dir + "/summary.json"))["replicas"]["mlp"]["evaluation"];
  };
  train("one", "1");
  const auto expected = tensors_of(path() / "one", "mlp");
  ASSERT_FALSE(expected.empty());
  for (const std::string count : {"2", "4"}) {
    train(count, count);
    for (int member = 0; member < std::stoi(count); ++member) {
      EXPECT_EQ(tensors_of(path() / count, "mlp-" + std::to_string(member)), expected) << member << " of " << count;
    }
    EXPECT_EQ(evaluation(count), evaluation("one")) << count;
  }
  const ProgramResult bf16 = run("train c.toml --run-dir no --set replicas.mlp.count=2 --set replicas.mlp.wire=bf16");
  EXPECT_NE(bf16.exit_code, 0);
  EXPECT_NE(bf16.err.find("replicas.mlp.wire: got \"bf16\", but with deterministic no bit may depend on what travels"),
            std::string::npos)
      << bf16.err;
}

TEST_F(ReplicaCommand, GradientsThatStayNotFiniteEndTheRunAndLeaveTheirBatch) {
  write_config("optimizer = 'sgd'\nlearning_rate = 10.0\n");
  for (const std::string replicas :
       {"one_device", "multi_worker --set replicas.mlp.count=2", "parameter_server --set replicas.mlp.count=2"}) {
    const std::string folder = "r_" + replicas.substr(0, replicas.find(' '));
    const ProgramResult result = run("train c.toml --run-dir " + folder + " --set replicas.mlp.replicator=" + replicas);
    EXPECT_EQ(result.exit_code, 1) << replicas;
    const auto file = result.err.find("the last batch is in ");
    ASSERT_NE(file, std::string::npos) << replicas << ": " << result.err;
    EXPECT_NE(result.err.find("in a row"), std::string::npos) << result.err;
    const std::string path_said = result.err.substr(file + 21, result.err.find('\n', file) - file - 21);
    EXPECT_TRUE(std::filesystem::exists(path() / path_said)) << path_said;
  }
}

TEST_F(ReplicaCommand, GraphDrawsAConfiguration) {
  write_config("replicator = 'multi_worker'\ncount = 2\n");
  const ProgramResult text = run("graph c.toml -o -");
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("\"mlp\" -> \"mlp-evaluator\""), std::string::npos) << text.out;
  const ProgramResult drawn = run("graph c.toml -o c.svg");
  if (drawn.err.find("dot is not there") != std::string::npos) GTEST_SKIP() << "graphviz is not installed";
  ASSERT_EQ(drawn.exit_code, 0) << drawn.err;
  EXPECT_NE(read("c.svg").find("mlp x 2"), std::string::npos);
  EXPECT_NE(run("graph absent.toml").exit_code, 0);
}

TEST_F(ReplicaCommand, VerifyTellsEqualFromDifferent) {
  write_config();
  const ProgramResult good = run("verify c.toml --replicas 1,2,4");
  EXPECT_EQ(good.exit_code, 0) << good.out << good.err;
  EXPECT_NE(good.out.find("mlp, 4 replicas against one: equal"), std::string::npos) << good.out;
  // No two sums in another order are the same to the last bit in every variable.
  const ProgramResult strict = run("verify c.toml --replicas 4 --tolerance 0");
  EXPECT_EQ(strict.exit_code, 1) << strict.out;
}

TEST_F(ReplicaCommand, VerifyRunsReplicasAsTheConfigurationSays) {
  // Where the same bits are promised, there is no difference at all, whatever runs the replicas.
  for (const std::string replicator : {"one_device", "multi_device", "central_storage", "multi_worker"}) {
    write_config("replicator = '" + replicator + "'\ndeterministic = true\n");
    const ProgramResult exact = run("verify c.toml --replicas 2,4,8 --tolerance 0");
    EXPECT_EQ(exact.exit_code, 0) << replicator << ": " << exact.out << exact.err;
  }
  write_config("replicator = 'parameter_server'\n");
  EXPECT_EQ(run("verify c.toml --replicas 2").exit_code, 0);

  for (const std::string replicator : {"multi_worker", "multi_device", "central_storage"}) {
    write("d.toml",
          "env = 'pendulum-swingup'\n[d4pg]\npolicy_layers = [8]\ncritic_layers = [8]\n[learner]\nbatch_size = 16\n"
          "count = 2\ndeterministic = true\nreplicator = '" +
              replicator + "'\n");
    const ProgramResult exact = run("verify d.toml --replicas 1,2,4,8 --tolerance 0");
    EXPECT_EQ(exact.exit_code, 0) << replicator << ": " << exact.out << exact.err;
  }
}

}  // namespace
}  // namespace troupe::apps
