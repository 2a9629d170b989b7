#pragma once
// What every engine must do (learner/engine/engine.hpp), by programs of a small network: it takes the steps that the
// processor takes, within its rounding; a launch gives the bits of single steps; what fails or is skipped changes
// nothing; and the host sees parameters, gradients and outputs as Program promises. An engine's own test includes this
// and instantiates EngineConformance.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <troupe/learner/engine/program_state.hpp>
#include <troupe/tests/learner/engine/nets.hpp>
#include <troupe/tests/learner/models.hpp>

namespace troupe::learner {

/// One engine. `before` and `after`: of each test.
struct EngineUnderTest {
  std::string name;
  Device device;
  double rounding = 2e-5;       ///< of float32 tensors after some steps, whose sums are made in other orders
  double bf16_rounding = 1e-3;  ///< operands are rounded to 8 bits of mantissa and added in float32
  std::function<void()> before = [] {};
  std::function<void()> after = [] {};
};

inline void PrintTo(const EngineUnderTest& engine, std::ostream* to) { *to << engine.name; }

class EngineConformance : public ::testing::TestWithParam<EngineUnderTest> {
 protected:
  void SetUp() override { GetParam().before(); }
  void TearDown() override { GetParam().after(); }

  static CompileOptions options(std::uint64_t seed = 3) { return {.device = GetParam().device, .seed = seed}; }
  static std::unique_ptr<Program> make(const OptimizerSpec& optimizer, const NetOptions& with = {}) {
    return net(options(), optimizer, with);
  }
  static NetOptions followers() { return {.forward = {}, .reduce = {}, .followers = true}; }
  static void take_step(Program& program, std::uint64_t seed, std::int64_t rows = kRows) {
    const Data data(x_signature(), rows, seed);
    program.bind(data.buffer.view()).value();
    program.run().value();
  }
  /// As many steps a launch as `wanted`, or as many as the engine takes.
  static std::size_t steps_of(const Program& program, int wanted) {
    return static_cast<std::size_t>(std::min(wanted, program.steps_per_launch()));
  }
};

/// The program on the processor and on the engine, which step on the same batches.
struct Twins {
  std::unique_ptr<Program> cpu, other;
  double rounding;
  Twins(const EngineUnderTest& engine, CompileOptions options, const OptimizerSpec& optimizer,
        const NetOptions& with = {})
      : rounding(options.compute == DType::kBF16 ? engine.bf16_rounding : engine.rounding) {
    options.seed = 3;
    cpu = net(options, optimizer, with);
    options.device = engine.device;
    other = net(options, optimizer, with);
  }
  std::array<Program*, 2> both() const { return {cpu.get(), other.get()}; }
  void step(std::uint64_t seed, std::int64_t rows = kRows) {
    const Data data(x_signature(), rows, seed);
    for (Program* const program : both()) {
      program->bind(data.buffer.view()).value();
      program->run().value();
    }
  }
  void expect_equal() {
    EXPECT_LT(largest_difference(state_of(*other), state_of(*cpu)), rounding);
    EXPECT_NEAR(other->metrics()[0], cpu->metrics()[0], rounding);
    ASSERT_EQ(other->output("y").size(), cpu->output("y").size());
    for (std::size_t i = 0; i < cpu->output("y").size(); ++i) {
      EXPECT_NEAR(other->output("y")[i], cpu->output("y")[i], rounding);
    }
    EXPECT_EQ(other->step(), cpu->step());
    EXPECT_EQ(other->skipped(), cpu->skipped());
  }
};

// ---- steps ----

TEST_P(EngineConformance, RepeatsBitForBit) {
  const auto one = make({.rule = Adam{}}, followers()), another = make({.rule = Adam{}}, followers());
  for (std::uint64_t step = 0; step < 4; ++step) {
    for (Program* const program : {one.get(), another.get()}) take_step(*program, step);
  }
  EXPECT_EQ(state_of(*one), state_of(*another));
}

TEST_P(EngineConformance, ShortBatchesCountTheirRows) {
  Twins twins(GetParam(), {}, {.rule = Adam{.learning_rate = 0.01}});
  for (const std::int64_t rows : {kRows, std::int64_t{5}, std::int64_t{5}, std::int64_t{1}, kRows, kRows}) {
    twins.step(static_cast<std::uint64_t>(rows), rows);
    twins.expect_equal();
  }
}

TEST_P(EngineConformance, ClippingSchedulesAndDecayAreTheSame) {
  Twins twins(GetParam(), {},
              {.rule = Adam{.learning_rate = 0.02, .weight_decay = 0.1},
               .schedule = {.kind = Schedule::Kind::kCosine, .warmup_steps = 2, .total_steps = 6},
               .max_global_norm = 1e-3});
  for (std::uint64_t step = 0; step < 6; ++step) twins.step(step);
  twins.expect_equal();
}

TEST_P(EngineConformance, TargetsAndAveragesFollow) {
  for (const std::int64_t every_steps : {1, 2}) {  // where the target's third step updates nothing, it copies even so
    for (const bool exempt : {false, true}) {
      NetOptions with = followers();
      with.exempt_bias = exempt;  // then an update is several passes
      Twins twins(GetParam(), {},
                  {.rule = Adam{.learning_rate = 0.02, .weight_decay = 0.1}, .every_steps = every_steps}, with);
      for (std::uint64_t step = 0; step < 7; ++step) {
        twins.step(step);
        twins.expect_equal();
      }
    }
  }
}

TEST_P(EngineConformance, RmsPropAndLarsAreTheSame) {
  const Schedule schedule{.kind = Schedule::Kind::kCosine, .warmup_steps = 2, .total_steps = 6};
  const NetOptions with{.forward = {}, .reduce = {}, .followers = true, .exempt_bias = true};
  for (const OptimizerSpec& spec :
       {OptimizerSpec{.rule = RmsProp{.learning_rate = 0.01, .epsilon = 1e-3, .weight_decay = 0.1}},
        OptimizerSpec{.rule = RmsProp{.form = RmsProp::Form::kTensorFlow,
                              .learning_rate = 0.01,
                              .decay = 0.9,
                              .momentum = 0.5,
                              .epsilon = 1e-3},
        .schedule = schedule},
        OptimizerSpec{.rule = Lars{.learning_rate = 1, .weight_decay = 0.1, .trust_coefficient = 0.05},
        .schedule = schedule,
        .max_global_norm = 0.2},
        OptimizerSpec{.rule = Lars{.learning_rate = 1, .momentum = 0}, .every_steps = 2}}) {
    Twins twins(GetParam(), {}, spec, with);
    for (std::uint64_t step = 0; step < 7; ++step) {
      twins.step(step, step == 3 ? 5 : kRows);
      twins.expect_equal();
    }
  }
}

TEST_P(EngineConformance, AccumulatesGradientsOverRuns) {
  Twins lars(GetParam(), {.accumulate = 3}, {.rule = Lars{.learning_rate = 1, .trust_coefficient = 0.1}});
  for (std::uint64_t run = 0; run < 6; ++run) lars.step(run);
  lars.expect_equal();
  Twins twins(GetParam(), {.accumulate = 3}, {.rule = Sgd{.learning_rate = 0.1, .momentum = 0.5}});
  for (std::uint64_t run = 0; run < 9; ++run) twins.step(run, run == 4 ? 7 : kRows);
  EXPECT_EQ(twins.other->step(), 3);
  twins.expect_equal();
}

TEST_P(EngineConformance, Bfloat16StaysWithinItsRounding) {
  Twins twins(GetParam(), {.compute = DType::kBF16}, {.rule = Sgd{.learning_rate = 0.1}}, followers());
  for (std::uint64_t step = 0; step < 4; ++step) twins.step(step);
  EXPECT_LT(largest_difference(state_of(*twins.other), state_of(*twins.cpu)), twins.rounding);
}

TEST_P(EngineConformance, AGradientThatIsNotFiniteIsSkippedWhole) {
  Twins twins(GetParam(), {}, {.rule = Adam{.learning_rate = 0.01}});
  for (std::uint64_t step = 0; step < 3; ++step) twins.step(step);
  const State before = state_of(*twins.other);
  Data bad(x_signature(), kRows, 9);
  bad.buffer.mutable_view().as<float>(0)[7] = std::numeric_limits<float>::quiet_NaN();
  for (int times = 1; times <= 2; ++times) {
    twins.other->bind(bad.buffer.view()).value();
    twins.other->run().value();
    EXPECT_EQ(twins.other->skipped_in_a_row(), times);
  }
  EXPECT_EQ(state_of(*twins.other), before);
  EXPECT_EQ(twins.other->step(), 3);
  twins.step(4);
  EXPECT_EQ(twins.other->skipped_in_a_row(), 0);
  EXPECT_LT(largest_difference(state_of(*twins.other), state_of(*twins.cpu)), twins.rounding);
}

// ---- the host within a step ----

TEST_P(EngineConformance, ASeparateUpdateTakesTheGradientAsTheHostHasChangedIt) {
  Twins twins(GetParam(), {}, {.rule = Sgd{.learning_rate = 0.1}});
  const Data data(x_signature(), kRows, 1);
  for (int step = 0; step < 3; ++step) {
    for (Program* const program : twins.both()) {
      program->bind(data.buffer.view()).value();
      program->run(Phase::kGradients).value();
      for (float& x : program->gradient("net")) x *= 3;
      program->run(Phase::kUpdate).value();
    }
  }
  twins.expect_equal();
}

TEST_P(EngineConformance, AStepShowsItsGradientWhereItIsToKeepIt) {
  Twins twins(GetParam(), {.keep_gradients = true}, {.rule = Adam{.learning_rate = 0.01}});
  for (std::uint64_t step = 0; step < 2; ++step) twins.step(step);
  const auto got = twins.other->gradient("net"), expected = twins.cpu->gradient("net");
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
}

TEST_P(EngineConformance, ReductionsSeeTheGradientOnTheHost) {
  int calls = 0;
  const auto halve = [&calls](const GradientPart& part) -> Status {
    ++calls;
    for (float& x : part.values) x /= 2;
    return {};
  };
  Twins twins(GetParam(), {}, {.rule = Sgd{.learning_rate = 0.1}}, {.forward = {}, .reduce = halve});
  for (std::uint64_t step = 0; step < 3; ++step) twins.step(step);
  EXPECT_EQ(calls, 6);
  twins.expect_equal();
}

TEST_P(EngineConformance, FunctionsOfJointsRunOnTheHost) {
  const auto doubled = [](const JointArgs& args) -> Status {
    for (std::size_t i = 0; i < args.in.size(); ++i) args.out[i] = args.in[i] * 2;
    return {};
  };
  Twins twins(GetParam(), {}, {.rule = Sgd{.learning_rate = 0.1}}, {.forward = doubled, .reduce = {}});
  for (std::uint64_t step = 0; step < 3; ++step) twins.step(step);
  twins.expect_equal();
}

TEST_P(EngineConformance, AFunctionOrReductionThatFailsChangesNothing) {
  bool fail = false;
  const auto reduce = [&fail](const GradientPart&) -> Status {
    return fail ? Status(Error{Code::kCancelled, "a peer has gone"}) : Status();
  };
  const auto function = [&fail](const JointArgs& args) -> Status {
    if (fail) return Error{Code::kCancelled, "a peer has gone"};
    std::ranges::copy(args.in, args.out.begin());
    return {};
  };
  const Data data(x_signature(), kRows, 1);
  for (const auto& [launched, reduces] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    fail = false;
    NetOptions with;
    if (reduces) {
      with.reduce = reduce;
    } else {
      with.forward = function;
    }
    const auto program = make({.rule = Sgd{.learning_rate = 0.1}}, with);
    const auto step = [&]() -> Status {
      if (!launched) {
        TROUPE_TRY(program->bind(data.buffer.view()));
        return program->run();
      }
      TROUPE_TRY(program->stage(data.buffer.view()));
      TROUPE_TRY(program->begin());
      TROUPE_TRY(program->finish());
      return {};
    };
    for (int i = 0; i < 3; ++i) step().value();
    const State before = state_of(*program);
    fail = true;
    const Status failed = step();
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().message, "a peer has gone");
    EXPECT_FALSE(program->under_way());
    EXPECT_EQ(state_of(*program), before);
    EXPECT_EQ(program->step(), 3);
    fail = false;
    step().value();
    EXPECT_EQ(program->step(), 4);
  }
}

