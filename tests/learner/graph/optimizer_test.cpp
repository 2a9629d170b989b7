// Optimisers, schedules and averages against trajectories of PyTorch and TensorFlow (make_optimizer_golden.py), for
// several stripes, and over a checkpoint in the middle.
#include <troupe/learner/graph/optimizer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/engine/program_state.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/joint.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/tests/learner/golden.hpp>

namespace troupe::learner {
namespace {

using testing::HasSubstr;

const std::vector<float> kPull{1, -0.5F, 0.5F, 3, 0, 0.25F}, kGoal{0.5F, 1, -2, 0.25F, 3, -1};
const std::vector<float> kStart{0.25F, -0.5F, 0.75F, -1, 1.5F, 2};
constexpr int kSteps = 24;

/// d loss / d w = pull * (w - goal), exactly; with the average of w beside it.
std::unique_ptr<Program> tug(const OptimizerSpec& spec, const CompileOptions& options = {}) {
  Graph graph(2);
  const ParamGroup net = graph.group("net");
  graph.average(net, 0.75);
  const Var w = graph.param(net, "w", {3, 2}, {});
  const Var offset = sub(w, graph.constant({3, 2}, kGoal));
  const Var loss =
      add(scale(sum(mul(graph.constant({3, 2}, kPull), square(offset))), 0.5), mean(graph.input("x", {1})));
  graph.minimize(loss, net, spec);
  auto program = Program::compile(graph, options).value();
  for (const char* group : {"net", "net.average"}) std::ranges::copy(kStart, program->params(group)->values().begin());
  program->parameters_changed();
  static const std::vector<float> x{0, 0};
  program->bind("x", std::span<const float>(x)).value();
  return program;
}

const std::map<std::string, OptimizerSpec> kCases{
    {"sgd_decay", {.rule = Sgd{.learning_rate = 0.1, .weight_decay = 0.05}}},
    {"momentum_decay", {.rule = Sgd{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.05}}},
    {"nesterov", {.rule = Sgd{.learning_rate = 0.05, .momentum = 0.9, .nesterov = true}}},
    {"nesterov_decay_cosine",
     {.rule = Sgd{.learning_rate = 0.05, .momentum = 0.8, .nesterov = true, .weight_decay = 0.1},
      .schedule = {.kind = Schedule::Kind::kCosine, .warmup_steps = 4, .total_steps = 20, .final_factor = 0.1}}},
    {"adamw", {.rule = Adam{.learning_rate = 0.1, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-4, .weight_decay = 0.2}}},
    {"adamw_linear",
     {.rule = Adam{.learning_rate = 0.1, .weight_decay = 0.3},
      .schedule = {.kind = Schedule::Kind::kLinear, .warmup_steps = 5, .total_steps = 20, .final_factor = 0.25}}},
    {"sgd_steps",
     {.rule = Sgd{.learning_rate = 0.2},
      .schedule = {.kind = Schedule::Kind::kStep, .boundaries = {6, 7, 15}, .step_factor = 0.5}}},
    {"adam_no_schedule", {.rule = Adam{.learning_rate = 0.1, .beta1 = 0, .beta2 = 0.9}}},
    {"rmsprop", {.rule = RmsProp{.learning_rate = 0.05, .decay = 0.9, .epsilon = 1e-3}}},
    {"rmsprop_momentum_linear",
     {.rule = RmsProp{.learning_rate = 0.02, .decay = 0.8, .momentum = 0.7, .epsilon = 1e-2, .weight_decay = 0.1},
      .schedule = {.kind = Schedule::Kind::kLinear, .warmup_steps = 5, .total_steps = 20, .final_factor = 0.25}}},
    {"rmsprop_tf",
     {.rule = RmsProp{.form = RmsProp::Form::kTensorFlow, .learning_rate = 0.05, .decay = 0.9, .epsilon = 1e-2}}},
    {"rmsprop_tf_momentum_linear",
     {.rule = RmsProp{.form = RmsProp::Form::kTensorFlow,
                      .learning_rate = 0.02,
                      .decay = 0.8,
                      .momentum = 0.7,
                      .epsilon = 1e-2},
      .schedule = {.kind = Schedule::Kind::kLinear, .warmup_steps = 5, .total_steps = 20, .final_factor = 0.25}}},
    {"lars", {.rule = Lars{.learning_rate = 2, .momentum = 0.8, .weight_decay = 0.05, .trust_coefficient = 0.02}}},
    {"lars_cosine",
     {.rule = Lars{.learning_rate = 1, .momentum = 0.9, .weight_decay = 0.1, .trust_coefficient = 0.03},
      .schedule = {.kind = Schedule::Kind::kCosine, .warmup_steps = 4, .total_steps = 20, .final_factor = 0.1}}},
};

TEST(Optimizer, FollowsItsPeersAlsoOverACheckpoint) {
  const Golden golden("optimizers.safetensors");
  for (const auto& [name, spec] : kCases) {
    for (const int stripes : {1, 2}) {
      const std::vector<double> value = golden.values<double>(name + "/value");
      const std::vector<double> average = golden.values<double>(name + "/average");
      ASSERT_EQ(value.size(), kSteps * kStart.size());
      std::unique_ptr<Program> program = tug(spec, {.stripes = stripes});
      for (std::size_t step = 0; step < kSteps; ++step) {
        if (step == 9) {  // another program takes over what a checkpoint holds
          std::unique_ptr<Program> next = tug(spec, {.stripes = stripes});
          restore_state(*next, save_state(*program), program->step()).value();
          program = std::move(next);
        }
        program->run().value();
        for (std::size_t i = 0; i < kStart.size(); ++i) {
          // float32: 1e-7 of a value at each of 24 steps, which momentum and Adam's division make a few times larger.
          const double got = program->params("net")->values()[i], expected = value[step * kStart.size() + i];
          EXPECT_NEAR(got, expected, 1e-5 * (1 + std::abs(expected))) << name << " step " << step << " element " << i;
          const double mean = program->params("net.average")->values()[i];
          EXPECT_NEAR(mean, average[step * kStart.size() + i], 1e-5 * (1 + std::abs(expected))) << name << " average";
        }
      }
    }
  }
}

TEST(Optimizer, UpdatesAGroupInEveryFewStepsOnlyAndCountsThose) {
  for (const char* name : {"adamw_linear", "nesterov_decay_cosine", "rmsprop_tf_momentum_linear", "lars_cosine"}) {
    OptimizerSpec spec = kCases.at(name);
    const auto every = tug(spec);
    spec.every_steps = 3;
    const auto third = tug(spec);
    for (int step = 1; step <= kSteps; ++step) {
      third->run().value();
      if (step % 3 == 0) every->run().value();
      // The gradient is a function of the parameters, so dropped ones leave no trace: the same bits.
      for (const char* group : {"net", "net.average"}) {
        EXPECT_THAT(third->params(group)->values(), testing::ElementsAreArray(every->params(group)->values()))
            << name << " step " << step;
      }
    }
  }
}

TEST(Optimizer, ComputesNothingForAGroupThatAStepDoesNotUpdate) {
  for (const int stripes : {1, 2}) {
    Graph graph(4);
    const Var x = graph.input("x", {3});
    const ParamGroup often = graph.group("often"), seldom = graph.group("seldom");
    int passes = 0;
    const auto through = [&](ParamGroup group) {
      return sum_stripes(mean(square(matmul(x, graph.param(group, "w", {3, 2}, Init::uniform(1))))));
    };
    const JointFn copy = [&passes](const JointArgs& args) -> Status {
      ++passes;
      std::ranges::copy(args.in, args.out.begin());
      return {};
    };
    graph.minimize(through(often), often, {.rule = Sgd{.learning_rate = 0.1}});
    graph.minimize(graph.emit_joint(through(seldom), copy, copy), seldom,
                   {.rule = Sgd{.learning_rate = 0.1}, .every_steps = 3});
    const auto program = Program::compile(graph, {.stripes = stripes}).value();
    const std::vector<float> data(12, 0.5F);
    program->bind("x", std::span<const float>(data)).value();
    std::vector<float> before;
    for (int step = 1; step <= 7; ++step) {
      const std::span<const float> values = program->params("seldom")->values();
      before.assign(values.begin(), values.end());
      program->run().value();
      EXPECT_EQ(passes, step / 3);  // backward: nobody reads the loss itself
      EXPECT_EQ(std::ranges::equal(before, values), step % 3 != 0) << step;
    }
    // Who asks for gradients gets all of them.
    program->run(Phase::kGradients).value();
    EXPECT_EQ(passes, 3);
    // A gradient that was not finite when it was computed does not stop the steps without it.
    program->set_step(2);
    program->params("seldom")->values()[0] = std::numeric_limits<float>::quiet_NaN();
    program->run().value();
    EXPECT_EQ(program->skipped(), 1);
    program->set_step(3);
    program->run().value();
    EXPECT_EQ(program->skipped_in_a_row(), 0);
    EXPECT_EQ(program->step(), 4);
  }
}

TEST(Optimizer, AverageOfAConstantStaysExactlyThatConstant) {
  auto program = tug({.rule = Sgd{.learning_rate = 0}});
  for (int step = 0; step < 200; ++step) program->run().value();
  EXPECT_THAT(program->params("net.average")->values().first(6), testing::ElementsAreArray(kStart));
}

TEST(Average, IsWhatBfloat16ProductsRead) {
  const auto output_of_fourth_step = [](bool refresh) {
    Graph graph(8);
    const ParamGroup net = graph.group("net"), average = graph.average(net, 0.5);
    const Var x = graph.input("x", {16});
    const auto product = [&](ParamGroup group) {
      return matmul(x, graph.param(group, "w", {16, 16}, Init::uniform(1)));
    };
    graph.minimize(mean(square(product(net))), net, {.rule = Sgd{.learning_rate = 0.5}});
    graph.output("y", product(average));
    const auto program = Program::compile(graph, {.compute = DType::kBF16}).value();
    const std::vector<float> data(8 * 16, 0.25F);
    program->bind("x", std::span<const float>(data)).value();
    for (int step = 0; step < 3; ++step) program->run().value();
    if (refresh) program->parameters_changed();  // makes all bfloat16 copies anew
    program->run().value();
    return std::vector<float>(program->output("y").begin(), program->output("y").end());
  };
  EXPECT_EQ(output_of_fourth_step(false), output_of_fourth_step(true));
}

/// A little regression over batches of `rows` rows.
std::unique_ptr<Program> regression(std::int64_t rows, const OptimizerSpec& spec, const CompileOptions& options) {
  Graph graph(rows);
  const ParamGroup net = graph.group("net");
  graph.average(net, 0.5);
  const Var h = linear(graph.input("x", {3}), graph.param(net, "w", {3, 4}, Init::uniform(1)),
                       graph.param(net, "b", {4}, Init::uniform(1)), Activation::kTanh);
  graph.minimize(mean(square(sub(h, graph.input("y", {4})))), net, spec);
  return Program::compile(graph, options).value();
}

TEST(Accumulation, OfSeveralRunsIsOneStepOfAllTheirRows) {
  constexpr std::int64_t kRows = 4, kRuns = 3, kUpdates = 5;
  Rng rng(2);
  std::vector<float> x(kRows * kRuns * 3), y(kRows * kRuns * 4);
  for (auto* values : {&x, &y}) {
    for (float& value : *values) value = static_cast<float>(rng.normal());
  }
  const auto bind = [&](Program& program, std::int64_t run, std::int64_t rows) {
    const auto part = [&](const std::vector<float>& values, std::int64_t width) {
      return std::span<const float>(values).subspan(static_cast<std::size_t>(run * rows * width),
                                                    static_cast<std::size_t>(rows * width));
    };
    program.bind("x", part(x, 3)).value();
    program.bind("y", part(y, 4)).value();
  };
  for (const OptimizerSpec& rule :
       {OptimizerSpec{.rule = Sgd{.learning_rate = 0.2, .momentum = 0.9}, .max_global_norm = 0.3},
        OptimizerSpec{.rule = Adam{.learning_rate = 0.05, .epsilon = 1e-3}},
        OptimizerSpec{.rule = RmsProp{.learning_rate = 0.01, .momentum = 0.5, .epsilon = 1e-3}},
        OptimizerSpec{.rule = Lars{.learning_rate = 1, .trust_coefficient = 0.1}, .max_global_norm = 0.3}}) {
    for (const int stripes : {1, 2}) {
      OptimizerSpec spec = rule;
      int reductions = 0;
      spec.reduce = [&](auto&&...) -> Status {
        ++reductions;
        return {};
      };
      auto whole = regression(kRows * kRuns, rule, {.stripes = stripes});
      const CompileOptions options{.stripes = stripes, .accumulate = kRuns};
      auto parts = regression(kRows, spec, options);
      for (int update = 0; update < kUpdates; ++update) {
        bind(*whole, 0, kRows * kRuns);
        whole->run().value();
        for (std::int64_t run = 0; run < kRuns; ++run) {
          if (update == 2 && run == 2) {  // a checkpoint between two runs
            auto next = regression(kRows, spec, options);
            restore_state(*next, save_state(*parts), parts->step()).value();
            parts = std::move(next);
          }
          EXPECT_EQ(parts->step(), update);
          bind(*parts, run, kRows);
          parts->run().value();
        }
      }
      EXPECT_EQ(parts->step(), kUpdates);
      EXPECT_EQ(reductions, kUpdates) << "only whole updates are reduced";
      for (const char* group : {"net", "net.average"}) {
        // The same sums of float32 in another order, over a few updates.
        EXPECT_THAT(parts->params(group)->values(),
                    testing::Pointwise(testing::FloatNear(1e-5F), whole->params(group)->values()));
      }
    }
  }
}

TEST(Accumulation, AFailedReductionOrANanCostsOneUpdateAtMost) {
  bool fail = false;
  OptimizerSpec spec{.rule = Sgd{.learning_rate = 0.2}};
  spec.reduce = [&](auto&&...) { return fail ? Status(Error{Code::kUnavailable, "gone"}) : Status(); };
  const std::vector<float> y(16, 0.5F);
  std::vector<float> x(12, 0.25F);
  const auto make = [&] {
    auto program = regression(4, spec, {.accumulate = 2});
    program->bind("x", std::span<const float>(x)).value();
    program->bind("y", std::span<const float>(y)).value();
    return program;
  };
  const auto good = make(), program = make();
  good->run().value();
  good->run().value();

  program->run().value();
  fail = true;
  EXPECT_EQ(program->run().error().code, Code::kUnavailable);
  fail = false;
  program->run().value();  // the same run again
  EXPECT_EQ(program->step(), 1);
  EXPECT_THAT(program->params("net")->values(), testing::ElementsAreArray(good->params("net")->values()));

  x[0] = std::nanf("");
  program->run().value();
  x[0] = 0.25F;
  program->run().value();
  EXPECT_EQ(program->step(), 1) << "a step with a NaN in one of its runs is skipped";
  EXPECT_EQ(program->skipped(), 1);
  for (const auto& each : {good.get(), program.get()}) {
    each->run().value();
    each->run().value();
  }
  EXPECT_THAT(program->params("net")->values(), testing::ElementsAreArray(good->params("net")->values()));
  Graph graph(1);
  EXPECT_THAT(Program::compile(graph, {.accumulate = 0}).error().message, HasSubstr("accumulate is 0"));
}

/// x -> x^2 / 2 over parameters of unequal sizes, some of which are left out of weight decay.
std::unique_ptr<Program> decaying(const OptimizerSpec& spec, const std::vector<std::string>& exempt, int stripes = 1) {
  Graph graph(2);
  const ParamGroup net = graph.group("net");
  Var loss = scale(mean(graph.input("x", {})), 0);
  for (const auto& [name, size] : {std::pair{"a", 3}, {"b", 40}, {"c", 1}, {"d", 16}, {"e", 5000}}) {
    const Var value = graph.param(net, name, {size}, Init::uniform(1));
    if (std::ranges::count(exempt, name) > 0) graph.exempt_from_decay(value);
    loss = add(loss, scale(sum(square(value)), 0.5));
  }
  graph.minimize(loss, net, spec);
  auto program = Program::compile(graph, {.stripes = stripes}).value();
  static constexpr std::array<float, 2> kX{1, 1};
  program->bind("x", std::span<const float>(kX)).value();
  return program;
}

TEST(WeightDecay, LeavesOutWhatIsExempt) {
  for (OptimizerSpec spec : {OptimizerSpec{.rule = Sgd{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.5}},
                             OptimizerSpec{.rule = Adam{.learning_rate = 0.1, .weight_decay = 0.5}}}) {
    const auto all = decaying(spec, {});
    std::visit([](auto& rule) { rule.weight_decay = 0; }, spec.rule);
    const auto none = decaying(spec, {});
    std::visit([](auto& rule) { rule.weight_decay = 0.5; }, spec.rule);
    for (const int stripes : {1, 2}) {
      const auto some = decaying(spec, {"b", "c", "e"}, stripes), nothing = decaying(spec, {"a", "b", "c", "d", "e"});
      EXPECT_EQ(some->params("net")->fingerprint(), all->params("net")->fingerprint()) << "checkpoints fit both ways";
      for (int step = 0; step < 3; ++step) {
        for (const auto& program : {some.get(), nothing.get()}) program->run().value();
        if (stripes == 1) {
          all->run().value();
          none->run().value();
        }
      }
      EXPECT_THAT(nothing->params("net")->values(), testing::ElementsAreArray(none->params("net")->values()));
      for (const ParamEntry& entry : some->params("net")->layout().entries) {
        const bool decays = entry.name == "net/a" || entry.name == "net/d";
        EXPECT_EQ(entry.decays, decays);
        EXPECT_THAT(some->params("net")->tensor(entry),
                    testing::ElementsAreArray((decays ? all : none)->params("net")->tensor(entry)))
            << entry.name << " with " << stripes << " stripes";
      }
    }
  }
  Graph graph(1);
  graph.exempt_from_decay(graph.input("x", {}));
  EXPECT_THAT(graph.status().error().message, HasSubstr("expected a parameter"));
}

/// x -> x^2 / 2 over a matrix, a vector and a matrix that is exempt; their gradients are themselves.
std::unique_ptr<Program> layered(const OptimizerSpec& spec, const CompileOptions& options, std::int64_t rows = 3) {
  Graph graph(4);
  const ParamGroup net = graph.group("net");
  Var loss = scale(mean(graph.input("x", {})), 0);
  for (const auto& [name, shape] :
       {std::pair{"matrix", Shape{rows, 5}}, {"vector", Shape{7}}, {"exempt", Shape{2, 9}}}) {
    const Var value = graph.param(net, name, shape, Init::uniform(1));
    if (std::string_view(name) == "exempt") graph.exempt_from_decay(value);
    loss = add(loss, scale(sum(square(value)), 0.5));
  }
  graph.minimize(loss, net, spec);
  auto program = Program::compile(graph, options).value();
  static constexpr std::array<float, 4> kX{1, 1, 1, 1};
  program->bind("x", std::span<const float>(kX)).value();
  return program;
}

double norm_of(std::span<const float> values) {
  double squares = 0;
  for (const float x : values) squares += static_cast<double>(x) * x;
  return std::sqrt(squares);
}

TEST(Lars, GivesEachMatrixARateOfItsOwnAndLeavesBiasesNormsAndWhatIsExemptAlone) {
  const Lars rule{.learning_rate = 0.5, .momentum = 0, .weight_decay = 0.2, .trust_coefficient = 0.1};
  for (const double clip : {0.0, 0.5}) {
    for (const int stripes : {1, 2}) {
      const auto program = layered({.rule = rule, .max_global_norm = clip}, {.stripes = stripes});
      ParamBuffer& params = *program->params("net");
      const std::vector<float> before(params.values().begin(), params.values().end());
      const double shrunk = clip == 0 ? 1 : clip / norm_of(before);
      program->run().value();
      for (const ParamEntry& entry : params.layout().entries) {
        const auto old = std::span(before).subspan(static_cast<std::size_t>(entry.offset),
                                                   static_cast<std::size_t>(entry.shape.elements()));
        const bool adapts = entry.name == "net/matrix";
        const double decay = adapts ? rule.weight_decay : 0, w = norm_of(old), g = shrunk * w;
        const double local = adapts ? rule.trust_coefficient * w / (g + decay * w) : 1;
        for (std::size_t i = 0; i < old.size(); ++i) {
          // float32: a few roundings of values below 1.
          EXPECT_NEAR(params.tensor(entry)[i], old[i] - rule.learning_rate * local * (shrunk + decay) * old[i], 5e-7)
              << entry.name << " " << i << ", clip " << clip << ", " << stripes << " stripes";
        }
      }
    }
  }
}

TEST(Lars, TakesTheGlobalRateWhereAVariableOrItsGradientIsZero) {
  const auto program = layered({.rule = Lars{.learning_rate = 0.5, .momentum = 0, .weight_decay = 0}}, {});
  ParamBuffer& params = *program->params("net");
  std::ranges::fill(params.values(), 0.0F);
  program->parameters_changed();
  program->run().value();
  EXPECT_THAT(params.values(), testing::Each(0)) << "neither changed nor divided by zero";
  EXPECT_EQ(program->step(), 1);
}

TEST(Lars, NoBitDependsOnTheThreads) {
  const OptimizerSpec spec{.rule = Lars{}, .max_global_norm = 1};
  const auto one = layered(spec, {.stripes = 4, .threads = 1}, 60'000);  // a matrix of several blocks
  const auto many = layered(spec, {.stripes = 4, .threads = 4}, 60'000);
  for (int step = 0; step < 3; ++step) {
    one->run().value();
    many->run().value();
  }
  EXPECT_TRUE(std::ranges::equal(one->params("net")->values(), many->params("net")->values()));
}

TEST(Schedule, CountsTheWarmUpFromOneAndStaysAtItsEnd) {
  const Schedule cosine{.kind = Schedule::Kind::kCosine, .warmup_steps = 2, .total_steps = 6, .final_factor = 0.2};
  const double expected[] = {
      0.5, 1, 1, 0.2 + 0.8 * (1 + std::sqrt(0.5)) / 2, 0.6, 0.2 + 0.8 * (1 - std::sqrt(0.5)) / 2, 0.2, 0.2};
  for (std::int64_t t = 0; t < 8; ++t) EXPECT_NEAR(cosine.factor(t), expected[t], 1e-12) << t;
  EXPECT_EQ(Schedule{}.factor(1'000'000), 1);
  const OptimizerSpec spec{.rule = Adam{.learning_rate = 3}, .schedule = cosine};
  EXPECT_NEAR(learning_rate(spec, 4), 1.8, 1e-12);
}

TEST(Schedule, HoldsTheRateBetweenWarmUpAndFall) {
  const Schedule linear{.kind = Schedule::Kind::kLinear, .warmup_steps = 2, .hold_steps = 3, .total_steps = 9};
  const double expected[] = {0.5, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0, 0};
  for (std::int64_t t = 0; t < 11; ++t) EXPECT_DOUBLE_EQ(linear.factor(t), expected[t]) << t;
}

TEST(Schedule, OfAGroupThatIsUpdatedInEveryNthStepEndsWithTheOthers) {
  const OptimizerSpec all{
      .schedule = {.kind = Schedule::Kind::kLinear, .warmup_steps = 8, .hold_steps = 12, .total_steps = 60}};
  const OptimizerSpec some = every(all, 4);
  EXPECT_EQ(some.every_steps, 4);
  for (std::int64_t update : {2, 3, 5, 9, 14, 15, 20}) {
    EXPECT_DOUBLE_EQ(some.schedule.factor(update), all.schedule.factor(4 * update)) << update;
  }
  const OptimizerSpec steps{.schedule = {.kind = Schedule::Kind::kStep, .boundaries = {2, 3, 80}}};
  EXPECT_THAT(every(steps, 4).schedule.boundaries, testing::ElementsAre(1, 2, 20)) << "rising ones";
  EXPECT_TRUE(validate(every(steps, 4)).ok());
  EXPECT_TRUE(validate(every({.schedule = {.kind = Schedule::Kind::kCosine, .total_steps = 3}}, 4)).ok());
}

TEST(Optimizer, RefusesWhatMakesNoSenseAndNamesTheField) {
  const auto message = [](const OptimizerSpec& spec) {
    const Status status = validate(spec);
    return status.ok() ? std::string("valid") : status.error().message;
  };
  EXPECT_EQ(message({}), "valid");
  EXPECT_THAT(message({.rule = Sgd{.nesterov = true}}), HasSubstr("momentum is 0, expected above 0 with nesterov"));
  EXPECT_THAT(message({.rule = Sgd{.learning_rate = -1}}), HasSubstr("learning_rate is -1"));
  EXPECT_THAT(message({.rule = Sgd{.weight_decay = -1}}), HasSubstr("weight_decay"));
  EXPECT_THAT(message({.rule = Adam{.beta1 = 1}}), HasSubstr("beta1 is 1"));
  EXPECT_THAT(message({.rule = Adam{.weight_decay = std::nan("")}}), HasSubstr("weight_decay is nan"));
  EXPECT_THAT(message({.rule = Adam{}, .max_global_norm = -2}), HasSubstr("max_global_norm"));
  EXPECT_THAT(message({.rule = RmsProp{.decay = 1}}), HasSubstr("decay is 1"));
  EXPECT_THAT(message({.rule = RmsProp{.epsilon = 0}}), HasSubstr("epsilon is 0, expected above 0 with RMSProp"));
  EXPECT_THAT(message({.rule = RmsProp{.momentum = -1}}), HasSubstr("momentum is -1"));
  EXPECT_THAT(message({.rule = Lars{.trust_coefficient = 0}}), HasSubstr("trust_coefficient is 0, expected above 0"));
  EXPECT_THAT(message({.rule = Lars{.weight_decay = -1}}), HasSubstr("weight_decay is -1"));
  EXPECT_THAT(message({.schedule = {.kind = Schedule::Kind::kCosine, .warmup_steps = 5, .total_steps = 5}}),
              HasSubstr("total_steps is 5, expected above warmup_steps + hold_steps 5"));
  EXPECT_THAT(message({.schedule = {.kind = Schedule::Kind::kLinear, .hold_steps = 5, .total_steps = 5}}),
              HasSubstr("total_steps is 5, expected above warmup_steps + hold_steps 5"));
  EXPECT_THAT(message({.schedule = {.kind = Schedule::Kind::kLinear, .hold_steps = -1, .total_steps = 5}}),
              HasSubstr("hold_steps is -1"));
  EXPECT_THAT(message({.schedule = {.kind = Schedule::Kind::kStep, .boundaries = {3, 3}}}),
              HasSubstr("boundaries is 3"));
  EXPECT_THAT(message({.every_steps = 0}), HasSubstr("every_steps is 0"));
  EXPECT_THAT(message({.schedule = {.warmup_steps = -1}}), HasSubstr("warmup_steps"));
  Graph graph(1);
  const ParamGroup net = graph.group("net");
  graph.minimize(sum(graph.param(net, "w", {2}, {})), net, {.rule = Sgd{.nesterov = true}});
  EXPECT_THAT(graph.status().error().message, HasSubstr("minimize \"net\": optimiser: momentum is 0"));
}

TEST(Average, FollowsOnlineGroupsWithOneDecay) {
  const auto message = [](auto build) {
    Graph graph(1);
    build(graph, graph.group("net"));
    return graph.status().ok() ? std::string("fine") : graph.status().error().message;
  };
  EXPECT_EQ(message([](Graph& g, ParamGroup net) { EXPECT_EQ(g.average(net, 0.9), g.average(net, 0.9)); }), "fine");
  EXPECT_THAT(message([](Graph& g, ParamGroup net) { g.average(net, 1); }), HasSubstr("decay 1: expected between"));
  EXPECT_THAT(message([](Graph& g, ParamGroup net) { g.average(g.average(net, 0.9), 0.9); }),
              HasSubstr("online group"));
  EXPECT_THAT(message([](Graph& g, ParamGroup net) {
                g.average(net, 0.9);
                g.average(net, 0.8);
              }),
              HasSubstr("exists with"));
}

}  // namespace
}  // namespace troupe::learner
