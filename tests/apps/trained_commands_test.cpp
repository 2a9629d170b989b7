// `troupe eval` and `troupe sample` with the built program, on one small run that has a part of every kind.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <troupe/algorithms/sngan/judge.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/export/examples.hpp>
#include <troupe/run/csv_metrics.hpp>
#include <troupe/run/pictures/image.hpp>
#include <troupe/run/pictures/png_reader.hpp>
#include <troupe/run/trained_run.hpp>
#include <troupe/tests/apps/program.hpp>

namespace troupe::apps {
namespace {

// The averages of parameters differ from the newest ones, so that taking the wrong ones shows.
constexpr const char* kConfig = R"(
env = "cartpole-swingup"
max_env_steps = 2000
seed = 5

[d4pg]
policy_layers = [16]
critic_layers = [16]
atoms = 11
[learner]
batch_size = 16

[replay]
min_items = 100
samples_per_insert = 2
tolerance = 1

[evaluator]
episodes = 2

[replicas.gan]
model = "sngan"
data = "synthetic"
network = "resnet"
conditional = true
width = 8
discriminator_width = 8
noise_size = 8
batch_size = 16
steps = 20
learning_rate = 0.01
evaluation_images = 130
ema_decay = 0.5

[replicas.mlp]
model = "classifier"
data = "synthetic"
replicator = "parameter_server"
count = 2
layers = [16]
batch_size = 20
steps = 60
ema_decay = 0.9

[replicas.net]
model = "resnet"
depth = 20
data = "synthetic"
batch_size = 16
steps = 10
ema_decay = 0.5
)";

class TrainedCommands : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder() = std::filesystem::path(testing::TempDir()) / ("troupe_TrainedCommands_" + std::to_string(getpid()));
    std::filesystem::remove_all(folder());
    std::filesystem::create_directories(folder());
    std::ofstream(folder() / "c.toml") << kConfig;
    const ProgramResult trained = run("train c.toml --run-dir r --quiet");
    ASSERT_EQ(trained.exit_code, 0) << trained.out << trained.err;
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder()); }

  static std::filesystem::path& folder() {
    static std::filesystem::path path;
    return path;
  }
  static ProgramResult run(const std::string& arguments) { return run_program(folder(), arguments); }

  /// The command fails with this one line.
  static void refuses(const std::string& arguments, const std::string& message) {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 1) << arguments;
    EXPECT_EQ(result.err, "troupe: " + message + "\n");
    EXPECT_EQ(result.out, "");
  }

  static nlohmann::json eval(const std::string& arguments) {
    const ProgramResult result = run("eval r --json " + arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  }

  static Image sample(const std::string& name, const std::string& arguments) {
    const ProgramResult result = run("sample r -o " + name + " " + arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return read_png(folder() / name).value();
  }
};

/// What was found last by one of those that evaluate a part, to the last bit.
double last_recorded(const std::vector<Evaluation>& evaluations, const std::string& source, const std::string& name) {
  double value = -1;
  for (const Evaluation& evaluation : evaluations) {
    if (evaluation.source == source) value = find_scalar(evaluation.values, name).value_or(value);
  }
  return value;
}

TEST_F(TrainedCommands, EvalSaysWhatTheRunsEvaluatorsSaidOfTheSameParameters) {
  const std::vector<Evaluation> recorded = read_evaluations_csv(folder() / "r/evaluations.csv").value();
  const auto summary = nlohmann::json::parse(file_text(folder() / "r/summary.json"));
  struct Part {
    std::string name, model, evaluator;
    std::vector<std::string> scalars;
  };
  const std::vector<Part> parts = {
      {"learner", "d4pg", "final", {"return", "return_std", "episodes"}},
      {"gan",
       "sngan",
       "gan-evaluator",
       {"frechet_distance", "inception_score", "judge_accuracy", "judge_generated_images", "judge_real_images"}},
      {"mlp", "classifier", "mlp-evaluator", {"loss", "accuracy"}},
      {"net", "resnet", "net-evaluator", {"loss", "accuracy", "top5_accuracy"}}};
  for (const Part& part : parts) {
    SCOPED_TRACE(part.name);
    const nlohmann::json said = eval("--what " + part.name);
    EXPECT_EQ(said["part"], part.name);
    EXPECT_EQ(said["model"], part.model);
    EXPECT_EQ(said["step"],
              part.model == "d4pg" ? summary["learner_steps"] : summary["replicas"][part.name]["evaluated_step"]);
    EXPECT_EQ(said["evaluation"].size(), part.scalars.size()) << said;
    for (const std::string& name : part.scalars) {
      EXPECT_EQ(said["evaluation"][name], last_recorded(recorded, part.evaluator, name)) << name;
    }
  }
}

TEST_F(TrainedCommands, EvalPlaysOtherEpisodesWhenAsked) {
  const nlohmann::json first = eval("--what learner --episodes 3 --seed 8")["evaluation"];
  EXPECT_EQ(first["episodes"], 3);
  EXPECT_GT(first["return"], 0);
  EXPECT_EQ(eval("--what learner --episodes 3 --seed 8")["evaluation"], first);
  EXPECT_NE(eval("--what learner --episodes 3 --seed 9")["evaluation"], first);
}

TEST_F(TrainedCommands, EvalPrintsATable) {
  const ProgramResult result = run("eval r --what net");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out.substr(0, result.out.find("2.")), "net (resnet) at step 10\n  loss                   ");
}

