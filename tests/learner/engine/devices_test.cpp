// One replica over several devices: placing stages changes no arithmetic, so everything here is compared bit for bit
// with the same graph on one device; a kernel that dawdles shakes the order in which devices get to things.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <thread>

#include <troupe/collectives/in_process.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/joint.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/norm.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kBatch = 6;

// ---- operations for tests: copies that take their time, or that wait for each other ----

Result<std::vector<ValueSpec>> same_as_input(std::span<const ValueSpec> in, const Attr&) {
  return std::vector<ValueSpec>{in[0]};
}
void copy_through(const KernelArgs& args) {
  std::memcpy(args.out[0].data, args.in[0].data, static_cast<std::size_t>(args.in[0].elements()) * sizeof(float));
}

KernelFn dawdle_kernel(const KernelTable&) {
  return [](const KernelArgs& args) {  // attr integer[0]: microseconds
    std::this_thread::sleep_for(std::chrono::microseconds(args.attr->integer[0]));
    copy_through(args);
  };
}
std::vector<Var> dawdle_vjp(const VjpArgs& args);
constexpr OpDef kDawdle{.name = "dawdle", .infer = same_as_input, .kernel = dawdle_kernel, .vjp = dawdle_vjp};
Var dawdle(Var x, std::int64_t microseconds) { return x.graph->emit1(kDawdle, {x}, {.integer = {microseconds}}); }
std::vector<Var> dawdle_vjp(const VjpArgs& args) { return {dawdle(args.out_grads[0], args.attr.integer[0])}; }

std::atomic<int> g_met{0};
KernelFn meet_kernel(const KernelTable&) {
  return [](const KernelArgs& args) {  // attr integer[0]: how many must be here; waits 10 s for them
    ++g_met;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (g_met < args.attr->integer[0] && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    copy_through(args);
  };
}
constexpr OpDef kMeet{.name = "meet", .infer = same_as_input, .kernel = meet_kernel};

std::unique_ptr<Program> compile(const Graph& graph, const CompileOptions& options) {
  auto program = Program::compile(graph, options);
  EXPECT_TRUE(program.ok()) << program.error().message;
  return std::move(program).value();
}

/// Bytes of everything that a program shows after a step, by name.
std::map<std::string, std::vector<float>> everything(Program& program, std::span<const std::string> outputs) {
  std::map<std::string, std::vector<float>> all;
  const auto keep = [&](const std::string& name, auto values) { all[name].assign(values.begin(), values.end()); };
  for (std::size_t i = 0; i < program.group_count(); ++i) {
    ParamBuffer& group = program.group(i);
    keep(fmt::format("params {}", group.layout().group), group.values());
    for (std::size_t slot = 0; slot < group.slots().size(); ++slot) {
      keep(fmt::format("{} {}", group.slots()[slot], group.layout().group), group.slot(slot));
    }
    keep(fmt::format("gradient {}", group.layout().group), program.gradient(group.layout().group));
  }
  keep("state", program.state().values());
  keep("metrics", program.metrics());
  for (const std::string& name : outputs) keep(fmt::format("output {}", name), program.output(name));
  return all;
}

void expect_same_bits(const std::map<std::string, std::vector<float>>& got,
                      const std::map<std::string, std::vector<float>>& expected, const std::string& where) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, values] : expected) {
    const std::vector<float>& other = got.at(name);
    ASSERT_EQ(other.size(), values.size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(std::memcmp(&other[i], &values[i], sizeof(float)), 0)
          << where << ": " << name << "[" << i << "] is " << other[i] << ", expected " << values[i];
    }
  }
}

std::vector<float> normal(std::uint64_t seed, std::size_t size) {
  Rng rng(seed);
  std::vector<float> values(size);
  for (float& x : values) x = static_cast<float>(rng.normal());
  return values;
}

// ---- random graphs ----

/// Builds a random step whose arithmetic depends on the seed only; nodes go to random devices of `devices`.
class RandomStep {
 public:
  explicit RandomStep(std::uint64_t seed) : rng_(seed), places_(seed + 1), graph(kBatch) { build(); }

  std::vector<std::string> outputs;
  std::vector<int> functions_run;  ///< by the joints, in the order in which they ran

 private:
  Rng rng_, places_;

