// Every operation's StableHLO rule against the processor's kernel in float64: the nodes of graphs that together contain
// all operations (kernel_graphs.cpp) become one module each, whose arguments are the operands of all nodes, and the
// processor's PJRT plug-in runs it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include <troupe/learner/engine/pjrt/hlo_step.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/internal.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/tests/learner/engine/kernel_graphs.hpp>
#include <troupe/tests/learner/engine/node_cases.hpp>
#include <troupe/tests/pjrt/plugins.hpp>

namespace troupe::learner {
namespace {

std::vector<NodeCase> nodes_of(const Graph& graph, const Walk& how) {
  std::vector<NodeCase> nodes;
  walk(graph, how, [&](const NodeCase& node) { nodes.push_back(node); });
  return nodes;
}

/// The products and convolutions alone, with operands that bfloat16 holds exactly, in float32 as modules have them.
std::vector<NodeCase> products_of(const Graph& graph, const Walk& how) {
  std::vector<NodeCase> nodes = nodes_of(graph, how);
  std::erase_if(nodes, [](const NodeCase& node) { return node.op->gemm == nullptr && node.op->conv == nullptr; });
  for (NodeCase& node : nodes) {
    for (Side& side : node.in) side.dtype = DType::kF32;
    for (Side& side : node.out) side.dtype = DType::kF32;
  }
  return nodes;
}

/// A module of unconnected nodes: rows, then the operands of each, in order; all outputs.
std::string module_of(const std::vector<NodeCase>& nodes, bool bf16) {
  hlo::Builder to(bf16);
  const hlo::Value rows = to.argument({{}, hlo::Element::kI32});
  std::vector<std::vector<hlo::Value>> operands;
  for (const NodeCase& node : nodes) {
    operands.emplace_back();
    for (const Side& side : node.in) {
      operands.back().push_back(to.argument({side.spec.shape, hlo::element_of(side.dtype)}));
    }
  }
  std::vector<hlo::Value> results;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::vector<ValueSpec> in, out;
    for (const Side& side : nodes[i].in) in.push_back(side.spec);
    for (const Side& side : nodes[i].out) out.push_back(side.spec);
    auto made = lower(*nodes[i].op, {to, operands[i], in, out, nodes[i].attr, nodes[i].batch, rows});
    EXPECT_TRUE(made.ok()) << made.error().message;
    for (std::size_t o = 0; made.ok() && o < out.size(); ++o) results.push_back((*made)[o]);
  }
  return to.module("ops", results);
}

class OpsOf : public testing::TestWithParam<GraphCase> {
 protected:
  void SetUp() override {
    if (pjrt::fetched_plugin("cpu").empty()) GTEST_SKIP() << pjrt::no_plugin("cpu");
    client_ = pjrt::cpu_client();
  }

  pjrt::Buffer upload(const void* data, DType dtype, const Shape& shape) {
    auto made = client_->copy_from_host({data, dtype, shape});
    EXPECT_TRUE(made.ok()) << made.error().message;
    return std::move(made).value();
  }

  void check(const Graph& graph, const std::vector<Walk>& walks) {
    pjrt::LoadedExecutable program;
    for (const Walk& how : walks) {
      const std::vector<NodeCase> nodes = how.bf16 ? products_of(graph, how) : nodes_of(graph, how);
      if (nodes.empty()) continue;
      if (&how == walks.data()) {
        auto made = client_->compile(module_of(nodes, how.bf16), {.quickly = true});
        ASSERT_TRUE(made.ok()) << made.error().message;
        program = std::move(*made);
      }
      std::vector<pjrt::Buffer> buffers;
      const auto rows = static_cast<std::int32_t>(how.valid);
      buffers.push_back(upload(&rows, DType::kI32, {}));
      for (const NodeCase& node : nodes) {
        for (const Side& side : node.in) {
          buffers.push_back(upload(stored(side.values, side.dtype).data(), side.dtype, side.spec.shape));
        }
      }
      std::vector<const pjrt::Buffer*> arguments;
      for (const pjrt::Buffer& each : buffers) arguments.push_back(&each);
      auto made = program.execute({{arguments}});
      ASSERT_TRUE(made.ok()) << made.error().message;
      std::size_t next = 0;
      for (const NodeCase& node : nodes) {
        for (std::size_t o = 0; o < node.out.size(); ++o) {
          const Side& side = node.out[o];
          std::vector<std::byte> bytes(side.values.size() * dtype_bytes(side.dtype));
          const Status copied = (*made)[0][next++].copy_to(std::span(bytes));
          ASSERT_TRUE(copied.ok()) << copied.error().message;
          const std::string wrong = difference(*node.op, side, bytes);
          EXPECT_EQ(wrong, "") << node.describe() << ": output " << o;
        }
      }
    }
  }

