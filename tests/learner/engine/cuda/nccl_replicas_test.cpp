// Replicas on GPUs whose gradients and collectives meet by NCCL: emulated GPUs (tests/gpu/emulator) under a simulated
// NCCL (tests/collectives/simulated_nccl), which takes device memory of the right GPU and nothing else. Against the
// same replicas through the host, and against one replica on the whole batch; and what happens where NCCL cannot be
// had.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>

#include <troupe/tests/gpu/emulator/emulator.h>
#include <troupe/collectives/group_communicator.hpp>
#include <troupe/collectives/in_process.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/learner/replicate/device_replicas.hpp>
#include <troupe/learner/replicate/multi_worker.hpp>
#include <troupe/tests/collectives/memory_peers.hpp>
#include <troupe/tests/collectives/simulated_nccl/simulated_nccl.hpp>
#include <troupe/tests/learner/models.hpp>

namespace troupe::learner {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
namespace simulated_nccl = collectives::simulated_nccl;

// Sums in another order, over a dozen steps of values around 1, which Adam passes on undamped where a gradient is
// small.
constexpr double kTolerance = 1e-4;
constexpr std::int64_t kRows = 14;
const Signature kSignature = {{"x", DType::kF32, Shape{6}}, {"y", DType::kF32, Shape{2}}};

const TroupeEmulator& emulator() { return *troupe_cuda_emulator(); }

/// Step s's global batch is the same however many share it. `lengths` cuts replicas' shares, and in step `broken`
/// replica 1 has a value that is not a number.
class Rows final : public InputPipeline {
 public:
  Rows(const InputContext& context, std::vector<std::int64_t> lengths, std::int64_t broken)
      : context_(context), broken_(broken), step_(context.first_step), batch_(kSignature, context.replica_batch) {
    first_ = context.global_batch * context.replica_id / context.replica_count;
    rows_ = lengths.empty() ? context.replica_batch : lengths[static_cast<std::size_t>(context.replica_id)];
  }
  const Signature& signature() const override { return kSignature; }
  Result<BatchView> next() override {
    const MutableBatchView& to = batch_.mutable_view();
    for (std::size_t column = 0; column < 2; ++column) {
      const auto width = static_cast<std::size_t>(kSignature[column].shape.elements());
      for (std::int64_t row = 0; row < context_.replica_batch; ++row) {
        const auto number = static_cast<std::uint64_t>(step_ * context_.global_batch + first_ + row);
        Rng rng(derive_seed(7 + column, "row", number));
        for (std::size_t i = 0; i < width; ++i) {
          to.as<float>(column)[static_cast<std::size_t>(row) * width + i] = static_cast<float>(rng.uniform() - 0.5);
        }
      }
    }
    if (step_ == broken_ && context_.replica_id == 1) to.as<float>(0)[3] = std::numeric_limits<float>::quiet_NaN();
    ++step_;
    return batch_.view().slice(0, rows_);
  }

 private:
  const InputContext context_;
  const std::int64_t broken_;
  std::int64_t step_, first_ = 0, rows_ = 0;
  BatchBuffer batch_;
};

/// A step with collectives that a GPU's memory takes and two optimisers. `counts`: also with some whose result depends
/// on how many replicas there are, of which one meets on the host.
class Net : public Replica {
 public:
  explicit Net(bool counts, std::vector<std::int64_t> lengths = {}, std::int64_t broken = -1)
      : counts_(counts), lengths_(std::move(lengths)), broken_(broken) {}
  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override {
    return {std::make_unique<Rows>(context, lengths_, broken_)};
  }
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    Graph& graph = context.graph();
    const ParamGroup first = graph.group("first"), second = graph.group("second");
    const Var hidden = linear(inputs["x"], graph.param(first, "w", Shape{6, 9}, Init::uniform(0.5)),
                              graph.param(first, "b", Shape{9}, Init::constant(0)), Activation::kTanh);
    const Var out = linear(hidden, graph.param(second, "w", Shape{9, 2}, Init::uniform(0.5)),
                           graph.param(second, "b", Shape{2}, Init::constant(0)), Activation::kNone);
    Var loss = mean(square(sub(out, inputs["y"])));
    const Var shared = graph.param(second, "shared", Shape{5}, Init::uniform(0.5));
    const auto add_square = [&](Var x, double factor) { loss = add(loss, scale(sum(square(x)), factor)); };
    add_square(context.all_mean(mean(hidden), "centre"), 0.5);
    add_square(context.all_sum(sum(square(hidden)), "total"), 1e-4);
    add_square(context.broadcast(shared, 0, "sent"), 0.02);
    if (counts_) {
      add_square(context.all_reduce(mean(square(hidden)), collectives::ReduceOp::kMax, "most"), 0.1);
      add_square(context.all_gather(shared, "all"), 0.05);
    }
    graph.metric("loss", loss);
    graph.minimize(loss, first, context.wrap_optimizer({.rule = Adam{.learning_rate = 1e-2}, .max_global_norm = 0.5}));
    graph.minimize(loss, second, context.wrap_optimizer({.rule = Sgd{.learning_rate = 0.05, .momentum = 0.9}}));
  }