// ---- launches ----

TEST_P(EngineConformance, LaunchesGiveTheBitsOfSingleStepsAndStopWithASkippedOne) {
  const Schedule cosine{.kind = Schedule::Kind::kCosine, .warmup_steps = 2, .total_steps = 12};
  for (const OptimizerSpec& optimizer :
       {OptimizerSpec{.rule = Sgd{.learning_rate = 0.1, .momentum = 0.5, .weight_decay = 0.01}, .schedule = cosine},
        OptimizerSpec{.rule = RmsProp{.momentum = 0.5}}, OptimizerSpec{.rule = Lars{}}}) {
    const auto single = make(optimizer, followers()), several = make(optimizer, followers());
    Batches batches(x_signature(), kRows, 20, {1, 2, 7, 13});
    const std::vector<Seen> expected = run_all(*single, batches, "y");
    EXPECT_EQ(launch_all(*several, batches, "y", steps_of(*several, 5)), expected);
    EXPECT_EQ(state_of(*several), state_of(*single));
    expect_same_counts(*several, *single);
    EXPECT_EQ(several->state().values()[0], 16) << "counts the steps that were not skipped";
  }
}

TEST_P(EngineConformance, TheMostThatWereSkippedInARowIsThatInsideOfALaunch) {
  const auto program = make({.rule = Adam{}});
  const std::size_t steps = steps_of(*program, 8);
  Batches batches(x_signature(), kRows, 8, {2, 3, 4, 7});
  launch_all(*program, batches, "y", steps);
  EXPECT_EQ(program->skipped_in_a_row_max(), steps == 8 ? 3 : 1);
  EXPECT_EQ(program->skipped_in_a_row(), 1);
  EXPECT_EQ(program->step(), 4);
  EXPECT_EQ(program->skipped(), 4);
}