 public:
  Graph graph;

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(rng_.below(n)); }

  /// A value of the shape [kBatch, n]: one that is there, or made to fit.
  Var pick(std::int64_t n) {
    std::vector<Var> fitting;
    for (const Var value : values_) {
      if (graph.spec(value).shape[1] == n) fitting.push_back(value);
    }
    if (!fitting.empty()) return fitting[below(fitting.size())];
    const Var any = values_[below(values_.size())];
    return matmul(any, weight(graph.spec(any).shape[1], n));
  }
  Var weight(std::int64_t rows, std::int64_t cols) {
    // Often a weight that is there already, so that gradients of several devices are added.
    const std::string name = fmt::format("w{}_{}x{}", below(3), rows, cols);
    return graph.param(net_, name, {rows, cols}, Init::normal(0.5));
  }
  Var vector(const char* kind, std::int64_t n) {
    return graph.param(net_, fmt::format("{}{}_{}", kind, below(2), n), {n}, Init::normal(0.5));
  }
  JointFn function() {
    const int id = next_function_++;
    return [this, id](const JointArgs& args) -> Status {
      functions_run.push_back(id);  // a race unless joints run one after the other
      for (std::size_t i = 0; i < args.in.size(); ++i) args.out[i] = 0.75F * args.in[i];
      return {};
    };
  }

  Var random_node() {
    const Var any = values_[below(values_.size())];
    const std::int64_t n = graph.spec(any).shape[1];
    switch (below(14)) {
      case 0:
        return add(any, pick(n));
      case 1:
        return mul(any, pick(n));
      case 2:
        return affine(any, -0.7, 0.2);
      case 3:
        return tanh(any);  // may overwrite its input
      case 4:
        return relu(any);
      case 5:
        return linear(any, weight(n, 5), vector("bias", 5), Activation::kElu);
      case 6:
        return matmul(any, weight(n, 3));
      case 7:
        return layer_norm(any, vector("bias", n), vector("gain", n), vector("offset", n), Activation::kTanh);
      case 8:
        return tanh(concat(any, pick(3)));
      case 9:
        return n > 1 ? slice(any, 1, n) : softmax(any);
      case 10:
        return reshape(reshape(any, {kBatch * n, 1}), {kBatch, n});
      case 11:
        return dawdle(any, static_cast<std::int64_t>(below(150)));
      case 12:
        return joint(any, function(), function());
      default:
        return bias_activation(any, vector("bias", n), Activation::kTanh);
    }
  }

  void build() {
    net_ = graph.group("net");
    const Var x = graph.input("x", {4});
    values_ = {x, tanh(x)};
    const Var average = graph.state("average", {}, Init::constant(1));
    for (int i = 0; i < 30; ++i) {
      const DeviceScope on(graph, static_cast<int>(places_.below(4)));
      values_.push_back(random_node());
      if (below(6) == 0) {
        outputs.push_back(fmt::format("v{}", i));
        graph.output(outputs.back(), values_.back());
      }
    }
    Var loss = mean(square(tanh(matmul(x, weight(4, 3)))));
    for (int i = 0; i < 4; ++i) {
      const DeviceScope on(graph, static_cast<int>(places_.below(4)));
      loss = add(loss, mean(square(tanh(values_[values_.size() - 1 - below(8)]))));
    }
    graph.metric("loss", loss);
    {
      const DeviceScope on(graph, static_cast<int>(places_.below(4)));
      graph.assign(average, add(scale(average, 0.9), scale(sum_stripes(loss), 0.1)));
    }
    graph.output("dx", graph.gradients(loss, std::array{x})[0]);
    outputs.push_back("dx");
    graph.target(net_, 2);
    graph.minimize(loss, net_, {.rule = Adam{.learning_rate = 0.01}, .max_global_norm = 0.5});
  }

  ParamGroup net_;
  std::vector<Var> values_;
  int next_function_ = 0;
};

struct SplitGraph {
  int threads, devices;
};

/// Compares what programs split so come to over several steps with one device and as many stripes.
void compare_random_steps(std::uint64_t first_seed, std::uint64_t count, DType compute, int stripes,
                          std::initializer_list<SplitGraph> splits) {
  for (std::uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    RandomStep step(seed);
    const auto run = [&](Program& program, std::uint64_t round) {
      const std::vector<float> x = normal(seed * 10 + round, kBatch * 4);
      step.functions_run.clear();
      program.bind("x", std::span<const float>(x)).value();
      program.run(Phase::kGradients).value();
      auto all = everything(program, step.outputs);
      program.run(Phase::kUpdate).value();
      program.run().value();
      for (auto& [name, values] : everything(program, step.outputs)) all[fmt::format("{} after", name)] = values;
      for (const int function : step.functions_run) all["functions"].push_back(static_cast<float>(function));
      return all;
    };
    std::vector<std::map<std::string, std::vector<float>>> expected;
    auto one = compile(step.graph, {.stripes = stripes, .compute = compute, .seed = seed});
    ASSERT_EQ(one->devices(), 1);
    for (std::uint64_t round = 0; round < 3; ++round) {
      expected.push_back(run(*one, round));
      ASSERT_TRUE(std::isfinite(one->metrics()[0]));
    }
    for (const SplitGraph split : splits) {
      auto program = compile(
          step.graph,
          {.stripes = stripes, .threads = split.threads, .devices = split.devices, .compute = compute, .seed = seed});
      ASSERT_EQ(program->devices(), split.devices);
      for (std::uint64_t round = 0; round < 3; ++round) {
        const std::string where = fmt::format("seed {}, {} stripes, {} threads, {} devices, round {}", seed, stripes,
                                              split.threads, split.devices, round);
        ASSERT_NO_FATAL_FAILURE(expect_same_bits(run(*program, round), expected[round], where));
      }
    }
  }
}