 private:
  const bool counts_;
  const std::vector<std::int64_t> lengths_;
  const std::int64_t broken_;
};

/// A step with the collectives that give a replica others' values, or parts of a whole: for shares of equal size.
class Crossing : public Replica {
 public:
  explicit Crossing(std::vector<std::int64_t> lengths = {}) : lengths_(std::move(lengths)) {}
  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override {
    return {std::make_unique<Rows>(context, lengths_, -1)};
  }
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    using collectives::ReduceOp;
    Graph& graph = context.graph();
    const ParamGroup group = graph.group("net");
    const Var hidden = linear(inputs["x"], graph.param(group, "w", Shape{6, 4}, Init::uniform(0.5)),
                              graph.param(group, "b", Shape{4}, Init::constant(0)), Activation::kTanh);
    Var loss = mean(square(hidden));
    const auto add_square = [&](Var x, double factor) { loss = add(loss, scale(sum(square(x)), factor)); };
    add_square(context.all_gather(hidden, "rows"), 0.1);
    const Var parts =
        graph.param(group, "parts", Shape{std::int64_t{context.input().replica_count}, 5}, Init::uniform(0.5));
    const Var weighted = mul(parts, mean(square(hidden)));
    add_square(context.reduce_scatter(weighted, ReduceOp::kSum, "sums"), 0.3);
    add_square(context.reduce_scatter(weighted, ReduceOp::kMean, "means"), 0.2);
    const Var shared = graph.param(group, "shared", Shape{5}, Init::uniform(0.5));
    const std::vector<Var> items{shared, scale(shared, 2), scale(shared, -3)};
    add_square(context.map_gather(
                   items, [](Var x) { return square(x); }, "mapped"),
               0.01);
    add_square(context.map_reduce(
                   items, [](Var x) { return scale(x, 0.5); }, ReduceOp::kMax, "most"),
               0.05);
    graph.metric("loss", loss);
    graph.minimize(loss, group, context.wrap_optimizer({.rule = Sgd{.learning_rate = 0.05, .momentum = 0.9}}));
  }

 private:
  const std::vector<std::int64_t> lengths_;
};

class NcclReplicas : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("TROUPE_PLUGIN_PATH", EMULATED_PLUGINS, 1); }
  void SetUp() override {
    setenv("TROUPE_PLUGIN_PATH", EMULATED_PLUGINS, 1);
    emulator().reset();
    emulator().set_devices(4);
    simulated_nccl::reset();
    before_ = emulator().alive();
  }
  void TearDown() override {
    EXPECT_EQ(emulator().alive(), before_) << "left behind on a device";
    const simulated_nccl::Counts left = simulated_nccl::counts();
    EXPECT_EQ(left.communicators, 0);
    EXPECT_EQ(left.streams, 0);
    EXPECT_EQ(left.events, 0);
    EXPECT_EQ(left.foreign_calls, 0);
    EXPECT_EQ(left.misuses, 0) << "such as a buffer that is not in the device's memory";
  }

 private:
  std::int64_t before_ = 0;
};

// ---- one process ----

DeviceReplicasOptions on_gpus(int replicas,
                              std::vector<Device> devices = {gpu_device(0), gpu_device(1), gpu_device(2)}) {
  devices.resize(std::min(devices.size(), static_cast<std::size_t>(replicas)));
  return {.replicas = replicas, .global_batch = kRows, .compile = {.seed = 3}, .devices = std::move(devices)};
}

