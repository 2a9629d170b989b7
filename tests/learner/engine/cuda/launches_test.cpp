// Launches of several steps against the same steps one by one, on the emulated device, which runs what lies on streams
// as late as it may: they must give the same bits, whatever is skipped in them, and whatever is staged meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <troupe/gpu/gpu.hpp>
#include <troupe/learner/engine/device_feed.hpp>
#include <troupe/tests/algorithms/d4pg/batches.hpp>
#include <troupe/tests/algorithms/d4pg/hand_fed.hpp>
#include <troupe/tests/learner/engine/cuda/cuda_programs.hpp>
#include <troupe/tests/learner/models.hpp>

namespace troupe::learner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class LaunchesTest : public CudaProgramTest {};

struct D4pgCase {
  DType compute;
  std::size_t steps;
};

class D4pgLaunches : public LaunchesTest, public testing::WithParamInterface<D4pgCase> {};

// More launches than there are blocks for batches, each plain, recorded and replayed; targets are copied in the middle
// of launches, gradients clipped, and steps skipped: alone, in a row, first and last of a launch.
TEST_P(D4pgLaunches, GiveTheBitsOfSingleSteps) {
  const auto [compute, steps] = GetParam();
  d4pg::Options options = d4pg::steering_options();
  options.policy_sizes = {9};
  options.critic_sizes = {11};
  options.support = {0, 10, 7};
  options.batch = 6;
  options.target_period = 3;
  options.policy_optimizer.max_global_norm = options.critic_optimizer.max_global_norm = 0.05;
  const auto make = [&] {
    return d4pg::HandFed::make({.d4pg = options, .compile = {.device = kGpu, .compute = compute, .seed = 5}}).value();
  };
  const auto single = make(), several = make();
  Batches batches(single->signature(), options.batch, 8 * steps, {steps + 1, 2 * steps - 1, 2 * steps, 4 * steps});
  const std::vector<Seen> expected = run_all(single->program(), batches, "td_error");
  EXPECT_EQ(launch_all(several->program(), batches, "td_error", steps), expected);
  EXPECT_EQ(state_of(several->program()), state_of(single->program()));
  expect_same_counts(several->program(), single->program());
  EXPECT_EQ(single->program().skipped(), steps == 1 ? 3 : 4);
}

INSTANTIATE_TEST_SUITE_P(Computes, D4pgLaunches,
                         testing::Values(D4pgCase{DType::kF32, 4}, D4pgCase{DType::kBF16, 3},
                                         D4pgCase{DType::kF32, 1}));

TEST_F(EmulatedProgramTest, BeginReturnsBeforeTheLaunchHasRun) {
  const auto program = net({.device = kGpu}, {.rule = Adam{}});
  const Batches batches(x_signature(), kRows, 4);
  for (int launch = 0; launch < 3; ++launch) {
    EXPECT_TRUE(program->finished()) << "none is under way";
    for (std::size_t i = 0; i < 4; ++i) program->stage(batches[i]).value();
    const std::int64_t kernels = emulator().kernels();
    program->begin().value();
    EXPECT_EQ(emulator().kernels(), kernels);
    EXPECT_TRUE(program->under_way());
    EXPECT_EQ(program->step(), 4 * launch);
    EXPECT_FALSE(program->finished());
    int asked = 1;
    while (!program->finished()) ++asked;
    EXPECT_GT(asked, 4 * 5);
    EXPECT_TRUE(program->under_way());
    program->finish().value();
    EXPECT_FALSE(program->under_way());
  }
}

TEST_F(EmulatedProgramTest, AfterTheSecondOfAKindALaunchIsOneGraphAndAllocatesNothing) {
  const auto program = net({.device = kGpu}, {.rule = Adam{}});
  const Batches batches(x_signature(), kRows, 4);
  const auto launch = [&] {
    for (std::size_t i = 0; i < 4; ++i) program->stage(batches[i]).value();
    program->begin().value();
    program->finish().value();
  };
  for (int i = 0; i < 4; ++i) launch();  // two kinds: batches lie in one block or the other
  const std::int64_t allocations = emulator().allocations(), launches = emulator().launches();
  const std::int64_t graphs = emulator().graph_launches(), alive = emulator().alive();
  for (int i = 0; i < 6; ++i) launch();
  EXPECT_EQ(emulator().allocations(), allocations);
  EXPECT_EQ(emulator().alive(), alive);
  EXPECT_EQ(emulator().launches(), launches) << "a kernel was launched by itself";
  EXPECT_EQ(emulator().graph_launches() - graphs, 6);
}

