// A group whose membership changes while it trains: whatever happens, all members end with the same bits, and with the
// parameters that one replica gets from the same global batches: no step lost, doubled or half applied.
#include <troupe/learner/replicate/multi_worker.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <troupe/collectives/group_communicator.hpp>
#include <troupe/collectives/in_process.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/tests/collectives/memory_peers.hpp>

namespace troupe::learner {
namespace {

using namespace std::chrono_literals;
using collectives::Communicator;
using collectives::GroupView;
using ::testing::HasSubstr;

constexpr std::int64_t kRows = 12;
const Signature kSignature = {{"x", DType::kF32, Shape{4}}, {"y", DType::kF32, Shape{2}}};

/// Step s's global batch is the same however many share it: row i of it depends on (s, i) alone.
class Rows final : public InputPipeline {
 public:
  explicit Rows(const InputContext& context) : context_(context), step_(context.first_step) {
    first_ = kRows * context.replica_id / context.replica_count;
    x_.resize(static_cast<std::size_t>(context.replica_batch) * 4);
    y_.resize(static_cast<std::size_t>(context.replica_batch) * 2);
  }
  const Signature& signature() const override { return kSignature; }
  Result<BatchView> next() override {
    for (std::int64_t row = 0; row < context_.replica_batch; ++row) {
      Rng rng(derive_seed(7, "row", static_cast<std::uint64_t>(step_ * kRows + first_ + row)));
      for (int i = 0; i < 4; ++i) x_[static_cast<std::size_t>(row * 4 + i)] = static_cast<float>(rng.uniform() - 0.5);
      for (int i = 0; i < 2; ++i) y_[static_cast<std::size_t>(row * 2 + i)] = static_cast<float>(rng.uniform() - 0.5);
    }
    ++step_;
    return BatchView{&kSignature, context_.replica_batch, {std::as_bytes(std::span(x_)), std::as_bytes(std::span(y_))}};
  }

 private:
  const InputContext context_;
  std::int64_t step_, first_ = 0;
  std::vector<float> x_, y_;
};

/// Two groups of parameters, so that a step has two reductions, of which one may succeed and the other fail.
class Regression final : public Replica {
 public:
  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override {
    return {std::make_unique<Rows>(context)};
  }
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    Graph& graph = context.graph();
    const ParamGroup first = graph.group("first"), second = graph.group("second");
    const Var hidden = linear(inputs["x"], graph.param(first, "w", Shape{4, 8}, Init::uniform(0.5)),
                              graph.param(first, "b", Shape{8}, Init::constant(0)), Activation::kTanh);
    const Var out = linear(hidden, graph.param(second, "w", Shape{8, 2}, Init::uniform(0.5)),
                           graph.param(second, "b", Shape{2}, Init::constant(0)), Activation::kNone);
    const Var loss = mean(square(sub(out, inputs["y"])));
    graph.minimize(loss, first, context.wrap_optimizer({.rule = Sgd{.learning_rate = 0.05, .momentum = 0.9}}));
    graph.minimize(loss, second, context.wrap_optimizer({.rule = Sgd{.learning_rate = 0.05, .momentum = 0.9}}));
  }
};

std::vector<float> parameters(Program& program) {
  std::vector<float> all;
  for (const char* group : {"first", "second"}) {
    const auto values = program.params(group)->values();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// Of one replica after `steps` updates, each of `accumulate` batches.
std::vector<float> alone(std::int64_t steps, int accumulate = 1) {
  Regression replica;
  const auto device =
      OneDevice::make(replica, {.batch = kRows, .compile = {.accumulate = accumulate, .seed = 3}}).value();
  for (std::int64_t step = 0; step < steps * accumulate; ++step) EXPECT_TRUE(device->step().ok());
  return parameters(device->program());
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  return largest;
}
// Sums in another order, over a hundred steps of values below 1.
constexpr double kTolerance = 2e-5;

struct Worker {
  explicit Worker(collectives::InProcessHub& hub, int accumulate = 1) : Worker(hub.make(), DType::kF32, accumulate) {}
  Worker(std::unique_ptr<Communicator> made, DType wire, int accumulate = 1)
      : communicator(std::move(made)),
        group(MultiWorker::make(replica, {.global_batch = kRows,
                                          .wire = wire,
                                          .compile = {.accumulate = accumulate, .seed = 3},
                                          .communicator = communicator.get()})
                  .value()) {}
  Regression replica;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<MultiWorker> group;
};

/// Every worker of `members` takes `steps` steps as rank 0, 1, ... of the epoch.
void train(std::uint64_t epoch, const std::vector<Worker*>& members, std::int64_t steps,
           const std::vector<collectives::Member>& names = {}) {
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const GroupView view{epoch, static_cast<int>(rank), static_cast<int>(members.size()), names};
      const Status joined = members[rank]->group->reform(view, 20s);
      ASSERT_TRUE(joined.ok()) << joined.error().message;
      for (std::int64_t step = 0; step < steps; ++step) {
        const Status taken = members[rank]->group->step();
        ASSERT_TRUE(taken.ok()) << taken.error().message;
      }
    });
  }
}