/// Each replica's state after some steps.
std::vector<State> train_devices(Replica& replica, const DeviceReplicasOptions& options, int steps) {
  const auto devices = MultiDevice::make(replica, options).value();
  for (int step = 0; step < steps; ++step) {
    const Status taken = devices->step();
    EXPECT_TRUE(taken.ok()) << taken.error().message;
  }
  EXPECT_EQ(devices->program().step(), steps);
  std::vector<State> states;
  for (int r = 0; r < devices->replicas(); ++r) states.push_back(state_of(devices->program(r)));
  return states;
}

TEST_F(NcclReplicas, MultiDeviceGivesWhatTheHostGives) {
  constexpr int kSteps = 8;
  for (const int replicas : {2, 3}) {  // 3 replicas have 4, 5 and 5 rows
    Net replica(true);
    DeviceReplicasOptions options = on_gpus(replicas);
    const int before = simulated_nccl::collectives();
    const std::vector<State> by_nccl = train_devices(replica, options, kSteps);
    // Of the step's five all but the maximum, on both ways; two groups' gradients.
    EXPECT_EQ(simulated_nccl::collectives() - before, (4 + 4 + 2) * kSteps);
    options.reduce = collectives::InProcessAlgorithm::kReductionToOne;
    const int after = simulated_nccl::collectives();
    const std::vector<State> by_host = train_devices(replica, options, kSteps);
    EXPECT_EQ(simulated_nccl::collectives(), after);
    options.devices = {};
    const std::vector<State> on_cpu = train_devices(replica, options, kSteps);
    for (const State& each : by_nccl) {
      EXPECT_EQ(each, by_nccl[0]) << "the same bits on all";
      EXPECT_LT(largest_difference(each, by_host[0]), kTolerance);
      EXPECT_LT(largest_difference(each, on_cpu[0]), kTolerance);
    }
  }
}

TEST_F(NcclReplicas, WhatGathersAndScattersStaysOnTheGpusToo) {
  constexpr int kSteps = 6;
  for (const auto& lengths : {std::vector<std::int64_t>{}, {7, 7}, {7, 2}, {0, 7}}) {
    Crossing replica(lengths);
    DeviceReplicasOptions options = on_gpus(2);
    const int before = simulated_nccl::collectives();
    const std::vector<State> by_nccl = train_devices(replica, options, kSteps);
    // Four on both ways, and the group's gradients. The reduced map is the host's.
    EXPECT_EQ(simulated_nccl::collectives() - before, (4 + 4 + 1) * kSteps);
    options.reduce = collectives::InProcessAlgorithm::kReductionToOne;
    const std::vector<State> by_host = train_devices(replica, options, kSteps);
    options.devices = {};
    const std::vector<State> on_cpu = train_devices(replica, options, kSteps);
    EXPECT_EQ(by_nccl[0], by_nccl[1]);
    EXPECT_LT(largest_difference(by_nccl[0], by_host[0]), kTolerance);
    EXPECT_LT(largest_difference(by_nccl[0], on_cpu[0]), kTolerance);
  }
}

TEST_F(NcclReplicas, ShortAndMissingBatchesHaveTheirWeight) {
  for (const auto& lengths : {std::vector<std::int64_t>{7, 2}, {7, 0}, {1, 7}}) {
    Net replica(true, lengths);
    DeviceReplicasOptions options = on_gpus(2);
    const std::vector<State> by_nccl = train_devices(replica, options, 4);
    options.devices = {};
    const std::vector<State> on_cpu = train_devices(replica, options, 4);
    EXPECT_EQ(by_nccl[0], by_nccl[1]);
    EXPECT_LT(largest_difference(by_nccl[0], on_cpu[0]), kTolerance) << lengths[0] << " and " << lengths[1] << " rows";
  }
}

TEST_F(NcclReplicas, AStepThatOneReplicaBreaksIsSkippedByAll) {
  Net replica(true, {}, 2);
  const auto devices = MultiDevice::make(replica, on_gpus(2)).value();
  for (int step = 0; step < 2; ++step) devices->step().value();
  const State before = state_of(devices->program(0));
  devices->step().value();
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(devices->program(r).skipped(), 1) << r;
    EXPECT_EQ(state_of(devices->program(r)), before) << r;
  }
  devices->step().value();
  EXPECT_EQ(state_of(devices->program(0)), state_of(devices->program(1)));
  EXPECT_EQ(devices->program(1).step(), 3);
}