TEST_F(LaunchesTest, StepsInWhichTheHostTakesPartAreLaunchedOneByOne) {
  const OptimizerSpec sgd{.rule = Sgd{.learning_rate = 0.1}};
  const auto joint = [](const JointArgs& args) -> Status {
    std::ranges::copy(args.in, args.out.begin());
    return {};
  };
  const auto reduce = [](const GradientPart&) -> Status { return {}; };
  OptimizerSpec seldom = sgd;
  seldom.every_steps = 2;
  EXPECT_EQ(net({.device = kGpu}, sgd)->steps_per_launch(), kStepsPerLaunch);
  EXPECT_EQ(net({}, sgd)->steps_per_launch(), 1);
  for (const auto& program : {net({.device = kGpu}, sgd, {.forward = joint, .reduce = {}}),
                              net({.device = kGpu}, sgd, {.forward = {}, .reduce = reduce}),
                              net({.device = kGpu}, seldom), net({.device = kGpu, .accumulate = 2}, sgd)}) {
    EXPECT_EQ(program->steps_per_launch(), 1);
    const Batches batches(x_signature(), kRows, 4);
    for (std::size_t i = 0; i < 4; ++i) {
      program->stage(batches[i]).value();
      program->begin().value();
      program->finish().value();
    }
    EXPECT_GE(program->step(), 2);
  }
  Graph graph(1 << 10);
  graph.output("y", affine(graph.input("x", {6 << 10}), 2, 0));  // 24 MiB
  EXPECT_EQ(Program::compile(graph, {.device = kGpu}).value()->steps_per_launch(), 2);
}

// ---- calls in a wrong order ----

std::string message(const Status& status) {
  if (status.ok()) return "no error";
  EXPECT_TRUE(status.error().code == Code::kInvalidArgument || status.error().code == Code::kShapeMismatch);
  return status.error().message;
}
Status status(const Result<int>& result) { return result.ok() ? Status() : Status(result.error()); }

class NoFeed : public DeviceFeed {
  Status before_launch(int, TroupeCudaStream*) override { return {}; }
  Status enqueue_inputs(int, TroupeCudaStream*) override { return {}; }
  Status enqueue_outputs(int, const TroupeCudaControl*, TroupeCudaStream*) override { return {}; }
};

