// Compiled programs as a whole: stripes, phases, optimisers against plain references, targets, state, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <troupe/collectives/detail/shared_place.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/batch_norm.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/joint.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/norm.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kBatch = 13;  // splits unevenly

Var network(Graph& graph, ParamGroup group, Var x, std::int64_t outputs) {
  const auto param = [&](const char* name, Shape shape, Init init) { return graph.param(group, name, shape, init); };
  Var h = layer_norm(matmul(x, param("0/weight", {5, 33}, Init::uniform(0.5))),
                     param("0/bias", {33}, Init::normal(0.1)), param("0/gain", {33}, Init::constant(1)),
                     param("0/offset", {33}, Init::constant(0)), Activation::kTanh);
  h = linear(h, param("1/weight", {33, 20}, Init::uniform(0.3)), param("1/bias", {20}, {}), Activation::kElu);
  return linear(h, param("2/weight", {20, outputs}, Init::truncated_normal(0.3)), param("2/bias", {outputs}, {}));
}

/// A classifier with a target network: the engine's features in one step.
std::unique_ptr<Program> classifier(const CompileOptions& options, const OptimizerSpec& optimizer) {
  Graph graph(kBatch);
  const ParamGroup net = graph.group("net"), target = graph.target(net, 3);
  const Var x = graph.input("x", {5}), labels = graph.input("labels", {7});
  const Var logits = network(graph, net, x, 7), teacher = softmax(network(graph, target, x, 7));
  const Var loss = mean(softmax_cross_entropy(logits, add(scale(labels, 0.9), scale(stop_gradient(teacher), 0.1))));
  graph.metric("loss", loss);
  graph.output("logits", logits);
  graph.minimize(loss, net, optimizer);
  auto program = Program::compile(graph, options);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return std::move(program).value();
}

struct Data {
  std::vector<float> x, labels;
  explicit Data(std::uint64_t seed = 1) {
    Rng rng(seed);
    for (std::int64_t i = 0; i < kBatch * 5; ++i) x.push_back(static_cast<float>(rng.normal()));
    labels.resize(static_cast<std::size_t>(kBatch) * 7);
    for (std::size_t row = 0; row < static_cast<std::size_t>(kBatch); ++row) labels[row * 7 + rng.below(7)] = 1;
  }
  void bind(Program& program) const {
    program.bind("x", std::span<const float>(x)).value();
    program.bind("labels", std::span<const float>(labels)).value();
  }
};

std::vector<float> values(const Program& program, const char* group) {
  const auto span = program.params(group)->values();
  return {span.begin(), span.end()};
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(squares / size);
}

const OptimizerSpec kAdam{.rule = Adam{.learning_rate = 1e-2}, .max_global_norm = 0.5};

TEST(Program, LearnsAndAgreesForAnyNumberOfStripesAndBackEnd) {
  const Data data;
  std::vector<float> reference;
  double first_loss = 0, last_loss = 0;
  for (const GemmBackend backend : {GemmBackend::kAuto, GemmBackend::kEigen}) {
    for (const int stripes : {1, 2, 3, 5}) {
      auto program = classifier({.stripes = stripes, .gemm = backend}, kAdam);
      data.bind(*program);
      for (int step = 0; step < 30; ++step) {
        program->run().value();
        if (step == 0) first_loss = program->metrics()[0];
      }
      last_loss = program->metrics()[0];
      if (reference.empty()) reference = values(*program, "net");
      // Different orders of float32 sums, carried through 30 steps of Adam, which divides by small numbers.
      EXPECT_LT(distance(values(*program, "net"), reference), 1e-3) << stripes << " " << program->gemm_backend_name();
    }
  }
  EXPECT_LT(last_loss, 0.7 * first_loss);
}