/// A parameter that replicas do not share, whose gradient may be infinite in one of them alone.
class WithItsOwn final : public Net {
 public:
  WithItsOwn() : Net(true) {}
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    Net::step_fn(context, inputs);
    Graph& graph = context.graph();
    const ParamGroup group = graph.group("own");
    const Var own = graph.param(group, "own", Shape{6, 1}, Init::uniform(1));
    const Var shared = graph.param(group, "shared", Shape{6, 1}, Init::uniform(1));
    context.set_policy(own, VariablePolicy::kLocal);
    const Var of_own = mean(square(matmul(inputs["x"], own))), of_shared = mean(square(matmul(inputs["x"], shared)));
    graph.minimize(add(of_own, of_shared), group, context.wrap_optimizer({.rule = Sgd{.learning_rate = 0.01}}));
  }
};

TEST_F(NcclReplicas, AnInfiniteGradientOfOnesOwnIsSkippedByAll) {
  WithItsOwn replica;
  const auto devices = MultiDevice::make(replica, on_gpus(2)).value();
  devices->step().value();
  devices->program(1).fetch().value();
  ParamBuffer& own = *devices->program(1).params("own");
  own.tensor(own.layout().entries[0])[0] = std::numeric_limits<float>::infinity();
  devices->program(1).parameters_changed();
  devices->step().value();
  for (int r = 0; r < 2; ++r) EXPECT_EQ(devices->program(r).skipped(), 1) << r;
}

TEST_F(NcclReplicas, ReplicasThatShareAGpuMeetOnTheHost) {
  Net replica(true);
  const std::vector<State> shared = train_devices(replica, on_gpus(2, {gpu_device(0)}), 3);
  EXPECT_EQ(simulated_nccl::collectives(), 0);
  EXPECT_LT(largest_difference(shared[0], train_devices(replica, on_gpus(2), 3)[0]), kTolerance);
  EXPECT_GT(simulated_nccl::collectives(), 0);
}

TEST_F(NcclReplicas, WithoutNcclTheyMeetOnTheHost) {
  Net replica(true);
  const State expected = train_devices(replica, on_gpus(2), 3)[0];
  const int before = simulated_nccl::collectives();
  simulated_nccl::refuse_next_init(1);  // it is there, but does not work
  EXPECT_LT(largest_difference(train_devices(replica, on_gpus(2), 3)[1], expected), kTolerance);
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "no_nccl";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "libnccl.so.2") << "no library";
  setenv("TROUPE_PLUGIN_PATH", folder.c_str(), 1);  // plug-ins are open already
  EXPECT_LT(largest_difference(train_devices(replica, on_gpus(2), 3)[1], expected), kTolerance);
  EXPECT_EQ(simulated_nccl::collectives(), before);
}

TEST_F(NcclReplicas, AnInterfaceThatIsNotThereIsOneError) {
  Net replica(true);
  DeviceReplicasOptions options = on_gpus(2);
  options.nccl_interface = "nowhere0";
  const auto made = MultiDevice::make(replica, options);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Code::kInvalidArgument);
  EXPECT_THAT(made.error().message, HasSubstr("nccl: interface is \"nowhere0\", expected one of this host's: "));
  EXPECT_THAT(made.error().message, HasSubstr("lo"));
}

// ---- a group ----

struct Worker {
  Worker(std::unique_ptr<collectives::Communicator> made, int gpu, DType wire = DType::kF32,
         const std::string& interface = {})
      : communicator(std::move(made)),
        group(MultiWorker::make(replica, {.global_batch = kRows,
                                          .wire = wire,
                                          .compile = {.device = gpu_device(gpu), .seed = 3},
                                          .communicator = communicator.get(),
                                          .nccl_interface = interface})
                  .value()) {}
  Net replica{false};
  std::unique_ptr<collectives::Communicator> communicator;
  std::unique_ptr<MultiWorker> group;
};

