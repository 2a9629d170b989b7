// Three whole D4PG steps against PyTorch (make_d4pg_golden.py writes the file and says what is in it): losses and
// gradients in float64, and losses, priorities and the complete state after three steps in float32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <troupe/learner/engine/program_state.hpp>
#include <troupe/tests/algorithms/d4pg/hand_fed.hpp>
#include <troupe/tests/learner/golden.hpp>

namespace troupe::learner::d4pg {
namespace {

class D4pgGolden : public testing::Test {
 protected:
  void SetUp() override {
    options_.environment = {.observation_size = 5, .action_low = {-1, -0.5}, .action_high = {1, 2}};
    options_.policy_sizes = {16, 12};
    options_.critic_sizes = {16, 16, 12};
    options_.support = {-6, 6, 11};
    options_.batch = 8;
    const OptimizerSpec adam = {.rule = Adam{.learning_rate = 3e-3}, .max_global_norm = 0.37};
    options_.policy_optimizer = options_.critic_optimizer = adam;
    options_.target_period = 2;
    options_.dqda_max_norm = 0.4;
    options_.importance_weights = true;
    signature_ = batch_signature(options_);
    batch_ = {&signature_, 8, {}};
    for (const TensorSpec& column : signature_) batch_.columns.push_back(golden_.find("batch/" + column.name).bytes);
  }

  template <typename T>
  std::vector<T> values(const std::string& name) const {
    return golden_.values<T>(name);
  }
  void load_initial(Program& program) const {
    for (std::size_t i = 0; i < program.group_count(); ++i) {
      ParamBuffer& group = program.group(i);
      for (const ParamEntry& entry : group.layout().entries) {
        std::ranges::copy(values<float>("initial/" + entry.name), group.tensor(entry).begin());
      }
    }
    program.parameters_changed();
  }

  Golden golden_{"d4pg_step.safetensors"};
  Options options_;
  Signature signature_;
  BatchView batch_;
};

TEST_F(D4pgGolden, LossesAndGradientsInFloat64) {
  Graph graph(8);
  const Losses losses = build_losses(graph, options_, StepInputs(graph, signature_));
  graph.metric("critic_loss", losses.critic_loss);
  graph.metric("policy_loss", losses.policy_loss);
  graph.output("td_error", losses.td_error);
  // Compiled once without gradients to learn the parameters' names, which are the golden file's.
  std::vector<std::string> names;
  const std::unique_ptr<Program> forward = Program::compile(graph, {.compute = DType::kF64}).value();
  for (const auto& [loss, group] :
       {std::pair{losses.critic_loss, losses.critic}, {losses.policy_loss, losses.policy}}) {
    const std::string group_name = group == losses.critic ? "critic" : "policy";
    std::vector<Var> parameters;
    const std::size_t first = names.size();
    for (const ParamEntry& entry : forward->params(group_name)->layout().entries) {
      names.push_back(entry.name);
      parameters.push_back(graph.param(group, entry.name.substr(group_name.size() + 1), entry.shape, {}));
    }
    const std::vector<Var> gradients = graph.gradients(loss, parameters);
    for (std::size_t i = 0; i < gradients.size(); ++i) graph.output("gradient/" + names[first + i], gradients[i]);
  }
  const std::unique_ptr<Program> program = Program::compile(graph, {.compute = DType::kF64}).value();
  load_initial(*program);
  program->bind(batch_).value();
  program->run().value();

  // Both sides round float64 differently in some hundred operations: 1e-13; the rest is room for other processors.
  const auto expect_near = [&](const std::string& name, std::span<const double> got) {
    const std::vector<double> expected = values<double>("f64/" + name);
    ASSERT_EQ(got.size(), expected.size()) << name;
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-11) << name << '[' << i << ']';
  };
  expect_near("critic_loss/1", program->metrics().subspan(0, 1));
  expect_near("policy_loss/1", program->metrics().subspan(1, 1));
  expect_near("td_error/1", program->output_f64("td_error"));
  for (const std::string& name : names) expect_near("gradient/" + name, program->output_f64("gradient/" + name));
}

TEST_F(D4pgGolden, ThreeStepsInFloat32) {
  for (const int stripes : {1, 2}) {
    const std::unique_ptr<HandFed> learner = HandFed::make({.d4pg = options_, .compile = {.stripes = stripes}}).value();
    load_initial(learner->program());
    for (const std::string step : {"1", "2", "3"}) {
      const StepMetrics metrics = learner->step(batch_).value();
      EXPECT_NEAR(metrics.critic_loss, values<float>("f32/critic_loss/" + step)[0], 2e-5) << step;
      EXPECT_NEAR(metrics.policy_loss, values<float>("f32/policy_loss/" + step)[0], 2e-5) << step;
      EXPECT_NEAR(metrics.q_mean, values<float>("f32/q_mean/" + step)[0], 2e-5) << step;
      const std::vector<float> td_error = values<float>("f32/td_error/" + step);
      for (std::size_t row = 0; row < 8; ++row) EXPECT_NEAR(learner->td_error()[row], td_error[row], 2e-5) << step;
    }
    // Adam divides by the gradient's own size, so an element with a small gradient carries its rounding error (1e-7 of
    // the largest) into a step of up to 3e-3. The float64 run says how far rounding alone takes PyTorch itself.
    for (const messages::TensorBytes& tensor : save_state(learner->program())) {
      const std::vector<float> expected = values<float>("f32/final/" + tensor.name);
      const std::vector<double> exact = values<double>("f64/final/" + tensor.name);
      ASSERT_EQ(tensor.bytes.size(), expected.size() * sizeof(float)) << tensor.name;
      std::vector<float> got(expected.size());
      std::memcpy(got.data(), tensor.bytes.data(), tensor.bytes.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i], exact[i], 2e-6 + 10 * std::abs(expected[i] - exact[i])) << tensor.name << '[' << i << ']';
      }
    }
  }
}

}  // namespace
}  // namespace troupe::learner::d4pg