TEST(Program, RepeatsBitForBit) {
  const Data data;
  for (const int stripes : {1, 3}) {
    std::vector<std::vector<float>> ends;
    for (int repeat = 0; repeat < 3; ++repeat) {
      auto program = classifier({.stripes = stripes, .seed = 4}, kAdam);
      data.bind(*program);
      for (int step = 0; step < 20; ++step) program->run().value();
      ends.push_back(values(*program, "net"));
      ends.back().push_back(static_cast<float>(program->metrics()[0]));
    }
    EXPECT_EQ(ends[0], ends[1]);
    EXPECT_EQ(ends[0], ends[2]);
  }
  EXPECT_NE(values(*classifier({.seed = 5}, kAdam), "net"), values(*classifier({.seed = 6}, kAdam), "net"));
}

TEST(Program, GivesTheSameBitsForAnyNumberOfThreads) {
  const Data data;
  std::vector<float> reference;
  for (const int threads : {1, 2, 3, 5, 9}) {
    auto program = classifier({.stripes = 5, .threads = threads}, kAdam);
    data.bind(*program);
    for (int step = 0; step < 10; ++step) program->run().value();
    std::vector<float> end = values(*program, "net");
    end.push_back(static_cast<float>(program->metrics()[0]));
    if (reference.empty()) reference = end;
    EXPECT_EQ(end, reference) << threads << " threads";
  }
}

TEST(Program, SkipsAStepWhoseGradientIsNotFinite) {
  for (const int stripes : {1, 3}) {
    Data data, broken;
    broken.x[0] = std::numeric_limits<float>::infinity();
    auto program = classifier({.stripes = stripes}, kAdam);
    data.bind(*program);
    program->run().value();
    const std::vector<float> before = values(*program, "net");
    const auto slot = program->params("net")->slot(1);
    const std::vector<float> slot_before(slot.begin(), slot.end());
    broken.bind(*program);
    for (int i = 0; i < 2; ++i) program->run().value();
    EXPECT_EQ(values(*program, "net"), before);
    EXPECT_EQ(std::vector<float>(slot.begin(), slot.end()), slot_before);
    EXPECT_EQ(program->step(), 1);
    EXPECT_EQ(program->skipped(), 2);
    EXPECT_EQ(program->skipped_in_a_row(), 2);
    data.bind(*program);
    program->run().value();
    EXPECT_NE(values(*program, "net"), before);
    EXPECT_EQ(program->step(), 2);
    EXPECT_EQ(program->skipped(), 2);
    EXPECT_EQ(program->skipped_in_a_row(), 0);
  }
}

TEST(Program, TrainsInBfloat16NearlyAsInFloat32) {
  const Data data;
  auto half = classifier({.compute = DType::kBF16}, kAdam), full = classifier({}, kAdam);
  for (auto* program : {half.get(), full.get()}) {
    data.bind(*program);
    for (int step = 0; step < 30; ++step) program->run().value();
  }
  // bfloat16 keeps 8 bits: products are off by up to 0.4 %.
  EXPECT_NEAR(half->metrics()[0], full->metrics()[0], 0.02 * full->metrics()[0]);
  EXPECT_NE(half->metrics()[0], full->metrics()[0]);
}

