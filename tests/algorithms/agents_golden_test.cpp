// One step of each agent against PyTorch in float64 (tests/learner/make_agents_golden.py writes the file and says what
// is in it): losses, priorities, and all gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <troupe/algorithms/d4pg/replica.hpp>
#include <troupe/algorithms/dmpo/replica.hpp>
#include <troupe/algorithms/drqv2/replica.hpp>
#include <troupe/algorithms/flashsac/replica.hpp>
#include <troupe/algorithms/sac/replica.hpp>
#include <troupe/algorithms/td3/replica.hpp>
#include <troupe/learner/engine/kept_length.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/image.hpp>
#include <troupe/learner/ops/random_shift.hpp>
#include <troupe/tests/learner/golden.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kRows = 8;

control::EnvironmentShape golden_shape() {
  return {.observation_size = 5, .action_low = {-1, -0.5}, .action_high = {1, 2}};
}

/// Of one loss, by the group that it trains.
struct GroupLoss {
  std::string group;
  Var loss;
};

class AgentsGolden : public testing::Test {
 protected:
  /// The step's inputs: transitions, and what is drawn for each row, by the names of the file.
  StepInputs inputs(const std::string& agent, const std::vector<std::string>& drawn, const Shape& of_row = Shape{2},
                    Signature transitions = control::transitions(golden_shape(), true)) {
    agent_ = agent;
    columns_ = std::move(transitions);
    for (const std::string& name : drawn) columns_.push_back({name, DType::kF32, of_row});
    return {graph_, columns_};
  }

  void expect_the_same(const std::vector<GroupLoss>& losses, Var td_error) {
    ASSERT_TRUE(graph_.status().ok()) << graph_.status().error().message;
    graph_.output("td_error", td_error);
    for (const GroupLoss& each : losses) graph_.metric(each.group + "_loss", each.loss);
    // Compiled once without gradients to learn the parameters' names, which are the file's.
    const std::unique_ptr<Program> forward = Program::compile(graph_, {.compute = DType::kF64}).value();
    std::vector<std::string> names;
    for (const GroupLoss& each : losses) {
      std::vector<Var> parameters;
      const std::size_t first = names.size();
      for (const ParamEntry& entry : forward->params(each.group)->layout().entries) {
        names.push_back(entry.name);
        parameters.push_back(
            graph_.param(graph_.group(each.group), entry.name.substr(each.group.size() + 1), entry.shape, {}));
      }
      const std::vector<Var> gradients = graph_.gradients(each.loss, parameters);
      for (std::size_t i = 0; i < gradients.size(); ++i) graph_.output("gradient/" + names[first + i], gradients[i]);
    }
    const std::unique_ptr<Program> program = Program::compile(graph_, {.stripes = 2, .compute = DType::kF64}).value();
    for (std::size_t i = 0; i < program->group_count(); ++i) {
      ParamBuffer& group = program->group(i);
      for (const ParamEntry& entry : group.layout().entries) {
        std::ranges::copy(golden_.values<float>(agent_ + "/initial/" + entry.name), group.tensor(entry).begin());
      }
    }
    for (const ParamEntry& entry : program->state().layout().entries) {
      const std::string name = agent_ + "/initial/" + entry.name;
      if (golden_.has(name)) std::ranges::copy(golden_.values<float>(name), program->state().tensor(entry).begin());
    }
    program->parameters_changed();
    BatchView batch{&columns_, kRows, {}};
    for (const TensorSpec& column : columns_) {
      const std::string of_all = "batch/" + column.name, own = agent_ + "/" + of_all;
      batch.columns.push_back(golden_.find(golden_.has(own) ? own : of_all).bytes);
    }
    program->bind(batch).value();
    program->run().value();

    // Both sides round float64 differently in some hundred operations: 1e-13; the rest is room for other processors.
    const auto expect_near = [&](const std::string& name, std::span<const double> got) {
      const std::vector<double> expected = golden_.values<double>(agent_ + "/" + name);
      ASSERT_EQ(got.size(), expected.size()) << name;
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-11) << name << '[' << i << ']';
    };
    for (std::size_t i = 0; i < losses.size(); ++i) {
      expect_near(losses[i].group + "_loss", program->metrics().subspan(i, 1));
    }
    expect_near("td_error", program->output_f64("td_error"));
    for (const std::string& name : names) expect_near("gradient/" + name, program->output_f64("gradient/" + name));
  }

  Golden golden_{"agents_step.safetensors"};
  Graph graph_{kRows};
  Signature columns_;
  std::string agent_;
};