TEST_F(LaunchesTest, CallsInAWrongOrderAreOneErrorEach) {
  const Batches batches(x_signature(), kRows, 1);
  const Data few(x_signature(), 5, 1);
  for (const Device& device : {Device{}, kGpu}) {
    const auto program = net({.device = device}, {.rule = Adam{}});
    const auto stage = [&] { return program->stage(batches[0]); };
    EXPECT_THAT(message(program->begin()), HasSubstr("begin: nothing is staged; stage() comes first"));
    EXPECT_THAT(message(status(program->finish())), HasSubstr("finish: no launch is under way; begin() comes first"));
    EXPECT_THAT(message(program->begin(1)), HasSubstr("begin: no feed is attached, expected stage()"));
    const Data narrow({{"x", DType::kF32, Shape{5}}}, kRows, 1);
    EXPECT_THAT(message(program->stage(narrow.buffer.view())), HasSubstr("stage: column"));
    const Data long_one(x_signature(), kRows + 1, 1);
    EXPECT_THAT(message(program->stage(long_one.buffer.view())), HasSubstr("stage: got 13 rows, expected 12 or fewer"));
    EXPECT_EQ(program->staged(), 0);
    stage().value();
    EXPECT_THAT(message(program->run()), HasSubstr("run: batches are staged; begin() runs"));
    EXPECT_THAT(message(program->attach(std::make_shared<NoFeed>())),
                HasSubstr(device.is_gpu() ? "attach: batches are staged" : "attach: the program is on cpu"));
    for (int more = 1; more < program->steps_per_launch(); ++more) {
      EXPECT_THAT(message(program->stage(few.buffer.view())), HasSubstr("stage: got 5 rows, expected 12"));
      stage().value();
    }
    EXPECT_THAT(message(stage()), HasSubstr("are staged already, expected at most"));
    program->begin().value();
    EXPECT_EQ(program->staged(), 0);
    const std::string under_way =
        ": a launch of " + std::to_string(program->steps_per_launch()) + " steps is under way; finish() comes first";
    stage().value();
    EXPECT_THAT(message(program->begin()), HasSubstr("begin" + under_way));
    EXPECT_THAT(message(program->run()), HasSubstr("run" + under_way));
    EXPECT_THAT(message(program->fetch()), HasSubstr("fetch" + under_way));
    EXPECT_THAT(message(program->fetch("net")), HasSubstr("fetch" + under_way));
    EXPECT_THAT(message(program->attach(nullptr)), HasSubstr("attach" + under_way));
    EXPECT_THAT(message(restore_state(*program, {}, 0)), HasSubstr("restore: a launch is under way"));
    program->finish().value();
    program->begin().value();
    program->finish().value();
    EXPECT_EQ(program->step(), program->steps_per_launch() + 1);
  }
  const auto program = net({.device = kGpu}, {.rule = Adam{}});
  program->attach(std::make_shared<NoFeed>()).value();
  EXPECT_THAT(message(program->stage(batches[0])), HasSubstr("stage: a feed fills the inputs, expected begin(steps)"));
  EXPECT_THAT(message(program->begin()), HasSubstr("begin: a feed fills the inputs, expected begin(steps)"));
  EXPECT_THAT(message(program->run()), HasSubstr("run: a feed fills the inputs"));
  EXPECT_THAT(message(program->begin(0)), HasSubstr("begin: got 0 steps, expected 1 to 16"));
  EXPECT_THAT(message(program->begin(17)), HasSubstr("begin: got 17 steps, expected 1 to 16"));
  const auto on_cpu = net({}, {.rule = Adam{}});
  EXPECT_EQ(on_cpu->device_input("x").error().code, Code::kInvalidArgument);
  EXPECT_EQ(on_cpu->gpu(), nullptr);
}

// ---- feeds ----

/// Keeps batches on the GPU, gives each launch the next ones, and puts outputs aside there.
class Shelf : public DeviceFeed {
 public:
  Shelf(const Program& program, const Batches& batches)
      : gpu_(program.gpu()),
        input_(program.device_input("x").value()),
        output_(program.device_output("y").value()),
        batches_(batches),
        rows_(gpu_->allocate(kStepsPerLaunch * bytes(input_), "rows").value()),
        pinned_(gpu_->allocate_pinned(kStepsPerLaunch * bytes(input_), "rows").value()),
        outputs_(gpu_->allocate(kStepsPerLaunch * bytes(output_), "outputs").value()),
        controls_(gpu_->allocate(kStepsPerLaunch * sizeof(TroupeCudaControl), "controls").value()) {}

  Status before_launch(int steps, TroupeCudaStream* stream) override {
    if (refuse) return Error{Code::kUnavailable, "the shelf is empty"};
    for (int step = 0; step < steps; ++step) {
      const auto x = batches_[next_++].as<float>(0);
      std::memcpy(pinned_.get() + static_cast<std::size_t>(step) * bytes(input_), x.data(), x.size_bytes());
    }
    return gpu_->check(gpu_->api().copy(rows_.get(), pinned_.get(), pinned_.bytes(), stream), "rows");
  }
  Status enqueue_inputs(int step, TroupeCudaStream* stream) override {
    ++enqueued;
    return copy(input_.data, rows_.get() + static_cast<std::size_t>(step) * bytes(input_), bytes(input_), stream);
  }
  Status enqueue_outputs(int step, const TroupeCudaControl* control, TroupeCudaStream* stream) override {
    const auto row = static_cast<std::size_t>(step);
    TROUPE_TRY(copy(outputs_.get() + row * bytes(output_), output_.data, bytes(output_), stream));
    return copy(controls_.get() + row * sizeof(*control), control, sizeof(*control), stream);
  }
  /// Of the last launch, which has finished.
  Seen seen_at(int step) const {
    std::vector<float> y(static_cast<std::size_t>(output_.elements));
    TroupeCudaControl control{};
    const auto row = static_cast<std::size_t>(step);
    TroupeCudaStream* stream = nullptr;
    EXPECT_EQ(gpu_->api().make_stream(&stream), 0);
    EXPECT_EQ(gpu_->api().copy(y.data(), outputs_.get() + row * bytes(output_), bytes(output_), stream), 0);
    EXPECT_EQ(gpu_->api().copy(&control, controls_.get() + row * sizeof(control), sizeof(control), stream), 0);
    EXPECT_EQ(gpu_->api().synchronise(stream), 0);
    EXPECT_EQ(gpu_->api().destroy_stream(stream), 0);
    return seen({}, y, control.skip != 0);
  }
  bool refuse = false;
  int enqueued = 0;