TEST_F(TrainedCommands, ASavedModelStartsANewRun) {
  const std::string shortly =
      "train c.toml --set max_env_steps=0 --set max_learner_steps=1 --set replicas.gan.steps=1 --set "
      "replicas.mlp.steps=1 "
      "--set replicas.net.steps=1 --run-dir ";
  const ProgramResult whole = run(shortly + "whole --init r");
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  for (const char* const part : {"learner", "gan", "mlp", "net"}) {
    EXPECT_NE(whole.err.find(std::string(part) + ": begins with "), std::string::npos) << whole.err;
  }
  EXPECT_EQ(whole.err.find("TRP-W107"), std::string::npos) << "everything is there: " << whole.err;
  // One step further, which is not far: the classifier is better than one that has learnt for a step.
  const ProgramResult fresh = run(shortly + "fresh");
  ASSERT_EQ(fresh.exit_code, 0) << fresh.err;
  const auto accuracy = [](const std::string& run) {
    return last_recorded(read_evaluations_csv(folder() / run / "evaluations.csv").value(), "mlp-evaluator", "accuracy");
  };
  EXPECT_GT(accuracy("whole"), accuracy("fresh"));

  ASSERT_EQ(run("export r --what net -o net.safetensors").exit_code, 0);
  std::ofstream(folder() / "net.toml") << "[replicas.other]\nmodel = 'resnet'\ndepth = 20\ndata = 'synthetic'\n"
                                          "batch_size = 16\nsteps = 1\n";
  const ProgramResult file = run("train net.toml --run-dir file --init net.safetensors");
  EXPECT_EQ(file.exit_code, 0) << file.err;
  EXPECT_NE(file.err.find("other: begins with "), std::string::npos) << file.err;

  const ProgramResult narrow = run("train c.toml --run-dir narrow --set d4pg.policy_layers=[5] --init r");
  EXPECT_EQ(narrow.exit_code, 1);
  EXPECT_NE(narrow.err.find("has policy/layer0/weight of [5, 16], expected [5, 5]"), std::string::npos) << narrow.err;
  const ProgramResult none = run("train c.toml --run-dir gone --init nowhere");
  EXPECT_NE(none.exit_code, 0);
  EXPECT_NE(none.err.find("nowhere: not there, expected a run or a file of safetensors"), std::string::npos)
      << none.err;
  EXPECT_FALSE(std::filesystem::exists(folder() / "gone"));
  for (const char* const wrong : {"c.toml", "/dev/null", "/"}) {
    const ProgramResult refused = run(std::string("train c.toml --run-dir gone --init ") + wrong);
    EXPECT_EQ(refused.exit_code, 78) << refused.err;
    EXPECT_NE(refused.err.find(std::string(wrong) + ": "), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find(", expected a run or a file of safetensors"), std::string::npos) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(folder() / "gone"));
  }
}