TEST_F(AgentsGolden, Td3) {
  td3::Options options;
  options.environment = golden_shape();
  options.policy_sizes = options.critic_sizes = {16, 12};
  options.target_noise_clip = 0.25;
  options.importance_weights = true;
  const StepInputs step = inputs("td3", {"noise"});
  const td3::Losses losses = td3::build_losses(graph_, options, step, step["noise"]);
  expect_the_same({{"critic", losses.critic_loss}, {"policy", losses.policy_loss}}, losses.td_error);
}

TEST_F(AgentsGolden, Sac) {
  sac::Options options;
  options.environment = golden_shape();
  options.policy_sizes = options.critic_sizes = {16, 12};
  options.importance_weights = true;
  const StepInputs step = inputs("sac", {"next_noise", "noise"});
  const control::SoftLosses losses = sac::build_losses(graph_, options, step, {step["next_noise"], step["noise"]});
  expect_the_same(
      {{"critic", losses.critic_loss}, {"policy", losses.policy_loss}, {"temperature", losses.temperature_loss}},
      losses.td_error);
}

flashsac::Options golden_flashsac() {
  flashsac::Options options;
  options.environment = golden_shape();
  options.policy = options.critic = {.blocks = 2, .width = 9};
  options.support = {-3, 3, 11};
  options.policy_period = 1;
  options.importance_weights = true;
  return options;
}

TEST_F(AgentsGolden, FlashSac) {
  const flashsac::Options options = golden_flashsac();
  const StepInputs step = inputs("flashsac", {"next_noise", "noise"}, Shape{2}, flashsac::columns(options));
  const control::SoftLosses losses =
      flashsac::build_losses(graph_, options, step, {step["next_noise"], step["noise"]}, {.training = true});
  expect_the_same(
      {{"critic", losses.critic_loss}, {"policy", losses.policy_loss}, {"temperature", losses.temperature_loss}},
      losses.td_error);
}

TEST_F(AgentsGolden, FlashSacsParametersKeepTheirLengths) {
  const flashsac::Options options = golden_flashsac();
  const StepInputs step = inputs("flashsac", {"next_noise", "noise"}, Shape{2}, flashsac::columns(options));
  flashsac::build_losses(graph_, options, step, {step["next_noise"], step["noise"]}, {.training = true});
  const std::unique_ptr<Program> program = Program::compile(graph_, {}).value();
  for (const char* name : {"policy", "critic"}) {
    ParamBuffer& group = *program->params(name);
    // PyTorch has projected these, so that they are projected again changes no more than their last bits.
    for (const ParamEntry& entry : group.layout().entries) {
      std::ranges::copy(golden_.values<float>("flashsac/initial/" + entry.name), group.tensor(entry).begin());
    }
    const std::vector<float> before(group.values().begin(), group.values().end());
    const KeptLengths kept(group.layout());
    EXPECT_FALSE(kept.empty());
    kept.restore(group.values().data(), nullptr);
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(group.values()[i], before[i], 1e-6) << name << i;
    for (float& value : group.values()) value *= 3;
    kept.restore(group.values().data(), nullptr);
    for (const ParamEntry& entry : group.layout().entries) {
      const bool free = entry.name.ends_with("/bias");
      const std::span<const float> now = group.tensor(entry);
      for (std::size_t i = 0; i < now.size(); ++i) {
        const float was = before[static_cast<std::size_t>(entry.offset) + i];
        EXPECT_NEAR(now[i], free ? 3 * was : was, 2e-6) << entry.name << i;
      }
    }
  }
}