TEST_P(EngineConformance, LaunchesOfEveryLengthAndOfShortBatchesMayFollowOneAnother) {
  const auto single = make({.rule = Adam{.learning_rate = 0.01}}),
             several = make({.rule = Adam{.learning_rate = 0.01}});
  std::uint64_t seed = 0;
  for (const auto& [wanted, rows] : {std::pair{3, 12}, {1, 12}, {2, 5}, {3, 12}, {1, 0}, {2, 12}, {3, 12}, {1, 12}}) {
    const int steps = static_cast<int>(steps_of(*several, wanted));
    std::vector<std::unique_ptr<Data>> staged;  // on a processor they must stay
    for (int step = 0; step < steps; ++step) {
      staged.push_back(std::make_unique<Data>(x_signature(), rows, ++seed));
      several->stage(staged.back()->buffer.view()).value();
      single->bind(staged.back()->buffer.view()).value();
      single->run().value();
    }
    EXPECT_EQ(several->staged(), steps);
    several->begin().value();
    EXPECT_EQ(several->finish().value(), steps);
    EXPECT_EQ(several->output("y").size(), static_cast<std::size_t>(rows) * 3);
    EXPECT_EQ(several->output("y", steps - 1).size(), static_cast<std::size_t>(rows) * 3);
  }
  EXPECT_EQ(state_of(*several), state_of(*single));
  // And a run between launches.
  for (Program* const program : {single.get(), several.get()}) take_step(*program, 99);
  EXPECT_EQ(state_of(*several), state_of(*single));
}

