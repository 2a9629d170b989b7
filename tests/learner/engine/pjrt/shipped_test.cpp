// Whole steps of what ships to be trained: as modules for the processor's plug-in, whose numbers follow the processor's
// program, and for TPUs that are not there.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include <troupe/algorithms/classifier/options.hpp>
#include <troupe/algorithms/classifier/replica.hpp>
#include <troupe/algorithms/d4pg/options.hpp>
#include <troupe/algorithms/d4pg/policy.hpp>
#include <troupe/algorithms/d4pg/replica.hpp>
#include <troupe/algorithms/dmpo/options.hpp>
#include <troupe/algorithms/dmpo/replica.hpp>
#include <troupe/algorithms/resnet/options.hpp>
#include <troupe/algorithms/resnet/replica.hpp>
#include <troupe/algorithms/sac/options.hpp>
#include <troupe/algorithms/sac/replica.hpp>
#include <troupe/algorithms/sngan/options.hpp>
#include <troupe/algorithms/sngan/replica.hpp>
#include <troupe/algorithms/td3/options.hpp>
#include <troupe/algorithms/td3/replica.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/tests/learner/engine/pjrt/trained.hpp>
#include <troupe/tests/pjrt/compile_for_tpu.hpp>
#include <troupe/tests/pjrt/plugins.hpp>

namespace troupe::learner {
namespace {

using testing::HasSubstr;

const control::EnvironmentShape kEnvironment{17, std::vector<double>(6, -1), std::vector<double>(6, 1)};

struct Shipped {
  std::string name;
  std::function<std::unique_ptr<Replica>(InputFn)> make;
  Signature signature;
  std::int64_t batch = 16;
  std::int64_t labels = 10;
};
void PrintTo(const Shipped& shipped, std::ostream* out) { *out << shipped.name; }

template <typename Options>
Shipped agent(std::string name, const Options& options, std::unique_ptr<Replica> (*training)(const Options&, InputFn)) {
  return {std::move(name), [=](InputFn input) { return training(options, std::move(input)); },
          control::transitions(kEnvironment, false)};
}

std::vector<Shipped> shipped() {
  const sngan::Options perceptrons;
  sngan::Options gan;
  gan.network = sngan::Network::kResnet;
  gan.image = {32, 32, 3};
  gan.classes = 10;
  gan.generator_width = gan.discriminator_width = 16;
  classifier::Options digits;
  digits.batch_norm = true;
  resnet::Options cifar = *resnet::of_depth(20);
  cifar.height = cifar.width = 32;
  cifar.classes = 10;
  return {
      agent<d4pg::Options>("D4pg", {.environment = kEnvironment}, d4pg::training),
      agent<td3::Options>("Td3", {.environment = kEnvironment}, td3::training),
      agent<sac::Options>("Sac", {.environment = kEnvironment}, sac::training),
      agent<dmpo::Options>("Dmpo", {.environment = kEnvironment}, dmpo::training),
      {"Classifier", [=](InputFn input) { return classifier::training(digits, std::move(input)); },
       classifier::batch_signature(digits)},
      {"Resnet20", [=](InputFn input) { return resnet::training(cifar, std::move(input)); },
       resnet::batch_signature(cifar), 8},
      {"Sngan", [=](InputFn input) { return sngan::training(perceptrons, std::move(input)); },
       sngan::batch_signature(perceptrons)},
      {"SnganResnet", [=](InputFn input) { return sngan::training(gan, std::move(input)); },
       sngan::batch_signature(gan), 8},
  };
}

void build(Graph& graph, const Shipped& of) {
  BatchSlot slot(of.signature);
  auto replica = of.make(
      [&](const InputContext& context) -> Result<std::unique_ptr<InputPipeline>> { return slot.pipeline(context); });
  const InputContext context{.replica_batch = graph.batch(), .global_batch = graph.batch()};
  auto input = replica->input_fn(context);
  ASSERT_TRUE(input.ok()) << input.error().message;
  ReplicaContext replica_context(graph, context, nullptr);
  replica->step_fn(replica_context, StepInputs(graph, of.signature));
  ASSERT_TRUE(graph.status().ok()) << graph.status().error().message;
}

void fill(BatchBuffer& batch, Rng& rng, std::int64_t labels) {
  const MutableBatchView& view = batch.mutable_view();
  for (std::size_t c = 0; c < view.columns.size(); ++c) {
    const TensorSpec& column = (*view.signature)[c];
    if (column.dtype == DType::kI32) {
      for (std::int32_t& x : view.as<std::int32_t>(c)) {
        x = static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(labels)));
      }
    } else if (column.dtype == DType::kU8) {
      for (std::uint8_t& x : view.as<std::uint8_t>(c)) x = static_cast<std::uint8_t>(rng.below(256));
    } else {
      const bool bounded = column.name == "discount" || column.name == "action";
      for (float& x : view.as<float>(c)) x = static_cast<float>(bounded ? rng.uniform() : rng.normal());
    }
  }
}