 private:
  static std::size_t bytes(const DeviceSpan& span) { return static_cast<std::size_t>(span.elements) * sizeof(float); }
  Status copy(void* to, const void* from, std::size_t count, TroupeCudaStream* stream) {
    return gpu_->check(gpu_->api().copy(to, from, count, stream), "a shelf");
  }
  std::shared_ptr<const gpu::Gpu> gpu_;
  DeviceSpan input_, output_;
  const Batches& batches_;
  std::size_t next_ = 0;
  gpu::GpuMemory rows_, pinned_, outputs_, controls_;
};

TEST_F(LaunchesTest, AFeedFillsInputsAndTakesOutputsOnTheGpu) {
  const auto single = net({.device = kGpu, .seed = 3}, {.rule = Adam{.learning_rate = 0.01}});
  const auto fed = net({.device = kGpu, .seed = 3}, {.rule = Adam{.learning_rate = 0.01}});
  Batches batches(x_signature(), kRows, 20, {3, 9, 10});
  const std::vector<Seen> expected = run_all(*single, batches, "y");
  EXPECT_EQ(fed->device_input("x").value().elements, kRows * 6);
  EXPECT_EQ(fed->device_input("y").error().code, Code::kNotFound);
  EXPECT_EQ(fed->device_output("y").value().elements, kRows * 3);
  const auto shelf = std::make_shared<Shelf>(*fed, batches);
  fed->attach(shelf).value();
  for (std::size_t first = 0; first < 16; first += 4) {
    fed->begin(4).value();
    fed->finish().value();
    for (int step = 0; step < 4; ++step) {
      const Seen& of_host = expected[first + static_cast<std::size_t>(step)];
      EXPECT_EQ(seen(fed->metrics(step), fed->output("y", step), fed->skipped(step)), of_host);
      Seen on_gpu = of_host;
      on_gpu.numbers.erase(on_gpu.numbers.begin());  // the metric
      EXPECT_EQ(shelf->seen_at(step), on_gpu) << first << '+' << step;
    }
  }
  EXPECT_EQ(shelf->enqueued, 8) << "once as it is, once recorded";
  shelf->refuse = true;
  EXPECT_EQ(fed->begin(4).error().message, "the shelf is empty");
  EXPECT_FALSE(fed->under_way());
  shelf->refuse = false;
  // The one before is forgotten, whatever it had recorded.
  const auto other = std::make_shared<Shelf>(*fed, batches);
  fed->attach(other).value();
  fed->begin(4).value();
  fed->finish().value();
  EXPECT_EQ(shelf->enqueued, 8);
  EXPECT_EQ(other->enqueued, 4);
  // And back to batches of the host.
  fed->attach(nullptr).value();
  fed->stage(batches[19]).value();
  fed->begin().value();
  fed->finish().value();
  EXPECT_EQ(fed->step(), 13 + 3 + 1);
}

class BrokenFeed : public DeviceFeed {
 public:
  Status before_launch(int, TroupeCudaStream*) override { return {}; }
  Status enqueue_inputs(int step, TroupeCudaStream*) override {
    return step < broken_at ? Status() : Status(Error{Code::kInternal, "a feed that is broken"});
  }
  Status enqueue_outputs(int, const TroupeCudaControl*, TroupeCudaStream*) override { return {}; }
  int broken_at = kStepsPerLaunch;
};