TEST(MultiWorker, MembersMayGoAndComeBetweenSteps) {
  collectives::InProcessHub hub;
  Worker a(hub), b(hub), c(hub), late(hub);
  train(1, {&a, &b, &c}, 10);
  train(2, {&a, &c}, 10);
  train(3, {&late, &a, &c}, 10);  // the one that knows nothing is rank 0
  train(4, {&late}, 5);
  EXPECT_EQ(late.group->program().step(), 35);
  EXPECT_LT(distance(parameters(late.group->program()), alone(35)), kTolerance);
  EXPECT_EQ(a.group->program().step(), 30);
  EXPECT_EQ(parameters(a.group->program()), parameters(c.group->program()));
  EXPECT_LT(distance(parameters(a.group->program()), alone(30)), kTolerance);
  EXPECT_LT(distance(parameters(b.group->program()), alone(10)), kTolerance);
}

TEST(MultiWorker, StepsThatAreBrokenOffAreTakenAgain) {
  constexpr std::int64_t kSteps = 400;
  constexpr int kMembers = 3;
  std::int64_t broken_off = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    collectives::InProcessHub hub;
    std::vector<std::unique_ptr<Worker>> workers;
    for (int i = 0; i < kMembers; ++i) workers.push_back(std::make_unique<Worker>(hub));
    std::atomic<std::uint64_t> epoch{1};
    std::atomic<int> left{kMembers};
    std::atomic<std::int64_t> broken{0};
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kMembers; ++rank) {
      threads.emplace_back([&, rank] {
        Worker& worker = *workers[static_cast<std::size_t>(rank)];
        // Whoever has finished still meets the others in new epochs, until all have.
        bool finished = false;
        while (left > 0) {
          const std::uint64_t now = epoch;
          if (worker.communicator->view().epoch != now) {
            (void)worker.group->reform({now, rank, kMembers}, 10s);
            continue;
          }
          if (worker.group->program().step() >= kSteps) {
            if (!finished && worker.communicator->barrier({.name = "end"})->wait().ok()) {
              finished = true;
              --left;
            }
            std::this_thread::sleep_for(100us);
          } else if (!worker.group->step().ok()) {
            ++broken;
            std::this_thread::sleep_for(100us);
          }
        }
      });
    }
    Rng rng(seed);
    const auto until = std::chrono::steady_clock::now() + 60s;
    for (int i = 0; i < 40 && left == kMembers; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(rng.below(1500)));
      // As the chief does it, through each member's node: not at the same moment.
      const std::uint64_t next = epoch + 1;
      workers[rng.below(kMembers)]->communicator->abort("another epoch", next - 1);
      epoch = next;
      for (const auto& worker : workers) worker->communicator->abort("another epoch", next - 1);
    }
    while (left > 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
    ASSERT_EQ(left, 0) << "seed " << seed;
    threads.clear();
    const std::vector<float> expected = alone(kSteps);
    for (const auto& worker : workers) {
      EXPECT_EQ(worker->group->program().step(), kSteps);
      EXPECT_EQ(parameters(worker->group->program()), parameters(workers[0]->group->program())) << "seed " << seed;
    }
    EXPECT_LT(distance(parameters(workers[0]->group->program()), expected), kTolerance) << "seed " << seed;
    broken_off += broken;
  }
  EXPECT_GT(broken_off, 0) << "no epoch ended in the middle of a step";
}

TEST(MultiWorker, AnEpochThatIsOverLeavesEverythingAsItWas) {
  collectives::InProcessHub hub;
  Worker a(hub), b(hub);
  train(1, {&a, &b}, 3);
  const std::vector<float> before = parameters(a.group->program());
  std::jthread other([&] {
    std::this_thread::sleep_for(20ms);
    a.communicator->abort("rank 1 has died");
  });
  const Status taken = a.group->step();  // b does not come
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, Code::kCancelled);
  EXPECT_THAT(taken.error().message, HasSubstr("rank 1 has died"));
  EXPECT_EQ(parameters(a.group->program()), before);
  EXPECT_EQ(a.group->program().step(), 3);
}

/// Rank 0 of `size`, played by hand: says that it is where `standing` says, and leaves before it hands anything on.
void vanish_after_standing(collectives::InProcessHub& hub, std::uint64_t epoch, int size, std::int64_t step,
                           std::uint64_t digest) {
  const auto communicator = hub.make();
  ASSERT_TRUE(communicator->reform({epoch, 0, size}, 20s).ok());
  const std::array own{step, std::bit_cast<std::int64_t>(digest)};
  ASSERT_TRUE(communicator->gather_integers(own, {.name = "standing"}).ok());
}