TEST(Devices, RandomGraphsOnRandomDevicesGiveTheBitsOfOneDevice) {
  compare_random_steps(100, 12, DType::kF32, 1, {{1, 2}, {1, 3}, {1, 4}});
}

TEST(Devices, TheyDoSoInStripes) { compare_random_steps(300, 5, DType::kF32, 3, {{1, 2}, {2, 2}, {3, 4}}); }

TEST(Devices, TheyDoSoInBfloat16) { compare_random_steps(500, 3, DType::kBF16, 1, {{1, 2}, {1, 4}}); }

// ---- single properties ----

TEST(Devices, BranchesRunAtTheSameTime) {
  Graph graph(kBatch);
  const Var x = graph.input("x", {2});
  for (int device = 0; device < 3; ++device) {
    const DeviceScope on(graph, device);
    graph.output(fmt::format("y{}", device), graph.emit1(kMeet, {scale(x, device + 1)}, {.integer = {3}}));
  }
  auto program = compile(graph, {.devices = 3});
  g_met = 0;
  const std::vector<float> data(kBatch * 2, 1);
  program->bind("x", std::span<const float>(data)).value();
  const auto begin = std::chrono::steady_clock::now();
  program->run().value();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(9)) << "a branch waited for another's end";
  EXPECT_THAT(program->output("y2"), testing::Each(3.0F));
}

TEST(Devices, AValueThatAnotherDeviceStillReadsIsNotOverwritten) {
  Graph graph(kBatch);
  const Var x = graph.input("x", {64});
  const Var h = affine(x, 2);  // on device 0, read late by device 1
  Var late;
  {
    const DeviceScope on(graph, 1);
    const Var wait = dawdle(x, 3000);
    late = add(wait, h);
  }
  Var chain = tanh(h);  // could take h's place, and what follows could reuse it
  for (int i = 0; i < 10; ++i) chain = affine(tanh(chain), 1.5, 0.25);
  graph.output("chain", chain);
  graph.output("late", late);
  auto two = compile(graph, {.devices = 2}), one = compile(graph, {});
  const std::vector<float> data = normal(3, kBatch * 64);
  for (auto* program : {two.get(), one.get()}) {
    program->bind("x", std::span<const float>(data)).value();
    program->run().value();
  }
  const std::vector<std::string> names{"chain", "late"};
  expect_same_bits(everything(*two, names), everything(*one, names), "two devices");
  EXPECT_GT(two->arena_bytes(), one->arena_bytes()) << "regions of devices do not overlap";
}

TEST(Devices, AreNoMoreThanTheGraphNames) {
  Graph graph(kBatch);
  Var y = graph.input("x", {2});
  for (int device = 0; device < 3; ++device) {
    const DeviceScope on(graph, device);
    y = tanh(y);
  }
  graph.output("y", y);
  EXPECT_EQ(compile(graph, {.devices = 8})->devices(), 3);
  EXPECT_EQ(compile(graph, {.devices = 2})->devices(), 2) << "taken modulo the devices there are";
  EXPECT_EQ(compile(graph, {})->devices(), 1);
  EXPECT_THAT(Program::compile(graph, {.devices = 0}).error().message, HasSubstr("0 devices"));
}

TEST(Devices, AnErrorInAJointStopsAllAndChangesNothing) {
  for (const int failing : {0, 1, 2}) {
    Graph graph(kBatch);
    const ParamGroup net = graph.group("net");
    Var h = graph.input("x", {3}), side = h;
    bool fail = false;
    std::vector<int> ran;
    for (int device = 0; device < 3; ++device) {
      const DeviceScope on(graph, device);
      h = linear(h, graph.param(net, fmt::format("w{}", device), {3, 3}, Init::normal(1)),
                 graph.param(net, fmt::format("b{}", device), {3}, {}), Activation::kTanh);
      side = dawdle(side, 200);
      const JointFn function = [&, device](const JointArgs& args) -> Status {
        ran.push_back(device);
        std::ranges::copy(args.in, args.out.begin());
        if (fail && device == failing) return Error{Code::kUnavailable, "peer 3 is gone"};
        return {};
      };
      h = joint(h, function, function);
    }
    const Var loss = mean(square(add(h, side)));
    graph.minimize(loss, net, {.rule = Sgd{.learning_rate = 0.1, .momentum = 0.9}});
    auto program = compile(graph, {.devices = 3});
    const std::vector<float> data = normal(1, kBatch * 3);
    program->bind("x", std::span<const float>(data)).value();
    program->run().value();
    EXPECT_THAT(ran, testing::ElementsAre(0, 1, 2, 2, 1, 0));
    const auto before = everything(*program, {});
    for (int repeat = 0; repeat < 20; ++repeat) {
      fail = true;
      ran.clear();
      const Status status = program->run();
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().message, "peer 3 is gone");
      EXPECT_EQ(ran.size(), static_cast<std::size_t>(failing) + 1) << "no later joint may run";
      EXPECT_EQ(program->step(), 1);
      auto after = everything(*program, {});
      after["gradient net"] = before.at("gradient net");  // says what the failed run came to
      expect_same_bits(after, before, "after a failed step");
    }
    fail = false;
    EXPECT_TRUE(program->run().ok());
    EXPECT_EQ(program->step(), 2);
  }
}

