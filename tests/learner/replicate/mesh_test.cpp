// Linear layers over a mesh of devices against the same layers unsplit: equal parameters, and results that differ by
// rounding only.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/engine/program_state.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/replicate/mesh.hpp>

namespace troupe::learner {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMeshBatch = 12;

std::vector<float> normal(std::uint64_t seed, std::int64_t size) {
  Rng rng(seed);
  std::vector<float> values(static_cast<std::size_t>(size));
  for (float& x : values) x = static_cast<float>(rng.normal());
  return values;
}

struct Options {
  std::vector<Split> splits;
  int devices = 1;
  int stripes = 1;
  DType compute = DType::kF32;
};

/// Four layers 7 -> 33 -> 10 -> 15 -> 5, each split as asked for.
Result<std::unique_ptr<Program>> network(const Options& options, std::int64_t batch = kMeshBatch) {
  Graph graph(batch);
  ReplicaContext context(graph, {.replica_batch = batch, .global_batch = batch, .devices = options.devices}, nullptr);
  const ParamGroup net = graph.group("net");
  const std::array<std::int64_t, 4> sizes{33, 10, 15, 5};
  const std::array<Activation, 4> activations{Activation::kElu, Activation::kTanh, Activation::kRelu,
                                              Activation::kNone};
  MeshValue x = graph.input("x", {7});
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string name = fmt::format("layer{}", i);
    x = mesh_linear(context, x,
                    {.group = net,
                     .name = name,
                     .out = sizes[i],
                     .activation = activations[i],
                     .weight = Init::normal(0.4),
                     .bias = Init::normal(0.2)},
                    options.splits[i]);
  }
  const Var y = x.whole();
  const Var loss = mean(square(sub(y, graph.input("target", {5}))));
  graph.output("y", y);
  graph.metric("loss", loss);
  graph.minimize(loss, net, {.rule = Sgd{.learning_rate = 0.05, .momentum = 0.9}});
  return Program::compile(
      graph, {.stripes = options.stripes, .devices = options.devices, .compute = options.compute, .seed = 3});
}

std::unique_ptr<Program> make(const Options& options) {
  auto program = network(options);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return std::move(program).value();
}

const std::vector<Split> kUnsplit(4, Split::kNone), kByBatch(4, Split::kBatch),
    kByHidden(4, Split::kHidden), kMixed{Split::kBatch, Split::kHidden, Split::kHidden, Split::kBatch};

struct Data {
  std::vector<float> x = normal(1, kMeshBatch * 7), target = normal(2, kMeshBatch * 5);
  void bind(Program& program) const {
    program.bind("x", std::span<const float>(x)).value();
    program.bind("target", std::span<const float>(target)).value();
  }
};

/// |got - expected| / |expected|.
template <typename A, typename B>
double distance(const A& got, const B& expected) {
  double squares = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    squares += std::pow(got[i] - expected[i], 2);
    size += std::pow(expected[i], 2);
  }
  return std::sqrt(squares / size);
}

TEST(Mesh, SplitLayersTrainAsUnsplitOnesDo) {
  const Data data;
  for (const int stripes : {1, 2}) {
    auto expected = make({.splits = kUnsplit, .stripes = stripes});
    data.bind(*expected);
    for (int step = 0; step < 10; ++step) expected->run().value();
    for (const auto& splits : {kByBatch, kByHidden, kMixed}) {
      for (const int devices : {2, 3}) {
        auto program = make({.splits = splits, .devices = devices, .stripes = stripes});
        data.bind(*program);
        for (int step = 0; step < 10; ++step) program->run().value();
        // float32 sums in another order, 1e-7 each, over ten steps of a net that is far from chaotic.
        EXPECT_LT(distance(program->params("net")->values(), expected->params("net")->values()), 1e-5)
            << devices << " devices, " << stripes << " stripes";
        EXPECT_NEAR(program->metrics()[0], expected->metrics()[0], 1e-5 * expected->metrics()[0]);
        EXPECT_LT(distance(program->output("y"), expected->output("y")), 1e-5);
      }
    }
  }
}

