// Whole graphs as modules: what one takes and gives, what it refuses, and its numbers beside those of the processor's
// program.
#include <troupe/learner/engine/pjrt/hlo_module.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/graph/graph_data.hpp>
#include <troupe/learner/ops/batch_norm.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/embedding.hpp>
#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/joint.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/losses.hpp>
#include <troupe/learner/ops/norm.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/tests/pjrt/plugins.hpp>

namespace troupe::learner {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kRows = 12;

/// Two groups with a target of one, a state, inputs of two types, an output and two metrics.
void build(Graph& graph) {
  const ParamGroup body = graph.group("body"), head = graph.group("head"), target = graph.target(head, 2);
  const auto param = [&](ParamGroup group, const char* name, const Shape& shape) {
    return graph.param(group, name, shape, Init::normal(0.5));
  };
  const Var x = graph.input("x", {6}), label = graph.input("label", {}, DType::kI32);
  Var h = linear(x, param(body, "0/weight", {6, 17}), param(body, "0/bias", {17}), Activation::kElu);
  h = layer_norm(h, param(body, "n/bias", {17}), param(body, "n/gain", {17}), param(body, "n/offset", {17}),
                 Activation::kTanh, 1e-5);
  h = add(h, embedding(param(body, "table", {5, 17}), label));
  h = batch_norm(h, param(body, "b/gain", {17}), param(body, "b/offset", {17}),
                 graph.state("mean", {17}, Init::constant(0)), graph.state("variance", {17}, Init::constant(1)), {});
  const auto logits = [&](ParamGroup group, Var of) {
    return linear(of, param(group, "weight", {17, 5}), param(group, "bias", {5}));
  };
  const Var y = logits(head, h), old = logits(target, stop_gradient(h));
  const Var loss = add(mean(label_cross_entropy(y, label, 0.1)), mean(square(sub(y, old))));
  graph.metric("loss", loss);
  graph.metric("correct", mean(is_correct(y, label)));
  graph.output("y", y);
  graph.input("unused", {3});
  graph.minimize(loss, body, OptimizerSpec{});
  graph.minimize(scale(loss, 2), head, OptimizerSpec{});
}

TEST(HloModule, SaysWhatItTakesAndGives) {
  Graph graph(kRows);
  build(graph);
  auto made = make_hlo_module(graph);
  ASSERT_TRUE(made.ok()) << made.error().message;
  // The tensors of what is whole one behind the other.
  const auto words = [](const std::vector<HloSlot>& slots) {
    std::string text;
    for (const HloSlot& slot : slots) {
      const std::string whole = std::string(to_string(slot.role)) + " " + std::to_string(slot.index);
      text += (slot.entry > 0 ? "" : (text.empty() ? "" : "\n") + whole) + " " + slot.type.text();
    }
    return text;
  };
  const GraphData& data = GraphAccess::data(graph);
  const auto tensors = [](const std::string& what, const ParamLayout& layout) {
    std::string text = "\n" + what;
    for (const ParamEntry& entry : layout.entries) text += " " + hlo::Type{entry.shape}.text();
    return text;
  };
  const ParamLayout &body = data.groups[0].layout, &head = data.groups[1].layout, &state = data.state.layout;
  EXPECT_EQ(words(made->arguments), "rows 0 tensor<i32>\ninput 0 tensor<12x6xf32>\ninput 1 tensor<12xi32>" +
                                        tensors("params 0", body) + tensors("params 1", head) +
                                        tensors("params 2", head) + tensors("state 0", state));
  EXPECT_EQ(words(made->results), "output 0 tensor<12x5xf32>" + tensors("gradient 0", body) +
                                      tensors("gradient 1", head) + "\nmetrics 0 tensor<2xf32>" +
                                      tensors("state 0", state));
  EXPECT_EQ(body.entries.size(), 8U);
}

TEST(HloModule, IsTheSameTextForTheSameGraph) {
  Graph first(kRows), second(kRows);
  build(first);
  build(second);
  EXPECT_EQ(make_hlo_module(first)->text, make_hlo_module(second)->text);
}

TEST(HloModule, OfActingHasNoGradients) {
  Graph graph(kRows);
  build(graph);
  auto made = make_hlo_module(graph, {.phase = HloPhase::kAct});
  ASSERT_TRUE(made.ok()) << made.error().message;
  for (const HloSlot& slot : made->results) EXPECT_NE(slot.role, HloRole::kGradient);
  EXPECT_LT(made->text.size(), make_hlo_module(graph)->text.size());
}

constexpr OpDef kUsers{
    .name = "users_own",
    .infer = [](std::span<const ValueSpec> in, const Attr&) -> Result<std::vector<ValueSpec>> {
      return std::vector<ValueSpec>{in[0]};
    },
    .kernel = [](const KernelTable&) -> KernelFn { return nullptr; },
};

TEST(HloModule, OperationWithoutARuleIsRefusedByName) {
  Graph graph(kRows);
  const Var x = graph.input("x", {6});
  graph.output("y", graph.emit1(kUsers, {x}));
  auto made = make_hlo_module(graph);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Code::kInvalidArgument);
  EXPECT_EQ(
      made.error().message,
      "pjrt: the operation users_own has no rule for this engine: give its OpDef one (hlo), or run on cpu or cuda");
}