TEST_P(EngineConformance, InputsThatAreNoColumnsAreTakenAsTheyAreBound) {
  Graph graph(2);
  const Var x = graph.input("x", {3}), scale_by = graph.shared_input("scale", {3});
  graph.output("y", mul(x, x));
  graph.metric("sum", sum(scale_by));
  const auto program = Program::compile(graph, options()).value();
  const Data data({{"x", DType::kF32, Shape{3}}}, 2, 1);
  const Status unbound = program->stage(data.buffer.view());
  ASSERT_FALSE(unbound.ok());
  EXPECT_EQ(unbound.error().message, "stage: input \"scale\" is no column, and was never bound");
  const std::vector<float> scale{1, 2, 3};
  program->bind("scale", scale).value();
  const int steps = static_cast<int>(steps_of(*program, 2));
  for (int step = 0; step < steps; ++step) program->stage(data.buffer.view()).value();
  program->begin().value();
  EXPECT_EQ(program->finish().value(), 0) << "nothing is updated";
  EXPECT_EQ(program->metrics(0)[0], 6);
  const float first = data.buffer.view().as<float>(0)[0];
  EXPECT_EQ(program->output("y", steps - 1)[0], first * first);
}

// ---- parameters ----

TEST_P(EngineConformance, StateGoesToTheHostAndBack) {
  const auto program = make({.rule = Adam{.learning_rate = 0.01}});
  for (int step = 0; step < 3; ++step) take_step(*program, 1);
  const auto copy = net(options(4), {.rule = Adam{.learning_rate = 0.01}});
  restore_state(*copy, save_state(*program), program->step()).value();
  for (Program* const each : {program.get(), copy.get()}) take_step(*each, 1);
  EXPECT_EQ(state_of(*copy), state_of(*program));
  EXPECT_EQ(copy->state().values()[0], 4);
}

