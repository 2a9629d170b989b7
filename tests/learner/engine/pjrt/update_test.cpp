// Steps with their updates on the processor's plug-in beside those of the processor's program: every optimiser, with
// clipping, decay, kept lengths, followers, groups that are not updated in every step, and steps that are skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/pjrt/hlo_module.hpp>
#include <troupe/learner/engine/pjrt/hlo_update.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>
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

/// The buffers of a training on the plug-in, by what they are.
class Trained {
 public:
  Trained(std::shared_ptr<const pjrt::Client> client, const Graph& graph, Program& start)
      : client_(std::move(client)), graph_(graph), data_(GraphAccess::data(graph)) {
    for (std::size_t g = 0; g < start.group_count(); ++g) keep(HloRole::kParams, g, 0, start.group(g).values());
    for (std::size_t i = 0; i < data_.minimized.size(); ++i) {
      const ParamBuffer& group = start.group(static_cast<std::size_t>(data_.minimized[i].group));
      for (std::size_t part = 0; part < group.slots().size(); ++part) keep(HloRole::kSlot, i, part, group.slot(part));
    }
    keep(HloRole::kState, 0, 0, start.state().values());
  }

  /// Returns whether it was skipped.
  bool step(std::int64_t step, std::span<const float> x) {
    std::vector<bool> due;
    std::vector<float> rules;
    for (const MinimizeDef& each : data_.minimized) {
      due.push_back((step + 1) % each.spec.every_steps == 0);
      const auto row = hlo_rule(each.spec, step / each.spec.every_steps);
      rules.insert(rules.end(), row.begin(), row.end());
    }
    std::vector<std::int32_t> follows;
    for (const GroupDef& group : data_.groups) {
      bool now = group.online >= 0 && (step + 1) % group.every_steps == 0;
      for (std::size_t i = 0; i < data_.minimized.size(); ++i) {
        if (group.decay > 0 && data_.minimized[i].group == group.online) now = now && due[i];
      }
      follows.push_back(now ? 1 : 0);
    }
    const auto rows = static_cast<std::int32_t>(kUpdatedRows);
    const Compiled& of = compiled(due);
    std::vector<pjrt::Buffer> inputs;
    inputs.reserve(of.module.arguments.size());
    std::vector<const pjrt::Buffer*> arguments;
    for (const HloSlot& slot : of.module.arguments) {
      pjrt::HostArray array{&rows, DType::kI32, slot.type.shape};
      if (slot.role == HloRole::kInput) array = {x.data(), DType::kF32, slot.type.shape};
      if (slot.role == HloRole::kRules) array = {rules.data(), DType::kF32, slot.type.shape};
      if (slot.role == HloRole::kDue) array = {follows.data(), DType::kI32, slot.type.shape};
      if (const auto kept = kept_.find({slot.role, slot.index, slot.part}); kept != kept_.end()) {
        arguments.push_back(&kept->second);
      } else {
        arguments.push_back(&inputs.emplace_back(upload(array)));
      }
    }
    auto made = of.program.execute({{arguments}});
    EXPECT_TRUE(made.ok()) << made.error().message;
    std::vector<float> metrics;
    for (std::size_t r = 0; r < of.module.results.size(); ++r) {
      const HloSlot& slot = of.module.results[r];
      pjrt::Buffer& buffer = made->outputs[0][r];
      if (slot.role == HloRole::kMetrics) {
        metrics = download(buffer, slot.type.shape.elements());
      } else {
        kept_.insert_or_assign({slot.role, slot.index, slot.part}, std::move(buffer));
      }
    }
    loss = metrics[0];
    return metrics[1] != 0;
  }

  std::vector<float> values(HloRole role, std::size_t index, std::size_t part, std::size_t count) {
    return download(kept_.at({role, index, part}), static_cast<std::int64_t>(count));
  }

  float loss = 0;

 private:
  struct Compiled {
    HloModule module;
    pjrt::LoadedExecutable program;
  };
  const Compiled& compiled(const std::vector<bool>& due) {
    const auto found = compiled_.find(due);
    if (found != compiled_.end()) return found->second;
    auto module = make_hlo_module(graph_, {.phase = HloPhase::kUpdate, .due = due});
    EXPECT_TRUE(module.ok()) << module.error().message;
    auto program = client_->compile(module->text);
    EXPECT_TRUE(program.ok()) << program.error().message;
    // All that is updated lies where it lay.
    std::int64_t updated = 0;
    for (const HloSlot& slot : module->arguments) updated += slot.lends_to < 0 ? 0 : 4 * slot.type.shape.elements();
    EXPECT_EQ(program->about().memory()->alias, updated);
    return compiled_.emplace(due, Compiled{std::move(*module), std::move(*program)}).first->second;
  }
  pjrt::Buffer upload(const pjrt::HostArray& array) {
    auto made = client_->copy_from_host(array);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(made).value();
  }
  static std::vector<float> download(const pjrt::Buffer& buffer, std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    const Status copied = buffer.copy_to(std::span(values));
    EXPECT_TRUE(copied.ok()) << copied.error().message;
    return values;
  }
  void keep(HloRole role, std::size_t index, std::size_t part, std::span<const float> values) {
    const Shape shape{static_cast<std::int64_t>(values.size())};
    kept_.insert_or_assign({role, index, part}, upload({values.data(), DType::kF32, shape}));
  }

  std::shared_ptr<const pjrt::Client> client_;
  const Graph& graph_;
  const GraphData& data_;
  std::map<std::tuple<HloRole, std::size_t, std::size_t>, pjrt::Buffer> kept_;
  std::map<std::vector<bool>, Compiled> compiled_;
};

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
    for (int step = 0; step < 12; ++step) {
      std::vector<float> x(static_cast<std::size_t>(5 * kUpdatedRows));
      for (float& each : x) each = static_cast<float>(rng.normal());
      if (step == 3) x[7] = NAN;
      const std::int64_t before = expected.step();
      ASSERT_TRUE(expected.bind("x", std::span<const float>(x)).ok());
      ASSERT_TRUE(expected.run().ok());
      EXPECT_EQ(trained.step(before, x), step == 3);
      EXPECT_EQ(expected.step(), before + (step == 3 ? 0 : 1));
      if (step == 3) continue;
      EXPECT_NEAR(trained.loss, expected.metrics()[0], 1e-4 * expected.metrics()[0]);
    }
    const GraphData& data = GraphAccess::data(graph);
    for (std::size_t g = 0; g < expected.group_count(); ++g) {
      expect_near(trained, HloRole::kParams, g, 0, expected.group(g).values());
    }
    for (std::size_t i = 0; i < data.minimized.size(); ++i) {
      const ParamBuffer& group = expected.group(static_cast<std::size_t>(data.minimized[i].group));
      for (std::size_t part = 0; part < group.slots().size(); ++part) {
        expect_near(trained, HloRole::kSlot, i, part, group.slot(part));
      }
    }
    expect_near(trained, HloRole::kState, 0, 0, expected.state().values());
  }

  /// Errors of 1e-7 grow over eleven steps of such rates.
  static void expect_near(Trained& trained, HloRole role, std::size_t index, std::size_t part,
                          std::span<const float> expected) {
    const std::vector<float> got = trained.values(role, index, part, expected.size());
    float largest = 0;
    for (const float x : expected) largest = std::max(largest, std::abs(x));
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], 5e-5F * largest) << to_string(role) << " " << index << " " << part << ", " << i;
    }
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

}  // namespace
}  // namespace troupe::learner