TEST(Program, AppliesAdamAndSgdAsThePlainFormulasDo) {
  const std::vector<float> pull{1, -2, 0.5F, 3, 0, -0.1F};
  const std::vector<OptimizerSpec> specs{
      {.rule = Adam{.learning_rate = 0.1, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-4}},
      {.rule = Adam{.learning_rate = 0.1}, .max_global_norm = 1},
      {.rule = Sgd{.learning_rate = 0.2}},
      {.rule = Sgd{.learning_rate = 0.2, .momentum = 0.9}, .max_global_norm = 2}};
  for (std::size_t which = 0; which < specs.size(); ++which) {
    for (const int stripes : {1, 2}) {
      const OptimizerSpec& spec = specs[which];
      Graph graph(2);
      const ParamGroup net = graph.group("net");
      const Var w = graph.param(net, "w", {3, 2}, Init::constant(0.3));
      // d loss / d w = pull * w, exactly.
      const Var loss = add(scale(sum(mul(graph.constant({3, 2}, pull), square(w))), 0.5), mean(graph.input("x", {1})));
      graph.minimize(loss, net, spec);
      auto program = Program::compile(graph, {.stripes = stripes});
      ASSERT_TRUE(program.ok()) << program.error().message;
      (*program)->bind("x", std::span<const float>(std::vector<float>{0, 0})).value();
      std::vector<double> theta(6, 0.3), m(6), v(6);
      for (int t = 1; t <= 6; ++t) {
        (*program)->run().value();
        std::vector<double> g(6);
        double norm = 0;
        for (std::size_t i = 0; i < 6; ++i) norm += std::pow(g[i] = pull[i] * theta[i], 2);
        norm = std::sqrt(norm);
        for (std::size_t i = 0; i < 6; ++i) {
          if (spec.max_global_norm > 0 && norm > spec.max_global_norm) g[i] *= spec.max_global_norm / norm;
          if (const Adam* adam = std::get_if<Adam>(&spec.rule)) {
            m[i] = adam->beta1 * m[i] + (1 - adam->beta1) * g[i];
            v[i] = adam->beta2 * v[i] + (1 - adam->beta2) * g[i] * g[i];
            theta[i] -= adam->learning_rate * (m[i] / (1 - std::pow(adam->beta1, t))) /
                        (std::sqrt(v[i] / (1 - std::pow(adam->beta2, t))) + adam->epsilon);
          } else {
            const Sgd& sgd = std::get<Sgd>(spec.rule);
            m[i] = sgd.momentum * m[i] + g[i];
            theta[i] -= sgd.learning_rate * m[i];
          }
        }
        for (std::size_t i = 0; i < 6; ++i) {
          // 1e-6 relative per step from float32; the two forms of epsilon and bias correction are the same numbers.
          EXPECT_NEAR((*program)->params("net")->values()[i], theta[i], 1e-5 * (1 + std::abs(theta[i])))
              << "spec " << which << " step " << t << " stripes " << stripes;
        }
      }
    }
  }
}

TEST(Program, SplitsAStepIntoGradientsAndUpdate) {
  const Data data;
  for (const int stripes : {1, 3}) {
    auto whole = classifier({.stripes = stripes}, kAdam), split = classifier({.stripes = stripes}, kAdam);
    data.bind(*whole);
    data.bind(*split);
    EXPECT_EQ(split->run(Phase::kUpdate).error().code, Code::kInvalidArgument);
    for (int step = 0; step < 5; ++step) {
      whole->run().value();
      split->run(Phase::kGradients).value();
      EXPECT_GT(std::abs(split->gradient("net")[0]), 0);
      split->run(Phase::kUpdate).value();
    }
    EXPECT_EQ(values(*whole, "net"), values(*split, "net"));
    EXPECT_EQ(split->step(), 5);
  }
}

/// A step with all that reduces over rows, for a batch of `batch` rows: means, sums, products, clipped gradients,
/// joints.
std::unique_ptr<Program> reductions(std::int64_t batch, int stripes, DType compute) {
  Graph graph(batch);
  const ParamGroup net = graph.group("net");
  const Var x = graph.input("x", {5});
  const Var labels = graph.input("labels", {7});
  const Var h = clip_gradient_by_row_norm(network(graph, net, x, 7), 0.05);
  const Var gram = sum_stripes(matmul(h, labels, true, false));
  const Var rows = sum_stripes(count_rows(graph));
  const Var error = softmax_cross_entropy(h, labels);
  const Var normal =
      batch_norm(h, graph.constant({7}, std::vector<float>(7, 1)), graph.constant({7}, std::vector<float>(7)),
                 graph.state("mean", {7}, {}), graph.state("variance", {7}, Init::constant(1)));
  const Var loss = add(add(mean(error), scale(mean(square(h)), 0.1)),
                       add(scale(mean(square(gram)), 0.01), scale(mean(mul(square(normal), labels)), 0.1)));
  graph.metric("sum", sum(error));
  graph.metric("loss", loss);
  graph.metric("rows", rows);
  graph.output("h", h);
  graph.minimize(loss, net, {.rule = Sgd{.learning_rate = 0.1}});
  auto program = Program::compile(graph, {.stripes = stripes, .compute = compute});
  EXPECT_TRUE(program.ok()) << program.error().message;
  return std::move(program).value();
}