  std::shared_ptr<const pjrt::Client> client_;
};

TEST_P(OpsOf, AgreeWithTheProcessors) {
  for (const Sizes& sizes : GetParam().sizes) {
    if (sizes.rows * sizes.cols > 100'000) continue;  // grids of blocks are a GPU's
    Graph graph(sizes.rows);
    GetParam().build(graph, sizes);
    ASSERT_TRUE(graph.status().ok()) << to_string(sizes) << ": " << graph.status().error().message;
    SCOPED_TRACE(to_string(sizes));
    check(graph, {{.valid = sizes.rows}, {.valid = sizes.rows * 3 / 4}});
  }
}

TEST_P(OpsOf, ProductsOfBfloat16AreSummedInFloat32) {
  const Sizes& sizes = GetParam().sizes[GetParam().sizes.size() / 2];
  if (sizes.rows * sizes.cols > 100'000) GTEST_SKIP() << "has none";
  Graph graph(sizes.rows);
  GetParam().build(graph, sizes);
  check(graph, {{.valid = sizes.rows, .bf16 = true}});
}

/// A NaN in every fifth number, and indices outside on both sides.
void spoil(const ValueSpec& spec, Values& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (spec.dtype == DType::kF32 && i % 5 == 3) values[i] = NAN;
    if (spec.dtype == DType::kI32 && i % 3 != 0) values[i] = i % 3 == 1 ? -1 : 1000;
  }
}

TEST_P(OpsOf, ShowWhatIsNoNumberAndIndicesThatAreNone) {
  const Sizes& sizes = GetParam().sizes[0].rows > 1000 ? GetParam().sizes.back() : GetParam().sizes[0];
  if (sizes.rows * sizes.cols > 100'000) GTEST_SKIP() << "has none";
  if (GetParam().name == "Resizes") GTEST_SKIP() << "a product with constants spreads a NaN over its row and column";
  Graph graph(sizes.rows);
  GetParam().build(graph, sizes);
  check(graph, {{.valid = sizes.rows, .spoil = spoil}});
}

INSTANTIATE_TEST_SUITE_P(Pjrt, OpsOf, testing::ValuesIn(kernel_graphs()),
                         [](const auto& info) { return info.param.name; });

// ---- the table of all operations ----

TEST(HloRules, ThereIsOneForEveryOperationOrAReason) {
  const std::set<std::string> without = {"pack_weight"};     // of plans alone: compilers order weights as they like
  std::set<std::string> tested = {"cast_bf16", "cast_f32"};  // of plans too; tested below
  for (const GraphCase& each : kernel_graphs()) {
    Graph graph(each.sizes.back().rows);
    each.build(graph, each.sizes.back());
    for (const Node& node : GraphAccess::data(graph).nodes) {
      if (node.op == nullptr) continue;
      EXPECT_NE(node.op->hlo, nullptr) << node.op->name;
      tested.insert(std::string(node.op->name));
    }
  }
  for (const std::string& name : defined_operations()) {
    EXPECT_NE(tested.contains(name), without.contains(name)) << name;
  }
  EXPECT_EQ(pack_weight_op().hlo, nullptr);
}

TEST(HloRules, CastsConvert) {
  hlo::Builder to;
  const hlo::Value rows = to.argument({{}, hlo::Element::kI32}), x = to.argument({{3}});
  const ValueSpec spec{{3}, DType::kF32, Place::kReplicated};
  const std::array in{x};
  const std::array specs{spec};
  auto narrow = lower(cast_op(), {to, in, specs, specs, {}, 1, rows});
  ASSERT_TRUE(narrow.ok());
  EXPECT_EQ((*narrow)[0].type, (hlo::Type{{3}, hlo::Element::kBF16}));
  auto wide = lower(widen_op(), {to, *narrow, specs, specs, {}, 1, rows});
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ((*wide)[0].type, (hlo::Type{{3}, hlo::Element::kF32}));
}

}  // namespace
}  // namespace troupe::learner