TEST_P(EngineConformance, SnapshotsOfSeveralGroupsAreOneBehindTheOther) {
  const std::vector<std::string> groups{"net.target", "net"};
  const auto program = make({.rule = Adam{.learning_rate = 0.1}}, followers());
  const Data data(x_signature(), kRows, 1);
  program->stage(data.buffer.view()).value();
  program->begin().value();
  program->finish().value();  // the target follows at the third
  program->begin_snapshot(groups).value();
  std::optional<Snapshot> got;
  while (!got) got = program->snapshot().value();
  EXPECT_EQ(got->step, 1);
  std::vector<float> expected;
  for (const std::string& group : groups) {
    const auto values = program->params(group)->values();
    expected.insert(expected.end(), values.begin(), values.end());
  }
  EXPECT_EQ(std::vector<float>(got->values.begin(), got->values.end()), expected);
  EXPECT_NE(expected[0], expected[expected.size() / 2]);
  const ParamLayout whole =
      published_layout(std::array{&program->params("net.target")->layout(), &program->params("net")->layout()},
                       program->state().layout());
  EXPECT_EQ(got->fingerprint, whole.fingerprint());
  EXPECT_NE(got->fingerprint, program->params("net.target")->fingerprint());
}

TEST_P(EngineConformance, OneSnapshotIsUnderWayAtATime) {
  const auto program = make({.rule = Adam{}});
  const auto message = [](const auto& of) { return of.ok() ? std::string() : of.error().message; };
  EXPECT_EQ(message(program->snapshot()), "snapshot: none has begun; begin_snapshot() comes first");
  EXPECT_EQ(message(program->begin_snapshot("nets")), "begin_snapshot: there is no group \"nets\"");
  EXPECT_EQ(message(program->begin_snapshot(std::vector<std::string>{"net", "nets"})),
            "begin_snapshot: there is no group \"nets\"");
  EXPECT_EQ(program->begin_snapshot(std::vector<std::string>{}).error().code, Code::kInvalidArgument);
  program->begin_snapshot("net").value();
  EXPECT_EQ(message(program->begin_snapshot("net")),
            "begin_snapshot: got \"net\", but one of \"net\" has begun; snapshot() comes first");
  while (!program->snapshot().value()) continue;
  program->begin_snapshot("net").value();
}

}  // namespace troupe::learner