TEST(HloModule, OperationOfAUsersHasARuleLikeAnyOther) {
  // That of docs/adding_an_op.md.
  static constexpr OpDef kHuber{
      .name = "huber",
      .infer = kUsers.infer,
      .kernel = kUsers.kernel,
      .hlo = [](const hlo::Node& n) -> hlo::Values {
        const hlo::Value size = unary("abs", n.in[0]);
        return {select(is_greater(size, 1), size - 0.5, 0.5 * (size * size))};
      },
  };
  Graph graph(kRows);
  graph.output("y", graph.emit1(kHuber, {graph.input("x", {6})}));
  auto made = make_hlo_module(graph);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_THAT(made->text, HasSubstr("stablehlo.select"));
}

TEST(HloModule, FunctionOfTheHostsIsRefusedUnlessNobodyReadsIt) {
  Graph graph(kRows);
  const Var x = graph.input("x", {6});
  const Var made_by_host = joint(
      sum(x), [](const JointArgs&) -> Status { return {}; }, nullptr);
  graph.output("y", affine(x, 2, 1));
  EXPECT_TRUE(make_hlo_module(graph).ok());
  graph.metric("host", made_by_host);
  auto made = make_hlo_module(graph);
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, HasSubstr("calls a function of the host's"));
}

TEST(HloModule, ErrorsOfTheGraphAreItsOwn) {
  Graph graph(kRows);
  add(graph.input("x", {6}), graph.input("y", {7}));
  auto made = make_hlo_module(graph);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Code::kShapeMismatch);
}

// ---- with the processor's plug-in ----

class HloModuleRun : public pjrt::CpuPluginTest {};

