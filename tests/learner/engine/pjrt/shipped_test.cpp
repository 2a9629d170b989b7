// Whole steps of what ships to be trained: as modules for the processor's plug-in, whose numbers follow the processor's
// program, and for TPUs that are not there. One of each kind in every run of the tests, and all of them, with what
// compiles for minutes, where asked for (`./troupe test -C Slow -R pjrt_shipped`).
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
#include <troupe/algorithms/drqv2/options.hpp>
#include <troupe/algorithms/drqv2/replica.hpp>
#include <troupe/algorithms/flashsac/options.hpp>
#include <troupe/algorithms/flashsac/replica.hpp>
#include <troupe/algorithms/resnet/options.hpp>
#include <troupe/algorithms/resnet/replica.hpp>
#include <troupe/algorithms/sac/options.hpp>
#include <troupe/algorithms/sac/replica.hpp>
#include <troupe/algorithms/sngan/options.hpp>
#include <troupe/algorithms/sngan/replica.hpp>
#include <troupe/algorithms/td3/options.hpp>
#include <troupe/algorithms/td3/replica.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/replicate/device_replicas.hpp>
#include <troupe/tests/learner/engine/pjrt/cpu_plugin.hpp>
#include <troupe/tests/learner/engine/pjrt/trained.hpp>
#include <troupe/tests/pjrt/compile_elsewhere.hpp>
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
  flashsac::Options flash{.environment = kEnvironment, .policy = {1, 32}, .critic = {2, 48}};
  control::EnvironmentShape seen{33 * 37 * 3, std::vector<double>(2, -1), std::vector<double>(2, 1)};
  control::ImageEncoder encoder{.pixels = {33, 37, 3}, .filters = 8, .features = 12};
  drqv2::Options drq{.encoder = encoder, .environment = seen, .policy_sizes = {32}, .critic_sizes = {32}};
  d4pg::Options images{.environment = seen, .encoder = encoder, .policy_sizes = {32, 32}, .critic_sizes = {32, 32}};
  resnet::Options cifar = *resnet::of_depth(20);
  cifar.height = cifar.width = 32;
  cifar.classes = 10;
  return {
      agent<d4pg::Options>("D4pg", {.environment = kEnvironment}, d4pg::training),
      agent<td3::Options>("Td3", {.environment = kEnvironment}, td3::training),
      agent<sac::Options>("Sac", {.environment = kEnvironment}, sac::training),
      agent<dmpo::Options>("Dmpo", {.environment = kEnvironment}, dmpo::training),
      {"Flashsac", [=](InputFn input) { return flashsac::training(flash, std::move(input)); },
       flashsac::columns(flash)},
      {"Drqv2", [=](InputFn input) { return drqv2::training(drq, std::move(input)); }, drqv2::transitions(drq), 8},
      {"D4pgFromPixels", [=](InputFn input) { return d4pg::training(images, std::move(input)); },
       d4pg::batch_signature(images), 8},
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

TEST_P(ShippedStep, ReplicasInOneProgramFollowThoseOfTheProcessor) {
  need_cpu_plugin();
  if (IsSkipped()) return;
  const Shipped& of = GetParam();
  constexpr int kReplicas = 4;
  std::vector<Device> devices;
  for (int r = 0; r < kReplicas; ++r) devices.push_back({"pjrt:cpu", r});
  BatchSlot slot(of.signature);
  const auto replica = of.make(
      [&](const InputContext& context) -> Result<std::unique_ptr<InputPipeline>> { return slot.pipeline(context); });
  const DeviceReplicasOptions options{.replicas = kReplicas, .global_batch = of.batch, .compile = {.seed = 5}};
  auto expected = MultiDevice::make(*replica, options);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  DeviceReplicasOptions on_pjrt = options;
  on_pjrt.devices = devices;
  auto got = MultiDevice::make(*replica, on_pjrt);
  ASSERT_TRUE(got.ok()) << got.error().message;
  ASSERT_NE((*got)->steps_per_launch(), 0);
  Rng rng(2);
  for (int step = 0; step < 3; ++step) {
    BatchBuffer batch(of.signature, of.batch);
    fill(batch, rng, of.labels);
    for (MultiDevice* const each : {expected->get(), got->get()}) {
      slot.offer(batch.view()).value();
      const Status stepped = each->step();
      ASSERT_TRUE(stepped.ok()) << stepped.error().message;
    }
    for (const int r : {0, kReplicas - 1}) {
      const std::span<const double> want = (*expected)->program(r).metrics(), have = (*got)->program(r).metrics();
      for (std::size_t m = 0; m < want.size(); ++m) {
        EXPECT_NEAR(have[m], want[m], 2e-3 * (std::abs(want[m]) + 0.1))
            << (*expected)->program().metric_names()[m] << " of replica " << r << " in step " << step;
      }
    }
  }
}

/// The module of one of so many replicas that meet in it.
Result<HloModule> module_of_replicas(const Shipped& of, std::int64_t global_batch, int replicas) {
  BatchSlot slot(of.signature);
  auto replica = of.make(
      [&](const InputContext& context) -> Result<std::unique_ptr<InputPipeline>> { return slot.pipeline(context); });
  const std::int64_t rows = global_batch / replicas;
  const InputContext context{.replica_count = replicas, .replica_batch = rows, .global_batch = global_batch};
  TROUPE_ASSIGN(const auto input, replica->input_fn(context));
  collectives::InProcessHub hub;
  const auto group = hub.make();
  Graph graph(rows);
  ReplicaContext replica_context(graph, context, group.get());
  replica->step_fn(replica_context, StepInputs(graph, of.signature));
  return make_hlo_module(graph, {.phase = HloPhase::kUpdate, .replicas = replicas, .global_batch = global_batch});
}

/// What the compiler has left of an operation, which may have become asynchronous.
std::int64_t count_of(const std::string& text, const std::string& operation) {
  std::int64_t count = 0;
  for (const std::string& name : {operation, operation + "-start"}) {
    const std::size_t at = text.find("operation " + name + " ");
    if (at != std::string::npos) count += std::stoll(text.substr(at + name.size() + 11));
  }
  return count;
}

struct Elsewhere {
  std::string plugin, topology;
  int replicas = 1;
};

void expect_compiles(const Shipped& of, std::int64_t global_batch, const Elsewhere& on) {
  const auto module = module_of_replicas(of, global_batch, on.replicas);
  ASSERT_TRUE(module.ok()) << module.error().message;
  const pjrt::Outcome made = pjrt::compile_elsewhere(on.plugin, on.topology, module->text, on.replicas);
  ASSERT_TRUE(made.ok) << on.topology << ": " << made.text;
  EXPECT_THAT(made.text, HasSubstr(fmt::format("outputs {}\n", module->results.size())));
  if (on.replicas > 1) {
    EXPECT_GE(count_of(made.text, "all-reduce"), 1) << on.topology;
  }
}

TEST_P(ShippedStep, CompilesForTpus) {
  if (pjrt::fetched_plugin("tpu").empty()) GTEST_SKIP() << pjrt::no_plugin("tpu");
  expect_compiles(GetParam(), GetParam().batch, {"tpu", "v5e:1x1", 1});
}

/// An agent on states, one on pixels, and a GAN; or all others.
std::vector<Shipped> of_each_kind(bool others) {
  std::vector<Shipped> chosen = shipped();
  std::erase_if(chosen, [&](const Shipped& each) {
    const bool is_one = each.name == "D4pg" || each.name == "Drqv2" || each.name == "Sngan";
    return is_one == others;
  });
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(Pjrt, ShippedStep, testing::ValuesIn(of_each_kind(false)),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(SlowPjrt, ShippedStep, testing::ValuesIn(of_each_kind(true)),
                         [](const auto& info) { return info.param.name; });

Shipped named(std::string_view name) {
  const std::vector<Shipped> all = shipped();
  return *std::ranges::find(all, name, &Shipped::name);
}

TEST(ShippedModules, ReplicasMeetInProgramsForTpus) {
  if (pjrt::fetched_plugin("tpu").empty()) GTEST_SKIP() << pjrt::no_plugin("tpu");
  expect_compiles(named("D4pg"), 256, {"tpu", "v5e:2x2", 4});
}

TEST(SlowShippedModules, ReplicasMeetInProgramsForMoreTpus) {
  if (pjrt::fetched_plugin("tpu").empty()) GTEST_SKIP() << pjrt::no_plugin("tpu");
  expect_compiles(named("D4pg"), 256, {"tpu", "v5e:4x4", 16});
  expect_compiles(named("SnganResnet"), 64, {"tpu", "v5e:2x2", 4});  // batch norm over all of them
}

TEST(ShippedModules, ReplicasMeetInProgramsForGpus) {
  if (!pjrt::no_gpu_compiler().empty()) GTEST_SKIP() << pjrt::no_gpu_compiler();
  expect_compiles(named("D4pg"), 64, {"cuda", "h100:4", 4});
}

TEST(SlowShippedModules, ReplicasWithImagesMeetInProgramsForGpus) {
  if (!pjrt::no_gpu_compiler().empty()) GTEST_SKIP() << pjrt::no_gpu_compiler();
  for (const char* name : {"SnganResnet", "Drqv2"}) expect_compiles(named(name), 64, {"cuda", "h100:4", 4});
}

TEST(SlowShippedModules, Resnet50OfImagenetCompilesForEightTpus) {
  if (pjrt::fetched_plugin("tpu").empty()) GTEST_SKIP() << pjrt::no_plugin("tpu");
  resnet::Options options = *resnet::of_depth(50);
  options.height = options.width = 224;
  options.classes = 1000;
  const Shipped resnet50{"Resnet50", [=](InputFn input) { return resnet::training(options, std::move(input)); },
                         resnet::batch_signature(options)};
  expect_compiles(resnet50, 1024, {"tpu", "v5e:2x4", 8});
}

TEST(ShippedModules, D4pgInALoopCompilesForTpusAndLendsAllThatItKeeps) {
  if (pjrt::fetched_plugin("tpu").empty()) GTEST_SKIP() << pjrt::no_plugin("tpu");
  Graph graph(256);
  build(graph, shipped()[0]);
  auto module = make_hlo_module(graph, {.phase = HloPhase::kUpdate, .steps = 16});
  ASSERT_TRUE(module.ok()) << module.error().message;
  std::int64_t bytes = 0;
  for (const HloSlot& slot : module->arguments) bytes += slot.lends_to < 0 ? 0 : 4 * slot.type.shape.elements();
  const pjrt::Outcome made = pjrt::compile_elsewhere("tpu", "v6e:1x1", module->text);
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
  EXPECT_LT(make_hlo_module(step, {.phase = HloPhase::kUpdate})->text.size(), 200'000U);
  auto acting = make_hlo_module(act, {.phase = HloPhase::kAct});
  ASSERT_TRUE(acting.ok()) << acting.error().message;
  EXPECT_LT(acting->text.size(), 20'000U);
}

}  // namespace
}  // namespace troupe::learner
