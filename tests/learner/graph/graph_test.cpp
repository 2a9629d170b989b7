// Building graphs: what is shared, and that mistakes are reported with the shapes that disagree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/image.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/losses.hpp>
#include <troupe/learner/ops/norm.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner {
namespace {

using testing::HasSubstr;

std::string error_of(Graph& graph) {
  const auto program = Program::compile(graph, {});
  return program.ok() ? "compiled" : program.error().message;
}

TEST(Graph, NamesBothShapesOfAMismatch) {
  Graph graph(4);
  const ParamGroup net = graph.group("net");
  const Var y = linear(graph.input("x", {3}), graph.param(net, "w", {2, 5}, {}), graph.param(net, "b", {5}, {}));
  EXPECT_FALSE(y);
  EXPECT_THAT(error_of(graph), testing::AllOf(HasSubstr("linear"), HasSubstr("[4, 3]"), HasSubstr("[2, 5]")));
}

TEST(Graph, KeepsTheFirstErrorAndIgnoresWhatFollows) {
  Graph graph(4);
  const Var x = graph.input("x", {3}), y = graph.input("y", {2});
  const Var bad = add(x, y);
  graph.output("z", tanh(concat(bad, x)));
  graph.metric("m", mean(softmax(layer_norm(bad, x, x, x))));
  graph.minimize(mean(bad), graph.group("g"), {});
  EXPECT_THAT(error_of(graph), testing::StartsWith("add: got [4, 3] and [4, 2]"));
}

TEST(Graph, ReportsEachKindOfMistake) {
  const auto error = [](auto build) {
    Graph graph(4);
    build(graph, graph.input("x", {3}));
    return error_of(graph);
  };
  EXPECT_THAT(error([](Graph& g, Var x) {
                matmul(x, g.constant({2, 2}, {1, 2, 3, 4}));
              }),
              HasSubstr("inner dimensions"));
  EXPECT_THAT(error([](Graph&, Var x) { slice(x, 2, 9); }), HasSubstr("columns [2, 9)"));
  EXPECT_THAT(error([](Graph&, Var x) { reshape(x, {5, 2}); }), HasSubstr("[5, 2]"));
  EXPECT_THAT(error([](Graph&, Var x) { reshape(x, {6, 2}); }), HasSubstr("multiple of the batch"));
  EXPECT_THAT(error([](Graph&, Var x) { clip(x, 1, 1); }), HasSubstr("low < high"));
  EXPECT_THAT(error([](Graph&, Var x) { categorical_mean(x, {0, 1, 7}); }), HasSubstr("[rows, 7]"));
  EXPECT_THAT(error([](Graph&, Var x) { categorical_mean(x, {1, 0, 3}); }), HasSubstr("low < high"));
  EXPECT_THAT(error([](Graph&, Var x) { tanh(mean(x)); }), HasSubstr("sum_stripes()"));
  EXPECT_THAT(error([](Graph& g, Var x) { g.metric("m", x); }), HasSubstr("scalar"));
  EXPECT_THAT(error([](Graph& g, Var x) { g.gradients(x, std::array{x}); }), HasSubstr("scalar"));
  EXPECT_THAT(error([](Graph& g, Var) { g.input("x", {3}); }), HasSubstr("exists"));
  EXPECT_THAT(error([](Graph& g, Var) { g.input("y", {3}, DType::kF64); }), HasSubstr("float64, expected"));
  EXPECT_THAT(error([](Graph& g, Var) { add(g.input("y", {3}, DType::kU8), g.input("z", {3}, DType::kU8)); }),
              HasSubstr("operand is uint8, expected float32"));
  EXPECT_THAT(error([](Graph& g, Var) { g.output("y", g.input("y", {3}, DType::kU8)); }),
              HasSubstr("use from_bytes()"));
  EXPECT_THAT(error([](Graph&, Var x) { from_bytes(x); }), HasSubstr("from_bytes: got [4, 3], expected bytes"));
  EXPECT_THAT(error([](Graph& g, Var) { g.constant({2}, {1}); }), HasSubstr("1 values for shape [2]"));
  EXPECT_THAT(error([](Graph& g, Var) { g.target(g.target(g.group("a"), 1), 1); }), HasSubstr("online group"));
  EXPECT_THAT(error([](Graph& g, Var x) {
                g.gradients(mean(is_correct(x, g.input("label", {}, DType::kI32))), std::array{x});
              }),
              HasSubstr("is_in_top has no gradient"));
  EXPECT_THAT(error([](Graph&, Var x) {
                const Var reward = reshape(slice(x, 0, 1), {4});
                categorical_td(x, x, x, reward, {0, 1, 3});
              }),
              HasSubstr("two of [rows, 3] and two of [rows], split alike"));
  EXPECT_THAT(
      error([](Graph& g, Var x) {
        const Var reward = reshape(slice(x, 0, 1), {4});
        g.gradients(mean(categorical_td(x, stop_gradient(x), reward, stop_gradient(reward), {0, 1, 3})), std::array{x});
      }),
      HasSubstr("next_logits, reward and discount have no gradient; use stop_gradient()"));
  Graph other(4);
  const Var foreign = other.input("x", {3});
  EXPECT_THAT(error([&](Graph&, Var x) { add(x, foreign); }), HasSubstr("another graph"));
  EXPECT_THAT(error([](Graph& g, Var x) {
                const ParamGroup net = g.group("net");
                const Var w = g.param(net, "w", {3, 1}, {});
                g.minimize(mean(matmul(x, w)), net, {});
                g.minimize(mean(matmul(x, w)), net, {});
              }),
              HasSubstr("minimized already"));
  Graph empty(0);
  EXPECT_THAT(error_of(empty), HasSubstr("batch 0"));
}

TEST(Graph, SharesAParameterByNameAndRefusesAnotherShape) {
  Graph graph(4);
  const ParamGroup net = graph.group("net");
  const Var w = graph.param(net, "w", {3, 5}, Init::uniform(1));
  EXPECT_EQ(graph.param(graph.group("net"), "w", {3, 5}, {}), w);
  EXPECT_NE(graph.param(graph.target(net, 10), "w", {3, 5}, {}), w);
  EXPECT_FALSE(graph.param(net, "w", {5, 3}, {}));
  EXPECT_THAT(error_of(graph), testing::AllOf(HasSubstr("net/w"), HasSubstr("[3, 5]"), HasSubstr("[5, 3]")));
}

// A user's own operation, defined outside of the engine.
KernelFn sine_kernel(const KernelTable&);
std::vector<Var> sine_vjp(const VjpArgs& args);
Result<std::vector<ValueSpec>> same_as_input(std::span<const ValueSpec> in, const Attr&) {
  return std::vector<ValueSpec>{in[0]};
}
constexpr OpDef kSine{.name = "sine", .infer = same_as_input, .kernel = sine_kernel, .vjp = sine_vjp};
KernelFn sine_kernel(const KernelTable&) {
  return [](const KernelArgs& args) {  // attr real[0]: phase
    for (std::int64_t i = 0; i < args.out[0].elements(); ++i) {
      args.out[0].as<float>()[i] = std::sin(args.in[0].as<float>()[i] + static_cast<float>(args.attr->real[0]));
    }
  };
}
std::vector<Var> sine_vjp(const VjpArgs& args) {
  const double quarter = 1.5707963267948966;
  return {mul(args.out_grads[0], args.graph.emit1(kSine, {args.inputs[0]}, {.real = {args.attr.real[0] + quarter}}))};
}

TEST(Graph, TakesOperationsOfUsers) {
  Graph graph(2);
  const Var x = graph.input("x", {2}), y = graph.emit1(kSine, {x});
  graph.output("y", y);
  graph.output("dx", graph.gradients(sum(y), std::array{x})[0]);
  auto program = Program::compile(graph, {});
  ASSERT_TRUE(program.ok()) << program.error().message;
  const std::vector<float> data{0, 1, 2, 3};
  (*program)->bind("x", std::span<const float>(data)).value();
  (*program)->run().value();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_FLOAT_EQ((*program)->output("y")[i], std::sin(data[i]));
    EXPECT_NEAR((*program)->output("dx")[i], std::cos(data[i]), 1e-6);
  }
}

