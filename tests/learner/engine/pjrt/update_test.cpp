// Steps with their updates on the processor's plug-in beside those of the processor's program: every optimiser, with
// clipping, decay, kept lengths, followers, groups that are not updated in every step, and steps that are skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/tests/learner/engine/pjrt/trained.hpp>
#include <troupe/tests/pjrt/plugins.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kUpdatedRows = 8;

/// A body with a target every three steps and an average, a head that is updated by its own rule, a state.
void build(Graph& graph, const OptimizerSpec& body_spec, const OptimizerSpec& head_spec) {
  const ParamGroup body = graph.group("body"), head = graph.group("head");
  const auto param = [&](ParamGroup group, const char* name, const Shape& shape) {
    return graph.param(group, name, shape, Init::normal(0.5));
  };
  const Var weight = param(body, "0/weight", {5, 7}), bias = param(body, "0/bias", {7});
  const Var wide = param(body, "1/weight", {7, 9});
  const Var x = graph.input("x", {5});
  const Var h = linear(linear(x, weight, bias, Activation::kTanh), wide, param(body, "1/bias", {9}), Activation::kElu);
  const Var y = linear(h, param(head, "weight", {9, 2}), param(head, "bias", {2}));
  const Var loss = mean(square(y));
  const Var count = graph.state("count", {1}, Init::constant(0));
  graph.assign(count, affine(count, 1, 1));
  graph.metric("loss", loss);
  graph.minimize(loss, body, body_spec);
  graph.minimize(scale(loss, 3), head, head_spec);
  graph.exempt_from_decay(bias);
  graph.keep_length({wide}, LengthOf::kColumns);
  graph.target(body, 3);
  graph.average(head, 0.9);
}

class HloUpdate : public pjrt::CpuPluginTest {
 protected:
  /// Both take the same steps, the fourth of which is spoilt by a NaN.
  void compare(const OptimizerSpec& body, const OptimizerSpec& head) {
    Graph graph(kUpdatedRows);
    build(graph, body, head);
    auto program = Program::compile(graph, {.seed = 5});
    ASSERT_TRUE(program.ok()) << program.error().message;
    Program& expected = **program;
    Trained trained(client_, graph, expected);
    Rng rng(2);
    const Signature signature{{"x", DType::kF32, Shape{5}}};
    for (int step = 0; step < 12; ++step) {
      BatchBuffer batch(signature, kUpdatedRows);
      const std::span<float> x = batch.mutable_view().as<float>(0);
      for (float& each : x) each = static_cast<float>(rng.normal());
      if (step == 3) x[7] = NAN;
      const std::int64_t before = expected.step();
      ASSERT_TRUE(expected.bind(batch.view()).ok());
      ASSERT_TRUE(expected.run().ok());
      EXPECT_EQ(trained.step(before, batch.view()), step == 3);
      EXPECT_EQ(expected.step(), before + (step == 3 ? 0 : 1));
      if (step == 3) continue;
      EXPECT_NEAR(trained.metrics[0], expected.metrics()[0], 1e-4 * expected.metrics()[0]);
    }
    trained.expect_near(expected, 5e-5F);  // errors of 1e-7 grow over eleven steps of such rates
  }
};

TEST_F(HloUpdate, Adam) { compare({Adam{.learning_rate = 1e-2}}, {Adam{.learning_rate = 1e-2, .epsilon = 1e-3}}); }

TEST_F(HloUpdate, AdamWithDecayAndClipping) {
  compare({.rule = Adam{.learning_rate = 1e-2, .weight_decay = 0.1}, .max_global_norm = 0.1},
          {.rule = Adam{.learning_rate = 1e-2}, .max_global_norm = 1e6});
}

TEST_F(HloUpdate, SgdOfAllKinds) {
  compare({Sgd{.learning_rate = 1e-2}}, {Sgd{.learning_rate = 1e-2, .momentum = 0.9}});
  compare({Sgd{.learning_rate = 1e-2, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1}},
          {Sgd{.learning_rate = 1e-2, .weight_decay = 0.1}});
}