TEST_F(LaunchesTest, AFeedThatFailsInTheMiddleOfALaunchIsTheEnd) {
  const auto program = net({.device = kGpu}, {.rule = Adam{}});
  const auto feed = std::make_shared<BrokenFeed>();
  program->attach(feed).value();
  program->begin(3).value();  // with whatever lies there
  program->finish().value();
  feed->broken_at = 2;
  EXPECT_EQ(program->begin(3).error().message, "a feed that is broken") << "while it is recorded";
  EXPECT_FALSE(program->under_way());
  EXPECT_EQ(program->fetch().error().message, "a feed that is broken") << "how much of it was done nobody knows";
  EXPECT_FALSE(program->begin(3).ok());
}

// ---- failures ----

TEST_F(EmulatedProgramTest, AKernelThatFailsInALaunchLosesTheGpu) {
  const auto program = net({.device = kGpu}, {.rule = Adam{.learning_rate = 0.01}});
  const Batches batches(x_signature(), kRows, 4);
  const auto stage = [&] {
    for (std::size_t i = 0; i < 4; ++i) program->stage(batches[i]).value();
  };
  for (int launch = 0; launch < 4; ++launch) {
    stage();
    program->begin().value();
    program->finish().value();
  }
  const State saved = state_of(*program);
  stage();
  emulator().fail_kernel(30);
  program->begin().value();
  const auto finished = program->finish();
  ASSERT_FALSE(finished.ok());
  EXPECT_THAT(finished.error().message, HasSubstr("cuda:0"));
  EXPECT_THAT(finished.error().message, HasSubstr("illegal"));
  EXPECT_FALSE(program->under_way());
  EXPECT_EQ(program->step(), 16);
  EXPECT_FALSE(program->fetch().ok()) << "what the GPU had is gone, and nobody may save the old copy as new";
  EXPECT_FALSE(program->stage(batches[0]).ok());
  EXPECT_EQ(state_of(*program), saved) << "the copy of the last fetch";
  lost_ = true;
}

// ---- D4PG's learner ----

TEST_F(LaunchesTest, D4pgTellsWhatEachStepOfALaunchGave) {
  d4pg::Options options = d4pg::steering_options();
  options.policy_sizes = options.critic_sizes = {8};
  options.batch = 4;
  for (const Device& device : {Device{}, kGpu}) {
    const auto make = [&] { return d4pg::HandFed::make({.d4pg = options, .compile = {.device = device, .seed = 5}}); };
    const auto single = make().value(), several = make().value();
    const auto steps = static_cast<std::size_t>(several->steps_per_launch());
    Batches batches(single->signature(), options.batch, 3 * steps, {1});
    EXPECT_EQ(several->finish().error().code, Code::kInvalidArgument);
    for (std::size_t first = 0; first < batches.size(); first += steps) {
      for (std::size_t i = first; i < first + steps; ++i) several->stage(batches[i]).value();
      several->begin().value();
      const auto metrics = several->finish().value();
      ASSERT_EQ(metrics.size(), steps);
      for (std::size_t step = 0; step < steps; ++step) {
        const d4pg::StepMetrics expected = single->step(batches[first + step]).value();
        EXPECT_EQ(metrics[step].critic_loss, expected.critic_loss);
        EXPECT_EQ(metrics[step].policy_loss, expected.policy_loss);
        EXPECT_EQ(metrics[step].q_mean, expected.q_mean);
        EXPECT_EQ(metrics[step].skipped, expected.skipped);
        EXPECT_EQ(metrics[step].skipped, first + step == 1);
        const auto errors = several->td_error(static_cast<int>(step));
        const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
        EXPECT_TRUE(std::ranges::equal(errors, single->td_error(), same)) << first + step;
      }
      EXPECT_TRUE(several->td_error(static_cast<int>(steps)).empty());
    }
  }
}

TEST_F(LaunchesTest, TooManySkippedInARowEndTrainingAlsoInsideOfALaunch) {
  d4pg::Options options = d4pg::steering_options();
  options.policy_sizes = options.critic_sizes = {8};
  options.batch = 4;
  const auto learner = d4pg::HandFed::make({.d4pg = options, .compile = {.device = kGpu}}).value();
  const Batches batches(learner->signature(), options.batch, 12, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  for (std::size_t i = 0; i < batches.size(); ++i) learner->stage(batches[i]).value();
  learner->begin().value();
  const auto finished = learner->finish();
  ASSERT_FALSE(finished.ok());
  EXPECT_THAT(finished.error().message, HasSubstr("the gradient was not finite 10 times in a row"));
}

}  // namespace
}  // namespace troupe::learner