TEST_F(AgentsGolden, Dmpo) {
  dmpo::Options options;
  options.environment = golden_shape();
  options.policy_sizes = options.critic_sizes = {16, 12};
  options.support = {-6, 6, 11};
  options.samples = 4;
  options.limits.mean = 0.02;
  options.limits.stddev = 0.03;
  options.importance_weights = true;
  const StepInputs step = inputs("dmpo", {"noise"}, Shape{4, 2});
  const dmpo::Losses losses = dmpo::build_losses(graph_, options, step, step["noise"]);
  const dmpo::PolicyLosses& of_policy = losses.of_policy;
  expect_the_same({{"critic", losses.critic_loss}, {"policy", of_policy.policy_loss}, {"duals", of_policy.dual_loss}},
                  losses.td_error);
}

drqv2::Options golden_pixels() {
  drqv2::Options options;
  options.encoder = {.pixels = {17, 17, 4}, .filters = 3, .features = 6};
  options.environment = golden_shape();
  options.environment.observation_size = options.encoder.pixels.elements();
  options.policy_sizes = options.critic_sizes = {16, 12};
  options.importance_weights = true;
  return options;
}

TEST_F(AgentsGolden, DrqV2) {
  const drqv2::Options options = golden_pixels();
  const StepInputs step =
      inputs("drqv2", {"shift", "next_shift", "next_noise", "noise"}, Shape{2}, drqv2::transitions(options));
  const drqv2::Losses losses = drqv2::build_losses(
      graph_, options, step, {step["shift"], step["next_shift"], step["next_noise"], step["noise"]});
  expect_the_same({{"encoder", losses.critic_loss}, {"critic", losses.critic_loss}, {"policy", losses.policy_loss}},
                  losses.td_error);
}

TEST_F(AgentsGolden, D4pgFromPixels) {
  d4pg::Options options;
  options.encoder = golden_pixels().encoder;
  options.environment = golden_pixels().environment;
  options.policy_sizes = options.critic_sizes = {16, 12};
  options.support = {-6, 6, 11};
  options.dqda_max_norm = 0.4;
  options.importance_weights = true;
  const StepInputs step = inputs("d4pg_pixels", {"shift", "next_shift"}, Shape{2}, d4pg::batch_signature(options));
  const d4pg::Losses losses = d4pg::build_losses(graph_, options, step, {step["shift"], step["next_shift"]});
  expect_the_same({{"encoder", losses.critic_loss}, {"critic", losses.critic_loss}, {"policy", losses.policy_loss}},
                  losses.td_error);
}

TEST_F(AgentsGolden, ShiftsAreThoseOfTheBilinearGrid) {
  const drqv2::Options options = golden_pixels();
  const auto program = [&] {
    const Var pixels = graph_.input("pixels", options.encoder.pixels, DType::kU8), by = graph_.input("shift", {2});
    graph_.output("shifted", from_bytes(shift(pixels, by, options.encoder.shift_padding)));
    return Program::compile(graph_, {}).value();
  }();
  for (const std::string prefix : {"", "next_"}) {
    const auto pixels = golden_.values<std::uint8_t>("drqv2/batch/" + prefix + "pixels");
    const auto draws = golden_.values<float>("drqv2/batch/" + prefix + "shift");
    program->bind("pixels", std::span<const std::uint8_t>(pixels)).value();
    program->bind("shift", std::span<const float>(draws)).value();
    program->run().value();
    const auto expected = golden_.values<std::uint8_t>("drqv2/shifted/" + prefix + "pixels");
    const auto got = program->output("shifted");
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], expected[i]) << i;
  }
}

}  // namespace
}  // namespace troupe::learner