TEST(MultiWorker, AGroupWithoutAWholeStateSaysSoAndDoesNotTrain) {
  collectives::InProcessHub hub;
  Worker late(hub);
  std::jthread last([&] { vanish_after_standing(hub, 1, 2, 5, 17); });
  const Status halved = late.group->reform({1, 1, 2}, 20s);
  ASSERT_FALSE(halved.ok());
  EXPECT_TRUE(collectives::epoch_is_over(halved.error())) << halved.error().message;
  const Status alone_now = late.group->reform({2, 0, 1}, 20s);
  ASSERT_FALSE(alone_now.ok());
  EXPECT_EQ(alone_now.error().code, Code::kCorrupt);
  EXPECT_FALSE(collectives::epoch_is_over(alone_now.error()));
  EXPECT_THAT(alone_now.error().message, HasSubstr("group of epoch 2: none of its 1 members has a whole state"));
  // Somebody who comes from a checkpoint makes it whole again.
  Worker restored(hub);
  train(3, {&late, &restored}, 4);
  EXPECT_LT(distance(parameters(late.group->program()), alone(4)), kTolerance);
}

TEST(MultiWorker, WhoHasWhatIsHandedOnStaysWholeWhenThatBreaksOff) {
  collectives::InProcessHub hub;
  Worker whole(hub), late(hub);
  train(1, {&whole}, 3);
  std::jthread first([&] { vanish_after_standing(hub, 2, 3, 3, shared_digest(whole.group->program())); });
  {
    std::jthread other([&] { EXPECT_FALSE(late.group->reform({2, 2, 3}, 20s).ok()); });
    EXPECT_FALSE(whole.group->reform({2, 1, 3}, 20s).ok());
  }
  train(3, {&late, &whole}, 2);
  EXPECT_LT(distance(parameters(late.group->program()), alone(5)), kTolerance);
}

TEST(MultiWorker, ANewEpochBeginsWithAWholeUpdate) {
  constexpr int kRuns = 4;  // an update
  collectives::InProcessHub hub;
  Worker a(hub, kRuns), b(hub, kRuns), late(hub, kRuns);
  train(1, {&a, &b}, kRuns + 2);  // two runs of the second update are lost
  train(2, {&late, &a}, 2 * kRuns + 3);
  EXPECT_EQ(a.group->program().step(), 3);
  train(3, {&b, &late, &a}, kRuns);
  EXPECT_EQ(parameters(a.group->program()), parameters(late.group->program()));
  EXPECT_EQ(parameters(a.group->program()), parameters(b.group->program()));
  EXPECT_EQ(b.group->program().step(), 4);
  EXPECT_LT(distance(parameters(a.group->program()), alone(4, kRuns)), kTolerance);
}

TEST(MultiWorker, GradientsMayTravelAsBfloat16) {
  constexpr std::int64_t kSteps = 50;
  for (const DType wire : {DType::kF32, DType::kBF16}) {
    collectives::MemoryNetwork network;
    std::vector<collectives::Member> names;
    std::vector<std::unique_ptr<collectives::Peers>> peers;
    std::vector<std::unique_ptr<Worker>> workers;
    std::vector<Worker*> members;
    for (std::uint32_t id = 0; id < 3; ++id) {
      names.push_back({.id = id, .name = "worker " + std::to_string(id)});  // each on a host of its own
      peers.push_back(network.join(id));
      workers.push_back(std::make_unique<Worker>(collectives::make_group_communicator(*peers.back(), id), wire));
      members.push_back(workers.back().get());
    }
    train(1, members, kSteps, names);
    const std::vector<float> got = parameters(workers[0]->group->program());
    for (const auto& worker : workers) EXPECT_EQ(parameters(worker->group->program()), got);
    const double off = distance(got, alone(kSteps));
    // Gradients below 1, of which a bfloat16 keeps 8 bits, times a rate of 0.05 and momentum, over 50 steps.
    EXPECT_LT(off, wire == DType::kBF16 ? 1e-2 : kTolerance);
    if (wire == DType::kBF16) {
      EXPECT_GT(off, kTolerance) << "they were not rounded";
    }
  }
}

TEST(MultiWorker, BatchesThatCannotBeSharedAreRefused) {
  collectives::InProcessHub hub;
  Regression replica;
  const auto communicator = hub.make();
  const auto refusal = [&](std::int64_t batch, std::int64_t global) {
    return MultiWorker::make(replica, {.batch = batch, .global_batch = global, .communicator = communicator.get()})
        .error()
        .message;
  };
  EXPECT_THAT(refusal(0, 0), HasSubstr("batch 0 and global batch 0, expected one of them to be positive"));
  EXPECT_THAT(refusal(4, 8), HasSubstr("batch 4 and global batch 8"));
}

}  // namespace
}  // namespace troupe::learner