TEST(Devices, AReportSaysWhatEachDeviceDidAndHowLongItWaited) {
  Graph graph(kBatch);
  Var y = dawdle(graph.input("x", {2}), 2000);
  {
    const DeviceScope on(graph, 1);
    y = tanh(y);
  }
  graph.output("y", y);
  auto program = compile(graph, {.devices = 2});
  const std::vector<float> data(kBatch * 2, 1);
  program->bind("x", std::span<const float>(data)).value();
  program->set_timing(true);
  program->run().value();
  const std::string report = program->report();
  const std::string second = report.substr(report.find("device 1"));
  EXPECT_THAT(report, testing::StartsWith("device 0\ndawdle"));
  EXPECT_THAT(second, testing::AllOf(HasSubstr("(waiting for devices)"), HasSubstr("activation"),
                                     testing::Not(HasSubstr("dawdle"))));
}

/// Parameters of two replicas, each over several devices, that meet in collectives on all of these.
std::vector<std::vector<float>> train_pair(int devices, std::int64_t bucket_bytes) {
  collectives::InProcessHub hub;
  std::vector<std::vector<float>> params(2);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = hub.join({1, rank, 2}, std::chrono::seconds(20)).value();
      Graph graph(kBatch);
      const InputContext input{.replica_id = rank,
                               .replica_count = 2,
                               .replica_batch = kBatch,
                               .global_batch = 2 * kBatch,
                               .devices = devices};
      ReplicaContext context(graph, input, communicator.get());
      const ParamGroup net = graph.group("net");
      Var h = graph.input("x", {4}), loss = mean(square(h));
      for (int device = 0; device < 3; ++device) {
        const auto on = context.device(device);
        h = linear(h, graph.param(net, fmt::format("w{}", device), {4, 4}, Init::normal(0.5)),
                   graph.param(net, fmt::format("b{}", device), {4}, {}), Activation::kTanh);
        const Var here = dawdle(h, 100 * (2 - device));  // early ones late
        const Var average = context.all_mean(mean(square(here)));
        loss = add(loss, mul(average, context.all_sum(mean(here))));
      }
      graph.minimize(loss, net, context.wrap_optimizer({.rule = Adam{.learning_rate = 0.01}}));
      auto program = compile(graph, {.devices = devices, .bucket_bytes = bucket_bytes});
      const std::vector<float> x = normal(static_cast<std::uint64_t>(rank), kBatch * 4);
      program->bind("x", std::span<const float>(x)).value();
      for (int step = 0; step < 5; ++step) program->run().value();
      const auto values = program->params("net")->values();
      params[static_cast<std::size_t>(rank)].assign(values.begin(), values.end());
    });
  }
  threads.clear();
  return params;
}

TEST(Devices, ReplicasThatMeetFromSeveralDevicesKeepTheOrderOfTheirCollectives) {
  for (const std::int64_t bucket_bytes : {1 << 20, 64}) {  // all gradients at once, or layer by layer while others run
    const auto one = train_pair(1, bucket_bytes);
    EXPECT_EQ(one[0], one[1]);
    for (const int devices : {2, 3}) EXPECT_EQ(train_pair(devices, bucket_bytes), one) << devices << " devices";
  }
}

TEST(Devices, AReplicaIsToldHowManyAndPlacesItsStages) {
  Graph graph(kBatch);
  ReplicaContext context(graph, {.replica_batch = kBatch, .global_batch = kBatch, .devices = 2}, nullptr);
  EXPECT_EQ(context.devices(), 2);
  {
    const auto on = context.device(1);
    EXPECT_EQ(graph.device(), 1);
    graph.output("y", tanh(graph.input("x", {2})));
  }
  EXPECT_EQ(graph.device(), 0);
  EXPECT_EQ(compile(graph, {.devices = context.devices()})->devices(), 2);
}

}  // namespace
}  // namespace troupe::learner