/// Members that live on threads of their own, as roles do, and take orders: NCCL's ranks belong to their threads.
class Members {
 public:
  ~Members() {
    run([](std::size_t, Worker&) {});
    for (std::size_t i = 0; i < workers_.size(); ++i) forget(i);
  }
  /// make() on its own thread.
  void add(const std::function<std::unique_ptr<Worker>()>& make) {
    workers_.emplace_back();
    threads_.push_back(std::make_unique<OneThread>());
    threads_.back()->begin([&, i = workers_.size() - 1] { workers_[i] = make(); });
    threads_.back()->wait();
  }
  void forget(std::size_t i) {
    threads_[i]->begin([&] { workers_[i].reset(); });
    threads_[i]->wait();
  }
  /// body(i, worker) of those that are there, all at once.
  void run(const std::function<void(std::size_t, Worker&)>& body) {
    begin(body);
    wait();
  }
  void begin(std::function<void(std::size_t, Worker&)> body) {
    body_ = std::move(body);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i]) threads_[i]->begin([this, i] { body_(i, *workers_[i]); });
    }
  }
  void wait() {
    for (const auto& thread : threads_) thread->wait();
  }
  Worker& operator[](std::size_t i) { return *workers_[i]; }
  /// All of those that are there join an epoch. How that went, by worker.
  std::vector<Status> reform(std::uint64_t epoch, const std::vector<collectives::Member>& names = {},
                             Duration timeout = 20s) {
    std::vector<std::size_t> present;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i]) present.push_back(i);
    }
    std::vector<Status> joined(workers_.size());
    run([&](std::size_t i, Worker& worker) {
      const auto rank = std::ranges::find(present, i) - present.begin();
      joined[i] =
          worker.group->reform({epoch, static_cast<int>(rank), static_cast<int>(present.size()), names}, timeout);
    });
    return joined;
  }
  void join(std::uint64_t epoch, const std::vector<collectives::Member>& names = {}) {
    for (const Status& status : reform(epoch, names)) EXPECT_TRUE(status.ok()) << status.error().message;
  }
  void step(int steps) {
    run([steps](std::size_t i, Worker& worker) {
      for (int step = 0; step < steps; ++step) {
        const Status taken = worker.group->step();
        EXPECT_TRUE(taken.ok()) << i << ": " << taken.error().message;
      }
    });
  }

 private:
  /// A thread that does one thing at a time.
  class OneThread {
   public:
    ~OneThread() {
      begin(nullptr);
      thread_.join();
    }
    void begin(std::function<void()> job) {
      const std::lock_guard lock(mutex_);
      job_ = std::move(job);
      busy_ = true;
      changed_.notify_all();
    }
    void wait() {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !busy_; });
    }

   private:
    void work() {
      for (;;) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return busy_; });
        const std::function<void()> job = job_;
        lock.unlock();
        if (!job) return;
        job();
        lock.lock();
        busy_ = false;
        changed_.notify_all();
      }
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<void()> job_;
    bool busy_ = false;
    std::thread thread_{[this] { work(); }};
  };

  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<OneThread>> threads_;
  std::function<void(std::size_t, Worker&)> body_;
};

/// Of one replica on the processor after so many steps.
State alone(int steps) {
  Net replica(false);
  const auto device = OneDevice::make(replica, {.batch = kRows, .compile = {.seed = 3}}).value();
  for (int step = 0; step < steps; ++step) EXPECT_TRUE(device->step().ok());
  return state_of(device->program());
}

void expect_trained(Members& members, const std::vector<std::size_t>& who, int steps) {
  const State first = state_of(members[who[0]].group->program());
  for (const std::size_t i : who) {
    EXPECT_EQ(members[i].group->program().step(), steps);
    EXPECT_EQ(state_of(members[i].group->program()), first) << "the same bits on all";
  }
}