TEST(Mesh, GradientsInFloat64AreThoseOfTheUnsplitLayers) {
  const Data data;
  auto expected = make({.splits = kUnsplit, .compute = DType::kF64});
  data.bind(*expected);
  expected->run(Phase::kGradients).value();
  for (const auto& splits : {kByBatch, kByHidden, kMixed}) {
    for (const int devices : {2, 3, 4}) {
      auto program = make({.splits = splits, .devices = devices, .compute = DType::kF64});
      data.bind(*program);
      program->run(Phase::kGradients).value();
      // gradient() rounds the float64 to float32, so a last bit may differ: 6e-8.
      EXPECT_LT(distance(program->gradient("net"), expected->gradient("net")), 1e-7) << devices << " devices";
      EXPECT_LT(distance(program->output_f64("y"), expected->output_f64("y")), 1e-14) << devices << " devices";
    }
  }
}

TEST(Mesh, WithOneDeviceItIsTheUnsplitLayerBitForBit) {
  const Data data;
  auto expected = make({.splits = kUnsplit}), program = make({.splits = kMixed});
  for (auto* each : {expected.get(), program.get()}) {
    data.bind(*each);
    for (int step = 0; step < 3; ++step) each->run().value();
  }
  EXPECT_TRUE(std::ranges::equal(program->params("net")->values(), expected->params("net")->values()));
}

TEST(Mesh, CheckpointsFitEverySplit) {
  const Data data;
  auto unsplit = make({.splits = kUnsplit}), mesh = make({.splits = kByHidden, .devices = 3});
  EXPECT_TRUE(std::ranges::equal(mesh->params("net")->values(), unsplit->params("net")->values()))
      << "parameters start equal";
  EXPECT_EQ(mesh->params("net")->layout().fingerprint(), unsplit->params("net")->layout().fingerprint());
  for (auto* each : {unsplit.get(), mesh.get()}) data.bind(*each);
  for (int step = 0; step < 5; ++step) mesh->run().value();
  ASSERT_TRUE(restore_state(*unsplit, save_state(*mesh), mesh->step()).ok());
  for (int step = 0; step < 5; ++step) {
    mesh->run().value();
    unsplit->run().value();
  }
  EXPECT_LT(distance(unsplit->params("net")->values(), mesh->params("net")->values()), 1e-5) << "as above";
  EXPECT_EQ(unsplit->step(), 10);
}

TEST(Mesh, EveryDeviceHasItsShareOfTheProducts) {
  const Data data;
  for (const auto& splits : {kByBatch, kByHidden}) {
    auto program = make({.splits = splits, .devices = 3});
    ASSERT_EQ(program->devices(), 3);
    const std::string report = program->report();
    for (int device = 0; device < 3; ++device) {
      const std::size_t begin = report.find(fmt::format("device {}", device));
      const std::string part = report.substr(begin, report.find("device ", begin + 7) - begin);
      EXPECT_THAT(part, testing::AllOf(HasSubstr("linear"), HasSubstr("matmul"))) << report;
    }
  }
}

TEST(Mesh, RefusesStripesThatCannotBeCutEvenly) {
  // 12 rows over 3 devices are 4 each; but stripes of 2 or 3 rows cannot be cut into three.
  const auto program = network({.splits = kByBatch, .devices = 3, .stripes = 5});
  ASSERT_FALSE(program.ok());
  EXPECT_THAT(program.error().message, testing::AllOf(HasSubstr("[4, 7]"), HasSubstr("2 of 12 rows")));
  // 7 rows: no number of devices but one divides them, so one does it all.
  EXPECT_TRUE(network({.splits = kByBatch, .devices = 3}, 7).ok());
}