TEST(Graph, PlacesGradientsWhereTheirForwardNodesAre) {
  Graph graph(2);
  const Var x = graph.input("x", {3});
  Var h, y;
  {
    const DeviceScope on(graph, 2);
    h = tanh(x);
    {
      const DeviceScope inside(graph, 1);
      h = square(h);
    }
    y = relu(h);
  }
  const Var loss = sum(y);
  EXPECT_EQ(graph.device(), 0);
  const std::string forward = graph.to_string();
  graph.gradients(loss, std::array{x});
  const std::string backward = graph.to_string().substr(forward.size());
  const auto devices = [](const std::string& text) {
    std::vector<std::pair<std::string, int>> list;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t begin = line.find("= ") + 2, at = line.find('@');
      list.emplace_back(line.substr(begin, line.find('(') - begin),
                        at == std::string::npos ? 0 : std::stoi(line.substr(at + 1)));
    }
    return list;
  };
  const auto placed = devices(forward), gradients = devices(backward);
  EXPECT_THAT(placed, testing::ElementsAre(testing::Pair("activation", 2), testing::Pair("mul", 1),
                                           testing::Pair("activation", 2), testing::Pair("sum", 0)));
  // What belongs to the sum comes first, then relu's, those of the square and tanh's.
  std::vector<int> order;
  for (const auto& [name, device] : gradients) {
    if (order.empty() || order.back() != device) order.push_back(device);
  }
  EXPECT_THAT(order, testing::ElementsAre(0, 2, 1, 2)) << backward;
}

TEST(Graph, RefusesANegativeDevice) {
  Graph graph(2);
  { const DeviceScope on(graph, -1); }
  EXPECT_THAT(error_of(graph), HasSubstr("device -1"));
}

}  // namespace
}  // namespace troupe::learner