TEST_F(NcclReplicas, AGroupLosesAMemberInACollectiveAndGoesOn) {
  collectives::InProcessHub hub;
  Members members;
  for (int i = 0; i < 3; ++i) members.add([&] { return std::make_unique<Worker>(hub.make(), i); });
  members.join(1);
  EXPECT_EQ(simulated_nccl::counts().communicators, 3);
  members.step(3);
  expect_trained(members, {0, 1, 2}, 3);

  simulated_nccl::stop_device(2);
  std::vector<Status> taken(3);
  members.begin([&](std::size_t i, Worker& worker) { taken[i] = worker.group->step(); });
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (simulated_nccl::waiting(2) == 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
  simulated_nccl::kill_device(2, 10ms);
  members.wait();
  for (const Status& status : taken) {
    ASSERT_FALSE(status.ok());
    EXPECT_TRUE(collectives::epoch_is_over(status.error())) << status.error().message;
  }
  members.forget(2);
  members.join(2);
  EXPECT_EQ(simulated_nccl::counts().communicators, 2);
  members.step(3);
  expect_trained(members, {0, 1}, 6);

  members.add([&] { return std::make_unique<Worker>(hub.make(), 3); });
  members.join(3);
  const int before = simulated_nccl::collectives();
  members.step(2);
  EXPECT_GT(simulated_nccl::collectives(), before);
  expect_trained(members, {0, 1, 3}, 8);
  EXPECT_LT(largest_difference(state_of(members[3].group->program()), alone(8)), kTolerance);
}

TEST_F(NcclReplicas, AGroupWhoseNcclFailsGoesOnThroughTheHost) {
  collectives::InProcessHub hub;
  Members members;
  for (int i = 0; i < 2; ++i) members.add([&] { return std::make_unique<Worker>(hub.make(), i); });
  simulated_nccl::refuse_next_init(1);
  for (const Status& status : members.reform(1)) {
    ASSERT_FALSE(status.ok());
    EXPECT_TRUE(collectives::epoch_is_over(status.error())) << "the next epoch helps: " << status.error().message;
  }
  members.join(2);
  EXPECT_EQ(simulated_nccl::collectives(), 0);
  members.step(4);
  EXPECT_EQ(simulated_nccl::collectives(), 0);
  expect_trained(members, {0, 1}, 4);
  EXPECT_LT(largest_difference(state_of(members[0].group->program()), alone(4)), kTolerance);
}

TEST_F(NcclReplicas, AnInitThatNeverEndsIsGivenUpAfterAFewEpochs) {
  collectives::InProcessHub hub;
  Members members;
  for (int i = 0; i < 2; ++i) members.add([&] { return std::make_unique<Worker>(hub.make(), i); });
  simulated_nccl::stop_device(1);
  std::uint64_t epoch = 0;
  const auto formed = [&] {
    const std::vector<Status> joined = members.reform(++epoch, {}, 1s);
    return std::ranges::all_of(joined, &Status::ok);
  };
  // Two deadlines of one member, and one each of the others, who may have been the first before.
  while (!formed() && epoch < 6) {
  }
  EXPECT_LE(epoch, 4U);
  members.step(2);
  expect_trained(members, {0, 1}, 2);
}

TEST_F(NcclReplicas, MembersThatShareAGpuOrRoundWhatTravelsMeetOnTheHost) {
  for (const DType wire : {DType::kF32, DType::kBF16}) {
    collectives::InProcessHub hub;
    Members members;
    const int other = wire == DType::kF32 ? 0 : 1;
    for (const int gpu : {0, other}) members.add([&, gpu] { return std::make_unique<Worker>(hub.make(), gpu, wire); });
    members.join(1);
    members.step(2);
    expect_trained(members, {0, 1}, 2);
  }
  EXPECT_EQ(simulated_nccl::collectives(), 0);
}

TEST_F(NcclReplicas, GroupsOfSeveralHostsNeedTheNameOfATrustedNetwork) {
  const std::vector<collectives::Member> together = {{.id = 0, .name = "one", .host = "a"},
                                                     {.id = 1, .name = "two", .host = "a"}};
  std::vector<collectives::Member> apart = together;
  apart[1].host = "b";
  for (const char* const interface : {"", "lo"}) {
    collectives::MemoryNetwork network;
    std::vector<std::unique_ptr<collectives::Peers>> peers;
    Members members;
    for (std::uint32_t id = 0; id < 2; ++id) {
      peers.push_back(network.join(id));
      members.add([&] {
        return std::make_unique<Worker>(collectives::make_group_communicator(*peers.back(), id), static_cast<int>(id),
                                        DType::kF32, interface);
      });
    }
    // A member may move from one epoch to the next, and all decide alike each time.
    int steps = 0;
    std::uint64_t epoch = 0;
    for (const auto& [names, by_nccl] : {std::pair(together, true), {apart, *interface != '\0'}, {together, true}}) {
      const int before = simulated_nccl::collectives();
      members.join(++epoch, names);
      members.step(2);
      steps += 2;
      EXPECT_EQ(simulated_nccl::collectives() > before, by_nccl) << "epoch " << epoch << ", \"" << interface << "\"";
      expect_trained(members, {0, 1}, steps);
    }
    EXPECT_LT(largest_difference(state_of(members[0].group->program()), alone(steps)), kTolerance);
  }
}

}  // namespace
}  // namespace troupe::learner