TEST(Program, AShortBatchGivesWhatAGraphOfItsSizeGives) {
  const Data data;
  const Signature signature = {{"x", DType::kF32, {5}}, {"labels", DType::kF32, {7}}};
  const auto bytes = [](const std::vector<float>& values) { return std::as_bytes(std::span(values)); };
  const BatchView whole{&signature, kBatch, {bytes(data.x), bytes(data.labels)}};
  for (const DType compute : {DType::kF32, DType::kF64}) {
    for (const int stripes : {1, 3}) {
      auto padded = reductions(kBatch, stripes, compute);
      for (const std::int64_t rows : {kBatch, std::int64_t{4}, std::int64_t{1}, std::int64_t{9}}) {
        auto exact = reductions(rows, 1, compute);
        for (Program* program : {padded.get(), exact.get()}) {
          program->bind(whole.slice(0, rows)).value();
          program->run(Phase::kGradients).value();
        }
        const auto got = padded->gradient("net"), expected = exact->gradient("net");
        // Sums of float32 in another order; of float64 rounded to float32.
        EXPECT_LT(distance({got.begin(), got.end()}, {expected.begin(), expected.end()}), 2e-6)
            << rows << " rows, " << stripes << " stripes";
        EXPECT_EQ(padded->rows(), rows);
        EXPECT_EQ(padded->metrics()[2], static_cast<double>(rows));
        EXPECT_NEAR(padded->metrics()[0], exact->metrics()[0], 1e-5 * exact->metrics()[0]);
        EXPECT_NEAR(padded->metrics()[1], exact->metrics()[1], 1e-5 * exact->metrics()[1]);
        const std::size_t readable =
            compute == DType::kF64 ? padded->output_f64("h").size() : padded->output("h").size();
        EXPECT_EQ(readable, static_cast<std::size_t>(rows) * 7) << "padding is not readable";
      }
    }
  }
}

TEST(Program, ABatchWithoutRowsHasNoLossAndNoGradient) {
  const Data data;
  const Signature signature = {{"x", DType::kF32, {5}}, {"labels", DType::kF32, {7}}};
  auto program = reductions(kBatch, 2, DType::kF32);
  program->bind(BatchView{&signature, 0, {{}, {}}}).value();
  program->run(Phase::kGradients).value();
  EXPECT_THAT(program->gradient("net"), testing::Each(0.0F));
  EXPECT_EQ(program->metrics()[1], 0);
  EXPECT_TRUE(program->output("h").empty());
  EXPECT_EQ(program->bind(BatchView{&signature, kBatch + 1, {{}, {}}}).error().code, Code::kShapeMismatch);
}

TEST(Program, GradientsMatchFloat64) {
  const Data data;
  auto single = classifier({.stripes = 2}, kAdam), exact = classifier({.compute = DType::kF64}, kAdam);
  for (auto* program : {single.get(), exact.get()}) {
    data.bind(*program);
    program->run(Phase::kGradients).value();
  }
  const auto got = single->gradient("net"), expected = exact->gradient("net");
  EXPECT_LT(distance({got.begin(), got.end()}, {expected.begin(), expected.end()}), 2e-6);
  EXPECT_THAT(exact->run().error().message, HasSubstr("float64"));
}