TEST_F(HloModuleRun, GivesWhatTheProcessorsProgramDoes) {
  Graph graph(kRows);
  build(graph);
  auto program = Program::compile(graph, {.seed = 3});
  ASSERT_TRUE(program.ok()) << program.error().message;
  for (float& x : (*program)->params("head.target")->values()) x *= 0.5F;  // not the online group's
  auto module = make_hlo_module(graph);
  ASSERT_TRUE(module.ok()) << module.error().message;
  auto compiled = client_->compile(module->text);
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;

  const Signature signature{{"x", DType::kF32, Shape{6}}, {"label", DType::kI32, Shape{}}};
  for (const std::int64_t rows : {kRows, std::int64_t{7}, std::int64_t{1}}) {
    SCOPED_TRACE(rows);
    BatchBuffer batch(signature, kRows);
    Rng rng(static_cast<std::uint64_t>(rows));
    for (float& x : batch.mutable_view().as<float>(0)) x = static_cast<float>(rng.normal());
    for (std::int32_t& x : batch.mutable_view().as<std::int32_t>(1)) x = static_cast<std::int32_t>(rng.below(5));

    std::vector<pjrt::Buffer> buffers;
    const auto count = static_cast<std::int32_t>(rows);
    for (const HloSlot& slot : module->arguments) {
      pjrt::HostArray array{&count, DType::kI32, slot.type.shape};
      const auto take = [&](const ParamBuffer& params) {
        array = {params.values().data() + params.layout().entries[slot.entry].offset, DType::kF32, slot.type.shape};
      };
      if (slot.role == HloRole::kParams) take((*program)->group(slot.index));
      if (slot.role == HloRole::kState) take((*program)->state());
      if (slot.role == HloRole::kInput) {
        array = {batch.view().columns[slot.index].data(), signature[slot.index].dtype, slot.type.shape};
      }
      auto buffer = client_->copy_from_host(array);
      ASSERT_TRUE(buffer.ok()) << buffer.error().message;
      buffers.push_back(std::move(*buffer));
    }
    std::vector<const pjrt::Buffer*> arguments;
    for (const pjrt::Buffer& each : buffers) arguments.push_back(&each);
    auto made = compiled->execute({{arguments}});
    ASSERT_TRUE(made.ok()) << made.error().message;

    ASSERT_TRUE((*program)->bind(batch.view().slice(0, rows)).ok());
    const Status run = (*program)->run(Phase::kGradients);
    ASSERT_TRUE(run.ok()) << run.error().message;
    (*program)->assign_states();
    const std::vector<double> metrics((*program)->metrics().begin(), (*program)->metrics().end());
    for (std::size_t r = 0; r < module->results.size(); ++r) {
      const HloSlot& slot = module->results[r];
      std::vector<float> got(static_cast<std::size_t>(slot.type.shape.elements())), expected;
      double largest = 0;
      const auto measure = [&](auto values) {
        for (const auto x : values) largest = std::max(largest, std::abs(static_cast<double>(x)));
      };
      const auto take = [&](auto values) {
        expected.assign(values.begin(), values.end());
        measure(values);
      };
      ASSERT_TRUE((*made)[0][r].copy_to(std::span(got)).ok());
      if (slot.role == HloRole::kOutput) take((*program)->output("y"));
      if (slot.role == HloRole::kMetrics) take(std::span(metrics));
      const auto tensor = [&](const ParamBuffer& of, std::span<const float> flat) {
        const ParamEntry& entry = of.layout().entries[slot.entry];
        take(flat.subspan(static_cast<std::size_t>(entry.offset), got.size()));
        measure(flat);
      };
      if (slot.role == HloRole::kGradient) {
        const std::string group = slot.index == 0 ? "body" : "head";
        tensor(*(*program)->params(group), (*program)->gradient(group));
      }
      if (slot.role == HloRole::kState) tensor((*program)->state(), (*program)->state().values());
      if (slot.role == HloRole::kOutput) got.resize(expected.size());  // the rows that are data
      ASSERT_EQ(got.size(), expected.size());
      // Both are float32, and a batch norm of few rows divides by small differences.
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], expected[i], 2e-5 * largest) << to_string(slot.role) << " " << i;
      }
    }
  }
}

TEST(HloModule, EachOperationSaysWhichNodeItIsOf) {
  Graph graph(2);
  const Var y = affine(graph.input("x", {3}), 2, 1);
  graph.output("y", y);
  const auto module = make_hlo_module(graph, {.phase = HloPhase::kAct});
  ASSERT_TRUE(module.ok()) << module.error().message;
  EXPECT_THAT(module->text, testing::HasSubstr("loc(\"affine %1\")"));
  EXPECT_THAT(graph.to_string(), testing::HasSubstr("%1 [2, 3] rows, = affine("));
}

}  // namespace
}  // namespace troupe::learner