/// Two stages and a loss behind them.
std::unique_ptr<Program> piped(std::int64_t parts, int devices, int stripes, DType compute) {
  Graph graph(kMeshBatch);
  ReplicaContext context(graph, {.replica_batch = kMeshBatch, .global_batch = kMeshBatch, .devices = devices}, nullptr);
  const ParamGroup net = graph.group("net");
  const auto layer = [&](Var x, const char* name, std::int64_t out, Activation kind) {
    const LinearLayer made{.group = net,
                           .name = name,
                           .out = out,
                           .activation = kind,
                           .weight = Init::normal(0.4),
                           .bias = Init::normal(1)};
    return mesh_linear(context, x, made, Split::kNone).whole();
  };
  const std::array<Stage, 2> stages{
      [&](Var x) { return layer(layer(x, "a", 20, Activation::kElu), "b", 11, Activation::kTanh); },
      [&](Var x) { return layer(x, "c", 5, Activation::kNone); }};
  const Var y = pipeline(context, graph.input("x", {7}), parts, stages);
  const Var loss = mean(square(sub(y, graph.input("target", {5}))));
  graph.output("y", y);
  graph.metric("loss", loss);
  graph.minimize(loss, net, {.rule = Sgd{.learning_rate = 0.05, .momentum = 0.9}});
  auto program = Program::compile(graph, {.stripes = stripes, .devices = devices, .compute = compute});
  EXPECT_TRUE(program.ok()) << program.error().message;
  return std::move(program).value();
}

TEST(Mesh, APipelineOfPartsIsTheNetworkItself) {
  const Data data;
  for (const int stripes : {1, 2}) {
    for (const std::int64_t parts : {1, 2, 3}) {
      auto expected = piped(1, 1, stripes, DType::kF64), exact = piped(parts, 2, stripes, DType::kF64);
      for (auto* each : {expected.get(), exact.get()}) {
        data.bind(*each);
        each->run(Phase::kGradients).value();
      }
      // gradient() rounds the float64 to float32, so a last bit may differ: 6e-8.
      EXPECT_LT(distance(exact->gradient("net"), expected->gradient("net")), 1e-7) << parts << " parts";
      EXPECT_LT(distance(exact->output_f64("y"), expected->output_f64("y")), 1e-14) << parts << " parts";
      auto one = piped(parts, 1, stripes, DType::kF32), two = piped(parts, 2, stripes, DType::kF32);
      for (auto* each : {one.get(), two.get()}) {
        data.bind(*each);
        for (int step = 0; step < 5; ++step) each->run().value();
      }
      EXPECT_TRUE(std::ranges::equal(two->params("net")->values(), one->params("net")->values()))
          << "devices change no bit of " << parts << " parts";
    }
  }
}

TEST(Mesh, APipelineRefusesPartsThatDoNotDivideTheBatch) {
  Graph graph(kMeshBatch);
  ReplicaContext context(graph, {.replica_batch = kMeshBatch, .global_batch = kMeshBatch, .devices = 2}, nullptr);
  pipeline(context, graph.input("x", {7}), 5, {});
  EXPECT_THAT(graph.status().error().message, testing::AllOf(HasSubstr("5 parts"), HasSubstr("batch of 12")));
}

TEST(Mesh, APipelineRefusesStagesThatDoNotTreatRowsAlone) {
  const auto error = [](const Stage& second) {
    Graph graph(kMeshBatch);
    ReplicaContext context(graph, {.replica_batch = kMeshBatch, .global_batch = kMeshBatch, .devices = 2}, nullptr);
    pipeline(context, graph.input("x", {7}), 2, std::array<Stage, 2>{[](Var x) { return tanh(x); }, second});
    return graph.status().ok() ? "" : graph.status().error().message;
  };
  EXPECT_EQ(error([](Var x) { return square(x); }), "");
  EXPECT_THAT(error([](Var x) {
                mean(x);
                return x;
              }),
              HasSubstr("stage 1 has sum"));
  EXPECT_THAT(error([](Var x) {
                const Var seen = x.graph->state("seen", {}, {});
                x.graph->assign(seen, affine(seen, 1, 1));
                return x;
              }),
              HasSubstr("stage 1 assigns a state"));
}

TEST(Mesh, NamesTheLayerOfAShapeThatDoesNotFit) {
  Graph graph(4);
  ReplicaContext context(graph, {.replica_batch = 4, .global_batch = 4, .devices = 2}, nullptr);
  mesh_linear(context, graph.input("x", {}), {.group = graph.group("net"), .name = "first", .out = 3}, Split::kHidden);
  EXPECT_THAT(graph.status().error().message, testing::AllOf(HasSubstr("\"first\""), HasSubstr("[4]")));
}

}  // namespace
}  // namespace troupe::learner