TEST_F(HloUpdate, RmsPropOfBothForms) {
  compare({RmsProp{.learning_rate = 1e-2, .momentum = 0.5}}, {RmsProp{.learning_rate = 1e-2, .weight_decay = 0.1}});
  compare({RmsProp{.form = RmsProp::Form::kTensorFlow, .learning_rate = 1e-2, .epsilon = 1e-3}},
          {RmsProp{.form = RmsProp::Form::kTensorFlow, .learning_rate = 1e-2, .momentum = 0.5, .epsilon = 1e-3}});
}

TEST_F(HloUpdate, Lars) {
  compare({.rule = troupe::learner::Lars{.learning_rate = 0.5}, .max_global_norm = 0.1},
          {troupe::learner::Lars{.learning_rate = 0.5, .momentum = 0}});
}

TEST_F(HloUpdate, SchedulesAndGroupsThatAreNotAlwaysUpdated) {
  const Schedule cosine{.kind = Schedule::Kind::kCosine, .warmup_steps = 2, .total_steps = 10};
  compare({.rule = Adam{.learning_rate = 1e-2}, .schedule = cosine},
          {.rule = Adam{.learning_rate = 1e-2}, .schedule = cosine, .every_steps = 2});
}

TEST_F(HloUpdate, SlotsAreNotCopied) {
  Graph graph(kUpdatedRows);
  build(graph, {Adam{.learning_rate = 1e-2}}, {Adam{.learning_rate = 1e-2}});
  const HloModule module = make_hlo_module(graph, {.phase = HloPhase::kUpdate}).value();
  const auto operations = client_->compile(module.text).value().about().operations().value();
  const auto follow = [](const HloSlot& slot) { return slot.role == HloRole::kParams && slot.index > 1; };
  EXPECT_LE(operations.at("copy"), std::ranges::count_if(module.arguments, follow));  // groups 2 and 3
}

TEST_F(HloUpdate, StepsInALoopGiveTheBitsOfSingleOnesAlsoWhereOneIsSkipped) {
  Graph graph(kUpdatedRows);
  const Schedule warm{.warmup_steps = 20};
  build(graph, {.rule = Adam{.learning_rate = 1e-2}, .schedule = warm, .max_global_norm = 1},
        {.rule = Sgd{.learning_rate = 1e-2, .momentum = 0.9}, .schedule = warm});
  auto program = Program::compile(graph, {.seed = 5});
  ASSERT_TRUE(program.ok()) << program.error().message;
  Trained single(client_, graph, **program), looped(client_, graph, **program);
  constexpr int kSteps = 16;
  const Signature signature{{"x", DType::kF32, Shape{5}}};
  Rng rng(2);
  std::vector<std::unique_ptr<BatchBuffer>> batches;
  std::vector<BatchView> views;
  std::vector<float> metrics;
  std::int64_t taken = 0;
  for (int step = 0; step < kSteps; ++step) {
    batches.push_back(std::make_unique<BatchBuffer>(signature, kUpdatedRows));
    const std::span<float> x = batches.back()->mutable_view().as<float>(0);
    for (float& each : x) each = static_cast<float>(rng.normal());
    if (step == 3) x[7] = NAN;
    views.push_back(batches.back()->view());
    if (!single.step(taken, views.back())) ++taken;
    metrics.insert(metrics.end(), single.metrics.begin(), single.metrics.end());
  }
  EXPECT_EQ(taken, kSteps - 1);
  looped.launch(0, views);
  EXPECT_EQ(looped.bits(), single.bits());
  ASSERT_EQ(looped.metrics.size(), metrics.size());
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(looped.metrics[m]), std::bit_cast<std::uint32_t>(metrics[m])) << m;
  }
}

}  // namespace
}  // namespace troupe::learner