TEST(Program, CopiesTargetsEveryFewStepsAndAfterRestore) {
  const Data data;
  auto program = classifier({.stripes = 2}, kAdam);
  data.bind(*program);
  const std::vector<float> start = values(*program, "net");
  EXPECT_EQ(values(*program, "net.target"), start);
  program->run().value();
  program->run().value();
  EXPECT_EQ(values(*program, "net.target"), start);
  program->run().value();
  EXPECT_EQ(values(*program, "net.target"), values(*program, "net"));
  const std::vector<float> third = values(*program, "net");
  program->set_step(4);
  program->run().value();  // the fifth
  EXPECT_EQ(values(*program, "net.target"), third);
  program->run().value();
  EXPECT_EQ(values(*program, "net.target"), values(*program, "net"));
}

TEST(Program, ReducesGradientsBeforeTheUpdateAndStopsOnItsError) {
  const Data data;
  for (const int stripes : {1, 2}) {
    bool fail = false;
    std::size_t seen = 0;
    OptimizerSpec spec{.rule = Sgd{.learning_rate = 0.5}};
    auto plain = classifier({.stripes = stripes}, spec);
    spec.reduce = [&](const GradientPart& part) -> Status {
      seen = part.values.size();
      EXPECT_EQ(part.name, "net");
      EXPECT_EQ(part.rows, kBatch);
      EXPECT_NE(collectives::detail::find_shareable(part.values.data(), part.values.size_bytes()).id, 0U)
          << "other processes can add theirs to it where it lies";
      for (float& g : part.values) g *= 2;
      if (fail) return Error{Code::kUnavailable, "peer 3 is gone"};
      return {};
    };
    std::get<Sgd>(spec.rule).learning_rate = 0.25;  // half the rate, twice the gradient
    auto reduced = classifier({.stripes = stripes}, spec);
    for (auto* program : {plain.get(), reduced.get()}) {
      data.bind(*program);
      program->run().value();
    }
    EXPECT_EQ(seen, reduced->params("net")->values().size());
    EXPECT_LT(distance(values(*reduced, "net"), values(*plain, "net")), 1e-6);
    fail = true;
    const std::vector<float> before = values(*reduced, "net");
    EXPECT_EQ(reduced->run().error().message, "peer 3 is gone");
    EXPECT_EQ(values(*reduced, "net"), before);
    EXPECT_EQ(reduced->step(), 1);
    fail = false;
    EXPECT_TRUE(reduced->run().ok());
  }
}

TEST(Program, RunsJointFunctionsForwardsAndBackwards) {
  for (const int stripes : {1, 3}) {
    std::size_t seen = 0;
    bool fail = false;
    const JointFn triple = [&](const JointArgs& args) -> Status {
      seen = args.in.size();
      EXPECT_NE(collectives::detail::find_shareable(args.out.data(), args.out.size_bytes()).id, 0U);
      for (std::size_t i = 0; i < args.in.size(); ++i) args.out[i] = 3 * args.in[i];
      return fail ? Status(Error{Code::kCancelled, "stopped"}) : Status();
    };
    Graph graph(kBatch);
    const Var x = graph.input("x", {2});
    const Var rows = joint(x, triple, triple);           // 3 x
    const Var total = joint(sum(rows), triple, triple);  // 9 sum(x), replicated
    graph.output("rows", rows);
    graph.metric("total", total);
    graph.output("dx", graph.gradients(scale(square(total), 0.5), std::array{x})[0]);  // 81 sum(x)
    auto program = Program::compile(graph, {.stripes = stripes});
    ASSERT_TRUE(program.ok()) << program.error().message;
    const std::vector<float> data(kBatch * 2, 0.5F);
    (*program)->bind("x", std::span<const float>(data)).value();
    (*program)->run().value();
    EXPECT_EQ(seen, kBatch * 2U) << "the last one works on rows, backwards";
    EXPECT_THAT((*program)->output("rows"), testing::Each(1.5F));
    EXPECT_FLOAT_EQ(static_cast<float>((*program)->metrics()[0]), 9 * 13);
    EXPECT_THAT((*program)->output("dx"), testing::Each(81.0F * 13));
    fail = true;
    EXPECT_EQ((*program)->run().error().code, Code::kCancelled);
    EXPECT_EQ(Program::compile(graph, {.compute = DType::kF64}).error().code, Code::kInvalidArgument);
  }
}

