// Replicas on devices of the processor's PJRT plug-in, as one program and meeting on the host, beside replicas of the
// processor's engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/learner/ops/random.hpp>
#include <troupe/learner/replicate/device_replicas.hpp>
#include <troupe/tests/learner/engine/pjrt/cpu_plugin.hpp>
#include <troupe/tests/learner/replicate/collective_cases.hpp>
#include <troupe/tests/learner/replicate/replicas.hpp>

namespace troupe::learner {
namespace {

using testing::HasSubstr;

std::vector<Device> devices_of(int replicas) {
  std::vector<Device> devices;
  for (int r = 0; r < replicas; ++r) devices.push_back({"pjrt:cpu", (r + 2) % 8});
  return devices;
}

std::unique_ptr<MultiDevice> one_program(Replica& replica, DeviceReplicasOptions options) {
  options.devices = devices_of(options.replicas);
  auto made = MultiDevice::make(replica, options);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return made.ok() ? std::move(made).value() : nullptr;
}

std::vector<float> values_of(Program& program) {
  EXPECT_TRUE(program.fetch().ok());
  return all_values(program);
}

/// Steps of replicas on such devices, beside those of the processor's.
void expect_collective_of_processor(const Case& c, const std::function<std::vector<Device>(int)>& devices) {
  for (const int replicas : {2, 3}) {
    UsesOne replica(c.body, 0.05);
    DeviceReplicasOptions options{.replicas = replicas, .global_batch = c.rows};
    const auto expected = MultiDevice::make(replica, options).value();
    options.devices = devices(replicas);
    const auto made = MultiDevice::make(replica, options);
    ASSERT_TRUE(made.ok()) << made.error().message;
    const auto& got = *made;
    for (int step = 0; step < 3; ++step) {
      expected->step().value();
      const Status status = got->step();
      ASSERT_TRUE(status.ok()) << status.error().message;
      for (int r = 0; r < replicas; ++r) {
        const double loss = expected->program(r).metrics()[0];
        EXPECT_NEAR(got->program(r).metrics()[0], loss, 1e-5 * std::abs(loss)) << replicas << ", step " << step;
      }
    }
    for (int r = 0; r < replicas; ++r) {
      EXPECT_LT(distance(values_of(got->program(r)), all_values(expected->program(r))), 1e-5) << replicas;
      EXPECT_EQ(values_of(got->program(r)), values_of(got->program(0)));
    }
  }
}

class InOneProgram : public testing::TestWithParam<Case> {};

TEST_P(InOneProgram, ACollectiveAndItsGradientAreThoseOfTheProcessor) {
  need_cpu_plugin();
  if (!IsSkipped()) expect_collective_of_processor(GetParam(), devices_of);
}

class OnTheHost : public testing::TestWithParam<Case> {};

TEST_P(OnTheHost, ACollectiveOfReplicasThatShareADeviceIsThatOfTheProcessor) {
  need_cpu_plugin();
  if (IsSkipped()) return;
  expect_collective_of_processor(GetParam(), [](int replicas) {
    return std::vector<Device>(static_cast<std::size_t>(replicas), {"pjrt:cpu", 1});
  });
}

std::vector<Case> cases_that_compile() {
  std::vector<Case> all = cases();
  std::erase_if(all, [](const Case& c) { return c.name.starts_with("map"); });
  return all;
}
INSTANTIATE_TEST_SUITE_P(Pjrt, OnTheHost, testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Pjrt, InOneProgram, testing::ValuesIn(cases_that_compile()),
                         [](const auto& info) { return info.param.name; });

TEST(OneProgram, AMapIsRefusedSinceEachReplicaBuildsAnotherPart) {
  need_cpu_plugin();
  if (IsSkipped()) return;
  UsesOne replica([](const Values& v) {
    const Var local = sum_stripes(v.local);
    const std::vector<Var> items{local, local};
    return v.context.map_gather(items, [](Var item) { return square(item); });
  });
  const auto made = MultiDevice::make(replica, {.replicas = 2, .global_batch = 6, .devices = devices_of(2)});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Code::kInvalidArgument);
  EXPECT_THAT(made.error().message, HasSubstr("calls a function of the host's"));
}

TEST(OneProgram, WeighsShortAndMissingBatches) {
  need_cpu_plugin();
  if (IsSkipped()) return;
  for (const auto& lengths : {std::vector<std::int64_t>{}, {4, 4, 2}, {4, 3, 0}, {1, 0, 0}}) {
    Mlp replica(lengths);
    const DeviceReplicasOptions options{.replicas = 3, .global_batch = lengths.empty() ? 11 : 12};  // 3 + 4 + 4
    const auto expected = MultiDevice::make(replica, options).value();
    const auto got = one_program(replica, options);
    ASSERT_NE(got, nullptr);
    for (int step = 0; step < 3; ++step) {
      expected->step().value();
      got->step().value();
      EXPECT_EQ(got->program().metrics()[1], expected->program().metrics()[1]);
    }
    EXPECT_LT(distance(values_of(got->program(2)), all_values(expected->program(2))), 1e-5);
  }
}

TEST(OneProgram, ALaunchOfManyStepsIsTheStepsOneByOne) {
  need_cpu_plugin();
  if (IsSkipped()) return;
  Mlp replica;
  const DeviceReplicasOptions options{.replicas = 4, .global_batch = kRows, .check_every_steps = 10};
  const auto single = one_program(replica, options), launched = one_program(replica, options);
  ASSERT_NE(single, nullptr);
  ASSERT_EQ(launched->steps_per_launch(), kStepsPerLaunch);
  for (int launch = 0; launch < 2; ++launch) {
    while (launched->staged() < kStepsPerLaunch) launched->stage().value();
    EXPECT_EQ(launched->stage().error().code, Code::kInvalidArgument);
    launched->begin().value();
    launched->finish().value();
    for (int step = 0; step < kStepsPerLaunch; ++step) {
      single->step().value();
      // A loss that only the host reads may be fused in another way.
      EXPECT_FLOAT_EQ(static_cast<float>(launched->program().metrics(step)[0]),
                      static_cast<float>(single->program().metrics()[0]));
    }
    for (int r = 0; r < 4; ++r) EXPECT_EQ(values_of(launched->program(r)), values_of(single->program(r)));
  }
  EXPECT_EQ(launched->program().step(), 2 * kStepsPerLaunch);
}

TEST(OneProgram, SkipsAStepThatOneReplicaBreaksAndGivesUpAfterTen) {
  need_cpu_plugin();
  if (IsSkipped()) return;
  Broken replica;
  const auto devices = one_program(replica, {.replicas = 2, .global_batch = kRows});
  ASSERT_NE(devices, nullptr);
  for (int step = 0; step < 2; ++step) devices->step().value();
  const std::vector<float> before = values_of(devices->program());
  for (int step = 0; step < kMaxSkippedInARow - 1; ++step) devices->step().value();
  EXPECT_THAT(devices->step().error().message, HasSubstr("10 times in a row"));
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(values_of(devices->program(r)), before);
    EXPECT_EQ(devices->program(r).step(), 2);
  }
}