class ShippedStep : public testing::TestWithParam<Shipped> {};

TEST_P(ShippedStep, FollowsTheProcessorsProgram) {
  if (pjrt::fetched_plugin("cpu").empty()) GTEST_SKIP() << pjrt::no_plugin("cpu");
  const Shipped& of = GetParam();
  Graph graph(of.batch);
  build(graph, of);
  if (HasFatalFailure()) return;
  auto program = Program::compile(graph, {.seed = 5});
  ASSERT_TRUE(program.ok()) << program.error().message;
  Trained trained(pjrt::cpu_client(), graph, **program);
  Rng rng(2);
  for (int step = 0; step < 3; ++step) {
    BatchBuffer batch(of.signature, of.batch);
    fill(batch, rng, of.labels);
    const std::int64_t before = (*program)->step();
    ASSERT_TRUE((*program)->bind(batch.view()).ok());
    const Status run = (*program)->run();
    ASSERT_TRUE(run.ok()) << run.error().message;
    EXPECT_FALSE(trained.step(before, batch.view()));
    const std::span<const double> metrics = (*program)->metrics();
    ASSERT_EQ(trained.metrics.size(), metrics.size() + 1);
    for (std::size_t m = 0; m < metrics.size(); ++m) {
      // Adam's first steps are of one length whatever the gradient is, so a rounding error may turn one around.
      EXPECT_NEAR(trained.metrics[m], metrics[m], 2e-3 * (std::abs(metrics[m]) + 0.1))
          << (*program)->metric_names()[m] << " in step " << step;
    }
  }
}

TEST_P(ShippedStep, CompilesForTpus) {
  if (pjrt::fetched_plugin("tpu").empty()) GTEST_SKIP() << pjrt::no_plugin("tpu");
  Graph graph(GetParam().batch);
  build(graph, GetParam());
  if (HasFatalFailure()) return;
  auto module = make_hlo_module(graph, {.phase = HloPhase::kUpdate});
  ASSERT_TRUE(module.ok()) << module.error().message;
  const pjrt::Outcome made = pjrt::compile_for_tpu("v5e:1x1", module->text);
  ASSERT_TRUE(made.ok) << made.text;
  EXPECT_THAT(made.text, HasSubstr(fmt::format("outputs {}\n", module->results.size())));
}

INSTANTIATE_TEST_SUITE_P(Pjrt, ShippedStep, testing::ValuesIn(shipped()),
                         [](const auto& info) { return info.param.name; });

TEST(ShippedModules, D4pgInALoopCompilesForTpusAndLendsAllThatItKeeps) {
  if (pjrt::fetched_plugin("tpu").empty()) GTEST_SKIP() << pjrt::no_plugin("tpu");
  Graph graph(256);
  build(graph, shipped()[0]);
  auto module = make_hlo_module(graph, {.phase = HloPhase::kUpdate, .steps = 16});
  ASSERT_TRUE(module.ok()) << module.error().message;
  std::int64_t bytes = 0;
  for (const HloSlot& slot : module->arguments) bytes += slot.lends_to < 0 ? 0 : 4 * slot.type.shape.elements();
  const pjrt::Outcome made = pjrt::compile_for_tpu("v6e:1x1", module->text);
  ASSERT_TRUE(made.ok) << made.text;
  // A TPU's arrays are padded to its tiles.
  const std::size_t at = made.text.find("alias ");
  ASSERT_NE(at, std::string::npos) << made.text;
  EXPECT_GE(std::stoll(made.text.substr(at + 6)), bytes);
}

TEST(ShippedModules, D4pgIsShortEnoughToCompileFast) {
  Graph step(256), act(1);
  build(step, shipped()[0]);
  d4pg::build_policy(act, {.environment = kEnvironment});
  EXPECT_LT(make_hlo_module(step, {.phase = HloPhase::kUpdate})->text.size(), 120'000U);
  auto acting = make_hlo_module(act, {.phase = HloPhase::kAct});
  ASSERT_TRUE(acting.ok()) << acting.error().message;
  EXPECT_LT(acting->text.size(), 20'000U);
}

}  // namespace
}  // namespace troupe::learner