TEST(Program, KeepsReplicaState) {
  Graph graph(4);
  const Var average = graph.state("average", {}, Init::constant(10));
  const Var now = sum_stripes(mean(graph.input("x", {})));
  graph.assign(average, add(scale(average, 0.5), scale(now, 0.5)));
  graph.output("before", average);
  auto program = Program::compile(graph, {.stripes = 2});
  ASSERT_TRUE(program.ok()) << program.error().message;
  const std::vector<float> x{0, 1, 2, 3};
  (*program)->bind("x", std::span<const float>(x)).value();
  (*program)->run().value();
  EXPECT_EQ((*program)->output("before")[0], 10);
  (*program)->run().value();
  EXPECT_FLOAT_EQ((*program)->output("before")[0], 5.75F);
  EXPECT_FLOAT_EQ((*program)->state().values()[0], 3.625F);
}

TEST(Program, ShowsOneValueUnderTwoNamesAndInputsAsOutputs) {
  Graph graph(3);
  const Var x = graph.input("x", {2}), y = scale(x, 2);
  graph.output("y", y);
  graph.output("again", y);
  graph.output("x", x);
  auto program = Program::compile(graph, {.stripes = 2});
  const std::vector<float> data{1, 2, 3, 4, 5, 6};
  (*program)->bind("x", std::span<const float>(data)).value();
  (*program)->run().value();
  EXPECT_THAT((*program)->output("x"), testing::ElementsAreArray(data));
  EXPECT_THAT((*program)->output("y"), testing::ElementsAre(2, 4, 6, 8, 10, 12));
  EXPECT_THAT((*program)->output("again"), testing::ElementsAre(2, 4, 6, 8, 10, 12));
  EXPECT_TRUE((*program)->output("z").empty());
}

TEST(Program, RefusesWhatDoesNotFit) {
  auto program = classifier({}, kAdam);
  const std::vector<float> few(3);
  const std::vector<std::int32_t> integers(kBatch * 5);
  EXPECT_THAT(program->run().error().message, HasSubstr("\"x\" was never bound"));
  EXPECT_EQ(program->bind("y", std::span<const float>(few)).error().code, Code::kNotFound);
  EXPECT_THAT(program->bind("x", std::span<const float>(few)).error().message, HasSubstr("got 3 values, expected 65"));
  EXPECT_THAT(program->bind("x", std::span<const std::int32_t>(integers)).error().message, HasSubstr("got int32"));
  Graph graph(2);
  EXPECT_THAT(Program::compile(graph, {.stripes = 3}).error().message, HasSubstr("3 stripes"));
  EXPECT_THAT(Program::compile(graph, {.compute = DType::kU8}).error().message, HasSubstr("uint8"));
}

TEST(Program, BindsTheColumnsOfABatchByName) {
  auto by_batch = classifier({}, kAdam), by_name = classifier({}, kAdam);
  const Data data;
  data.bind(*by_name);
  BatchBuffer batch({{"labels", DType::kF32, {7}}, {"unused", DType::kU8, {3}}, {"x", DType::kF32, {5}}}, kBatch);
  std::ranges::copy(data.labels, batch.mutable_view().as<float>(0).begin());
  std::ranges::copy(data.x, batch.mutable_view().as<float>(2).begin());
  ASSERT_TRUE(by_batch->bind(batch.view()).ok());
  by_batch->run().value();
  by_name->run().value();
  EXPECT_EQ(values(*by_batch, "net"), values(*by_name, "net"));
  BatchBuffer wrong({{"x", DType::kF32, {6}}}, kBatch);
  EXPECT_THAT(by_batch->bind(wrong.view()).error().message, HasSubstr("float32[6]"));
}

}  // namespace
}  // namespace troupe::learner
