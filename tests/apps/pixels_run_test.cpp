// An agent that sees nothing but pictures, from the configuration to its exported network: replay, acting in env
// actors, evaluation and export with bytes as they come from the environment, in one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <troupe/apps/main.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/run/csv_metrics.hpp>
#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

/// A bar stands somewhere in the picture and is moved by the action; the nearer to the middle the better.
class Bar final : public envs::Environment {
 public:
  static constexpr std::int64_t kSide = 16, kSteps = 20;

  Bar(const ConfigSection&, std::uint64_t seed) : rng_(seed) {}
  const envs::EnvSpec& spec() const override { return spec_; }
  Result<envs::TimeStep> reset(std::uint64_t seed, std::span<std::byte> picture) override {
    rng_ = Rng(seed);
    return reset(picture);
  }
  Result<envs::TimeStep> reset(std::span<std::byte> picture) override {
    at_ = 2 * rng_.uniform() - 1;
    taken_ = 0;
    show(picture);
    return envs::TimeStep{};
  }
  Result<envs::TimeStep> step(std::span<const std::byte> action, std::span<std::byte> picture) override {
    double move = 0;
    std::memcpy(&move, action.data(), sizeof(move));
    at_ = std::clamp(at_ + std::clamp(move, -1.0, 1.0) / 2, -1.0, 1.0);
    show(picture);
    const bool last = ++taken_ == kSteps;
    return envs::TimeStep{last ? envs::StepType::kLast : envs::StepType::kMid, 1 - at_ * at_, 1};
  }
  std::vector<std::byte> save_state() const override { return {}; }
  Status restore_state(std::span<const std::byte>) override { return {}; }

 private:
  void show(std::span<std::byte> picture) const {
    const double place = (at_ + 1) / 2 * (kSide - 1);
    for (std::size_t i = 0; i < picture.size(); ++i) {
      const double distance = std::abs(static_cast<double>(i % kSide) - place);
      picture[i] = static_cast<std::byte>(255 * std::max(0.0, 1 - distance / 2));
    }
  }

  envs::EnvSpec spec_{.name = "bar",
                      .observation = {{"pixels", DType::kU8, Shape{kSide, kSide, 1}}},
                      .action = envs::ActionSpec::continuous({-1}, {1}),
                      .episode_steps = kSteps,
                      .control_dt = 1};
  Rng rng_;
  double at_ = 0;
  std::int64_t taken_ = 0;
};

/// Says of no column that it is a stack, so that replay keeps whole rows.
class Unmarked final : public envs::Wrapper {
 public:
  Unmarked(const ConfigSection&, std::unique_ptr<envs::Environment> around) : Wrapper(std::move(around)) {
    for (TensorSpec& column : own_spec().observation) {
      EXPECT_EQ(column.stack.planes, 3);
      column.stack = {};
    }
  }
};

constexpr const char* kPicturesConfig = R"(
env = "bar"
algorithm = "drqv2"
max_env_steps = 3000
seed = 1

[drqv2]
random_env_steps = 500
sigma_env_steps = 1000
discount = 0.9
filters = 8
features = 16
policy_layers = [32]
critic_layers = [32]
encoder_learning_rate = 1e-3
policy_learning_rate = 1e-3
critic_learning_rate = 1e-3
target_rate = 0.05
shift_padding = 1
env_steps_per_learner_step = 2

[learner]
batch_size = 32

[replay]
min_items = 200
samples_per_insert = 16
tolerance = 1

[evaluator]
episodes = 10
)";

class PixelsRun : public TestDirectory {
 protected:
  int program(std::vector<std::string> arguments) const {
    Registry mine = shipped();
    mine.environment("bar", environment_of<Bar>());
    mine.wrapper("unmarked", wrapper_of<Unmarked>("Rows of replay hold whole stacks"));
    arguments.insert(arguments.begin(), "pixels");
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    return troupe::main(static_cast<int>(pointers.size()), pointers.data(), mine);
  }

  int runs_ = 0;
};

TEST_F(PixelsRun, TrainsEvaluatesAndExports) {
  const std::string folder = path().string();
  std::ofstream(path() / "c.toml") << kPicturesConfig;
  ASSERT_EQ(program({"train", folder + "/c.toml", "--run-dir", folder + "/r", "--quiet"}), 0);
  double last = 0;
  const std::vector<Evaluation> evaluations = read_evaluations_csv(path() / "r/evaluations.csv").value();
  for (const Evaluation& evaluation : evaluations) {
    last = find_scalar(evaluation.values, "return").value_or(last);
  }
  // Who does nothing stays where the episode begins, at 1 - s^2 with s uniform: 20 * 2 / 3. The best is almost 20.
  EXPECT_GT(last, 17);
  EXPECT_EQ(program({"eval", folder + "/r"}), 0);
  ASSERT_EQ(program({"export", folder + "/r", "--format", "onnx", "-o", folder + "/policy.onnx"}), 0);
  EXPECT_GT(std::filesystem::file_size(path() / "policy.onnx"), 10'000U);
}

TEST_F(PixelsRun, LearnsTheSameBitsFromStacksThatReplayKeepsWhole) {
  const std::string folder = path().string();
  std::ofstream(path() / "c.toml") << kPicturesConfig;
  const auto learnt = [&](const std::string& wrappers, const std::vector<std::string>& more) {
    const std::string run = folder + "/r" + std::to_string(runs_++);
    std::vector<std::string> arguments = {"train", folder + "/c.toml", "--run-dir", run, "--quiet", "--deterministic"};
    for (const std::string& key : {std::string("wrappers=") + wrappers, std::string("max_env_steps=900"),
                                   std::string("drqv2.n_step=3"), std::string("evaluator.episodes=1")}) {
      arguments.insert(arguments.end(), {"--set", key});
    }
    for (const std::string& key : more) arguments.insert(arguments.end(), {"--set", key});
    EXPECT_EQ(program(arguments), 0);
    EXPECT_EQ(program({"export", run, "-o", run + ".safetensors"}), 0);
    std::ifstream file(run + ".safetensors", std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(file), {});
    std::uint64_t header = 0;  // which says, too, what was run
    std::memcpy(&header, bytes.data(), sizeof(header));
    return bytes.substr(sizeof(header) + header);
  };
  const std::vector<std::vector<std::string>> kinds = {
      {}, {"replay.sampler=prioritized", "replay.max_items=300", "actors.envs_per_actor=3"}};
  for (const auto& kind : kinds) {
    const std::string split = learnt("['frame_stack']", kind);
    EXPECT_GT(split.size(), 10'000U);
    EXPECT_TRUE(split == learnt("['frame_stack','unmarked']", kind));
  }
}

}  // namespace
}  // namespace troupe::apps