TEST(OneProgram, WhatReplicasDoNotShareStaysTheirOwnAndItsFailureIsAllTheirs) {
  need_cpu_plugin();
  if (IsSkipped()) return;
  Policies replica;
  const DeviceReplicasOptions options{.replicas = 2, .global_batch = kRows, .check_every_steps = 3};
  const auto expected = MultiDevice::make(replica, options).value();
  const auto got = one_program(replica, options);
  ASSERT_NE(got, nullptr);
  for (int step = 0; step < 5; ++step) {  // with rank 0's broadcast before the fourth
    expected->step().value();
    got->step().value();
  }
  for (int r = 0; r < 2; ++r) {
    EXPECT_LT(distance(values_of(got->program(r)), all_values(expected->program(r))), 1e-5) << r;
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_NEAR(got->program(r).state().values()[i], expected->program(r).state().values()[i], 1e-6);
    }
  }
  ParamBuffer& own = *got->program(1).params("own");
  own.tensor(own.layout().entries[0])[0] = std::numeric_limits<float>::infinity();
  got->program(1).parameters_changed();
  got->step().value();
  for (int r = 0; r < 2; ++r) EXPECT_EQ(got->program(r).skipped(), 1) << r;
}

/// Random numbers of each row, whichever replica has it.
class Draws final : public Mlp {
 public:
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    Mlp::step_fn(context, inputs);
    context.graph().output("drawn", random_uniform(context.graph(), "noise", Shape{3}));
  }
};

TEST(OneProgram, EachReplicaDrawsTheRandomNumbersOfItsRows) {
  need_cpu_plugin();
  if (IsSkipped()) return;
  Draws replica;
  const DeviceReplicasOptions options{.replicas = 3, .global_batch = 12};
  const auto expected = MultiDevice::make(replica, options).value();
  const auto got = one_program(replica, options);
  ASSERT_NE(got, nullptr);
  for (int step = 0; step < 2; ++step) {
    expected->step().value();
    got->step().value();
    const auto drawn = got->output("drawn", 0), whole = expected->output("drawn", 0);
    EXPECT_EQ(std::vector<float>(drawn.begin(), drawn.end()), std::vector<float>(whole.begin(), whole.end()));
  }
}

/// Builds another step on replica 1.
class Differs final : public Mlp {
 public:
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    Mlp::step_fn(context, inputs);
    context.graph().output("y", affine(inputs["observation"], context.input().replica_id + 1, 0));
  }
};

TEST(OneProgram, DifferentStepsAreRefused) {
  need_cpu_plugin();
  if (IsSkipped()) return;
  Differs replica;
  const auto made = MultiDevice::make(replica, {.replicas = 2, .global_batch = 6, .devices = devices_of(2)});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, HasSubstr("build different steps, expected the same one; they differ at"));
}

TEST(OneProgram, ReplicasThatShareADeviceMeetOnTheHost) {
  need_cpu_plugin();
  if (IsSkipped()) return;
  const std::vector<Device> one{{"pjrt:cpu", 1}};
  // Without collectives in the step.
  const auto replica = make_replica([&](const InputContext& context) { return Mlp().input_fn(context); },
                                    [](ReplicaContext& context, const StepInputs& inputs) {
                                      Graph& graph = context.graph();
                                      const ParamGroup group = graph.group("net");
                                      const Var w = graph.param(group, "w", Shape{6, 1}, Init::uniform(1));
                                      graph.minimize(mean(square(matmul(inputs["observation"], w))), group,
                                                     context.wrap_optimizer({.rule = Sgd{.learning_rate = 0.1}}));
                                    });
  const auto devices = MultiDevice::make(*replica, {.replicas = 2, .global_batch = 8, .devices = one}).value();
  EXPECT_EQ(devices->steps_per_launch(), 1);
  const auto expected = MultiDevice::make(*replica, {.replicas = 2, .global_batch = 8}).value();
  devices->step().value();
  expected->step().value();
  EXPECT_LT(distance(values_of(devices->program()), all_values(expected->program())), 1e-6);
}

}  // namespace
}  // namespace troupe::learner