TEST_F(TrainedCommands, SampleDrawsAClassAColumn) {
  const Image image = sample("a.png", "-n 25 --seed 7");
  // The same noise, beside the labels that the columns stand for, by the network that is exported.
  const TrainedRun trained = open_trained_run(shipped(), (folder() / "r").string(), {.name = "gan"}).value();
  const TrainedNetwork network = trained_network(trained, 25).value();
  const auto drawn_with = [&](const std::vector<std::int32_t>& labels) {
    const auto example =
        learner::run_example(*network.graph, *network.program, derive_seed(7, "sample", 0), {{"label", labels}});
    return to_image(learner::sngan::picture_grid(example.value().outputs[0].reals, Shape{8, 8, 1}, 10));
  };
  /// The largest difference, in steps of grey.
  const auto distance = [&image](const Image& other) {
    int largest = 0;
    for (std::size_t i = 0; i < image.pixels.size(); ++i)
      largest = std::max(largest, std::abs(image.pixels[i] - other.pixels.at(i)));
    return largest;
  };
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 25; ++i) labels.push_back(i % 10);
  ASSERT_EQ(image.width, 10 * 9 + 1);
  ASSERT_EQ(image.height, 3 * 9 + 1);
  EXPECT_LE(distance(drawn_with(labels)), 1);  // products of another size may round otherwise
  EXPECT_GT(distance(drawn_with(std::vector<std::int32_t>(25, 0))), 4) << "labels say nothing";
}

TEST_F(TrainedCommands, SampleRepeatsForASeedAndAnImageDoesNotDependOnTheOthers) {
  const Image many = sample("a.png", "-n 40 --seed 3");
  EXPECT_EQ(sample("b.png", "-n 40 --seed 3"), many);
  EXPECT_NE(sample("c.png", "-n 40 --seed 4"), many);
  const Image few = sample("d.png", "-n 33 --what gan --seed 3");
  ASSERT_EQ(few.width, many.width);
  ASSERT_EQ(few.height, many.height);
  for (int y = 0; y < many.height; ++y) {
    for (int x = 0; x < many.width; ++x) {
      const bool drawn = y < 3 * 9 || x < 3 * 9;  // of the last row the first three
      const auto at = static_cast<std::size_t>((y * many.width + x) * 3);
      ASSERT_EQ(few.pixels[at], drawn ? many.pixels[at] : 0) << x << ", " << y;
    }
  }
}

TEST_F(TrainedCommands, SampleLiesInTheRunAndSaysWhatItIs) {
  const ProgramResult result = run("sample r");
  EXPECT_EQ(result.out,
            "64 images of gan (sngan) at step 20, seed 0, 10 in a row, of classes 0 to 9 in turn\nr/export/gan.png\n");
  EXPECT_TRUE(std::filesystem::exists(folder() / "r/export/gan.png"));
}

TEST_F(TrainedCommands, BadInputGivesOneErrorAndNoFile) {
  refuses("eval r",
          "r: the run has several parts: choose one with --what learner or --what gan or --what mlp or --what net");
  refuses("eval r --what critic", "r: the run has no part critic; it has: learner, gan, mlp, net");
  refuses("eval r --what gan --seed 1",
          "r: --seed is for an agent's episodes, but gan (sngan) is evaluated on its own data");
  refuses("eval r --what net --episodes 1",
          "r: --episodes is for an agent's episodes, but net (resnet) is evaluated on its own data");
  refuses("sample r -o x.png --what mlp", "r: the run has no sngan part mlp; it has: gan");
  std::filesystem::create_directories(folder() / "none");
  std::ofstream(folder() / "none/config.toml") << "[replicas.mlp]\nmodel = 'classifier'\n";
  refuses("sample none -o x.png", "none: the run trains no sngan");
  EXPECT_EQ(run("sample r -o x.png -n 0").exit_code, 64);
  EXPECT_EQ(run("sample r -o x.png -n 4097").exit_code, 64);
  EXPECT_EQ(run("eval r --what learner --episodes 0").exit_code, 64);
  EXPECT_NE(run("eval absent").err.find("not the directory of a run"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder() / "x.png"));
}

}  // namespace
}  // namespace troupe::apps
