// Labels: losses against the general cross-entropy, and what happens to labels and indices out of their range.
#include <troupe/learner/ops/losses.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/embedding.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner {
namespace {

const std::vector<float> kLogits{1, 3, 3, -2, 0.5F, 0.25F, 0, 0, 0, 2, 1, -1};
const std::vector<std::int32_t> kLabels{1, 0, 2, 1};

std::vector<float> output(const Program& program, const char* name) {
  return {program.output(name).begin(), program.output(name).end()};
}

TEST(Losses, OfLabelsAreThoseOfTheirDistributions) {
  for (const double smoothing : {0.0, 0.3}) {
    Graph graph(4);
    const Var logits = graph.input("logits", {3}), labels = graph.input("labels", {}, DType::kI32);
    graph.output("loss", label_cross_entropy(logits, labels, smoothing));
    graph.output("reference", softmax_cross_entropy(logits, graph.input("target", {3})));
    graph.output("correct", is_correct(logits, labels));
    graph.output("in_two", is_in_top(logits, labels, 2));
    graph.output("in_all", is_in_top(logits, labels, 3));
    const auto program = Program::compile(graph, {.stripes = 3}).value();
    std::vector<float> target(12, static_cast<float>(smoothing / 3));
    for (std::size_t row = 0; row < 4; ++row) {
      target[row * 3 + static_cast<std::size_t>(kLabels[row])] += static_cast<float>(1 - smoothing);
    }
    program->bind("logits", std::span<const float>(kLogits)).value();
    program->bind("labels", std::span<const std::int32_t>(kLabels)).value();
    program->bind("target", std::span<const float>(target)).value();
    program->run().value();
    // Two orders of a few float32 sums of size 1.
    EXPECT_THAT(output(*program, "loss"), testing::Pointwise(testing::FloatNear(1e-6F), output(*program, "reference")));
    // Row 0: of two equal logits the first counts; row 2: all are equal, and the label is not the first.
    EXPECT_THAT(output(*program, "correct"), testing::ElementsAre(1, 0, 0, 0));
    EXPECT_THAT(output(*program, "in_two"), testing::ElementsAre(1, 0, 0, 1));
    EXPECT_THAT(output(*program, "in_all"), testing::ElementsAre(1, 1, 1, 1));
  }
}

TEST(Losses, AStepWithALabelOrAnIndexOutOfRangeIsSkipped) {
  Graph graph(4);
  const ParamGroup net = graph.group("net");
  const Var table = graph.param(net, "table", {5, 3}, Init::normal(1));
  const Var indices = graph.input("indices", {}, DType::kI32), labels = graph.input("labels", {}, DType::kI32);
  graph.minimize(mean(label_cross_entropy(embedding(table, indices), labels)), net, {.rule = Sgd{.learning_rate = 1}});
  const auto program = Program::compile(graph, {.stripes = 2}).value();
  const std::vector<float> before(program->params("net")->values().begin(), program->params("net")->values().end());
  const auto run = [&](std::vector<std::int32_t> index, std::vector<std::int32_t> label) {
    program->bind("indices", std::span<const std::int32_t>(index)).value();
    program->bind("labels", std::span<const std::int32_t>(label)).value();
    program->run().value();
  };
  run({0, 1, 5, 3}, kLabels);
  run({0, 1, -1, 3}, kLabels);
  EXPECT_EQ(program->skipped(), 2);
  EXPECT_THAT(program->params("net")->values(), testing::ElementsAreArray(before));
  run({0, 1, 1, 3}, kLabels);
  EXPECT_EQ(program->step(), 1);
  const std::span<const float> after = program->params("net")->values();
  for (std::size_t row = 0; row < 5; ++row) {
    EXPECT_EQ(after[row * 3] == before[row * 3], row == 2 || row == 4) << "only rows that were looked up move";
  }
}

TEST(Embedding, TablesAreTheParametersThatAreOnlyLookedUp) {
  Graph graph(4);
  const ParamGroup other = graph.group("other"), net = graph.group("net"), target = graph.target(net, 2);
  const Var indices = graph.input("indices", {}, DType::kI32);
  const auto table = [&](ParamGroup group, const char* name) { return graph.param(group, name, {5, 3}, {}); };
  graph.param(other, "unread", {5, 3}, {});
  const Var first = embedding(table(net, "penalised"), indices), second = embedding(table(net, "plain"), indices);
  embedding(table(target, "plain"), indices);
  const Var penalty = sum(square(table(net, "penalised")));
  graph.minimize(add(mean(square(add(first, second))), penalty), net, {.rule = Sgd{}});
  ASSERT_TRUE(graph.status().ok()) << graph.status().error().message;
  const std::vector<EmbeddingTable> tables = embedding_tables(graph);
  ASSERT_EQ(tables.size(), 1U);
  EXPECT_EQ(tables[0].group, 1U);
  EXPECT_EQ(tables[0].entry, 1U);
}

TEST(Losses, ALabelOutOfRangeGivesNoLoss) {
  Graph graph(4);
  graph.output("loss", label_cross_entropy(graph.input("logits", {3}), graph.input("labels", {}, DType::kI32), 0.1));
  const auto program = Program::compile(graph, {}).value();
  const std::vector<std::int32_t> labels{3, 0, -1, 2};
  program->bind("logits", std::span<const float>(kLogits)).value();
  program->bind("labels", std::span<const std::int32_t>(labels)).value();
  program->run().value();
  EXPECT_TRUE(std::isnan(program->output("loss")[0]));
  EXPECT_TRUE(std::isfinite(program->output("loss")[1]));
  EXPECT_TRUE(std::isnan(program->output("loss")[2]));
}

TEST(Losses, RefuseShapesThatDoNotFit) {
  const auto message = [](auto build) {
    Graph graph(4);
    build(graph);
    return graph.status().ok() ? std::string("fine") : graph.status().error().message;
  };
  EXPECT_THAT(message([](Graph& g) { label_cross_entropy(g.input("x", {3}), g.input("y", {})); }),
              testing::HasSubstr("int32 [rows]"));
  EXPECT_THAT(message([](Graph& g) { label_cross_entropy(g.input("x", {3}), g.input("y", {}, DType::kI32), 1); }),
              testing::HasSubstr("smoothing 1"));
  EXPECT_THAT(message([](Graph& g) { embedding(g.input("x", {3}), g.input("y", {}, DType::kI32)); }),
              testing::HasSubstr("replicated table"));
}

}  // namespace
}  // namespace troupe::learner
