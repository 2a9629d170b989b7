// Replicas that train together, as threads over the in-process communicator, against one replica on the whole batch:
// the same parameters come out, for even and uneven shares, with and without collectives in the middle of the step.
#include <troupe/learner/replicate/replica.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <troupe/collectives/in_process.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/learner/replicate/replicator.hpp>
#include <troupe/tests/algorithms/d4pg/batches.hpp>
#include <troupe/tests/algorithms/d4pg/hand_fed.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kReplicaRows = 16;

/// Rows [begin, begin + rows) of a batch, without a copy.
BatchView rows_of(const BatchView& batch, std::int64_t begin, std::int64_t rows) {
  BatchView part{batch.signature, rows, {}};
  for (std::size_t c = 0; c < batch.columns.size(); ++c) {
    const std::size_t bytes = (*batch.signature)[c].bytes();
    part.columns.push_back(
        batch.columns[c].subspan(static_cast<std::size_t>(begin) * bytes, static_cast<std::size_t>(rows) * bytes));
  }
  return part;
}

using Body = std::function<void(collectives::Communicator* communicator, std::int64_t begin, std::int64_t rows)>;

/// Runs `body` once for each share of the kReplicaRows rows: in threads with a communicator, or alone with none.
void run_shares(const std::vector<std::int64_t>& shares, const Body& body) {
  if (shares.size() == 1) return body(nullptr, 0, kReplicaRows);
  collectives::InProcessHub hub;
  std::vector<std::jthread> threads;
  std::int64_t begin = 0;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    threads.emplace_back([&, rank, begin] {
      const collectives::GroupView view{1, static_cast<int>(rank), static_cast<int>(shares.size())};
      const auto communicator = hub.join(view, std::chrono::seconds(20)).value();
      body(communicator.get(), begin, shares[rank]);
    });
    begin += shares[rank];
  }
}

/// Squared distance over squared length.
double relative_distance(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double distance = 0, length = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    distance += (a[i] - b[i]) * (a[i] - b[i]);
    length += b[i] * b[i];
  }
  return std::sqrt(distance / length);
}

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

std::vector<std::vector<float>> train_d4pg(const std::vector<std::int64_t>& shares) {
  d4pg::Options options = d4pg::steering_options();
  options.importance_weights = true;
  Rng rng(2);
  BatchBuffer batch(d4pg::batch_signature(options), kReplicaRows);
  d4pg::fill_random(rng, batch);
  std::vector<std::vector<float>> policies(shares.size());
  run_shares(shares, [&](collectives::Communicator* communicator, std::int64_t begin, std::int64_t rows) {
    d4pg::HandFedOptions learner_options{.d4pg = options, .communicator = communicator};
    learner_options.d4pg.batch = rows;
    const auto learner = d4pg::HandFed::make(learner_options).value();
    if (communicator != nullptr) {
      collectives::GroupView view = communicator->view();
      ++view.epoch;
      ASSERT_TRUE(learner->reform(view, std::chrono::seconds(20)).ok());
    }
    for (int step = 0; step < 5; ++step) learner->step(rows_of(batch.view(), begin, rows)).value();
    const int rank = communicator == nullptr ? 0 : communicator->view().rank;
    policies[static_cast<std::size_t>(rank)] = copy(learner->policy().values());
  });
  return policies;
}

TEST(Replica, SeveralD4pgReplicasTrainAsOneOnTheWholeBatch) {
  const std::vector<float> one = train_d4pg({kReplicaRows}).front();
  for (const std::vector<std::int64_t>& shares : {std::vector<std::int64_t>{8, 8}, {5, 11}, {4, 6, 6}}) {
    const std::vector<std::vector<float>> policies = train_d4pg(shares);
    // Sums in another order: 1e-7 of a gradient, which Adam passes on undamped where a gradient is small.
    EXPECT_LT(relative_distance(policies[0], one), 1e-4) << shares.size() << " replicas";
    for (const std::vector<float>& policy : policies)
      EXPECT_EQ(policy, policies[0]) << "replicas must agree bit for bit";
  }
}

/// Fits w so that the products x w vary little over the global batch: every row's loss depends on all other rows
/// through the mean, as in a batch norm over replicas.
class VarianceReplica : public Replica {
 public:
  VarianceReplica(InputFn input_fn, bool by_sum) : input_fn_(std::move(input_fn)), by_sum_(by_sum) {}
  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override { return input_fn_(context); }
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    Graph& graph = context.graph();
    const ParamGroup group = graph.group("model");
    const Var w = graph.param(group, "w", Shape{3, 1}, Init::uniform(1));
    const Var products = matmul(inputs["x"], w);
    const Var mean_product =
        by_sum_ ? scale(context.all_sum(sum(products)), 1.0 / static_cast<double>(context.input().global_batch))
                : context.all_mean(mean(products));
    const Var centred = bias_activation(products, reshape(scale(mean_product, -1), Shape{1}));
    graph.output("mean_product", mean_product);
    // The fourth power, because the mean's own gradient of a plain variance is zero and would hide a wrong rule.
    graph.minimize(mean(square(square(add(centred, scale(square(products), 0.5))))), group,
                   context.wrap_optimizer({.rule = Sgd{.learning_rate = 0.01, .momentum = 0.9}}));
  }

 private:
  InputFn input_fn_;
  bool by_sum_;
};

struct VarianceResult {
  std::vector<float> w;
  float mean_product = 0;
};

VarianceResult train_variance(const std::vector<std::int64_t>& shares, bool by_sum, int stripes) {
  Rng rng(9);
  const Signature signature = {{"x", DType::kF32, Shape{3}}};
  BatchBuffer batch(signature, kReplicaRows);
  for (float& x : batch.mutable_view().as<float>(0)) x = static_cast<float>(rng.normal());
  VarianceResult result;
  run_shares(shares, [&](collectives::Communicator* communicator, std::int64_t begin, std::int64_t rows) {
    BatchSlot slot(signature);
    VarianceReplica replica([&](const InputContext&) { return slot.pipeline(); }, by_sum);
    const OneDeviceOptions options{
        .batch = rows, .compile = {.stripes = stripes}, .communicator = communicator, .global_batch = kReplicaRows};
    const auto device = OneDevice::make(replica, options).value();
    for (int step = 0; step < 5; ++step) {
      slot.offer(rows_of(batch.view(), begin, rows)).value();
      device->step().value();
    }
    if (begin != 0) return;
    result = {copy(device->program().params("model")->values()), device->program().output("mean_product")[0]};
  });
  return result;
}

TEST(Replica, CollectivesInsideTheStepAreExactForwardAndBackward) {
  const VarianceResult one = train_variance({kReplicaRows}, false, 1);
  for (const bool by_sum : {false, true}) {
    for (const std::vector<std::int64_t>& shares : {std::vector<std::int64_t>{kReplicaRows}, {8, 8}, {5, 11}}) {
      for (const int stripes : {1, 2}) {
        const VarianceResult several = train_variance(shares, by_sum, stripes);
        EXPECT_LT(relative_distance(several.w, one.w), 1e-5);  // SGD keeps rounding errors as they are
        EXPECT_NEAR(several.mean_product, one.mean_product, 1e-5);
      }
    }
  }
}

TEST(Replica, AStepWithoutInputDoesNothingAndMayBeTriedAgain) {
  const Signature signature = {{"x", DType::kF32, Shape{3}}};
  BatchSlot slot(signature);
  VarianceReplica replica([&](const InputContext&) { return slot.pipeline(); }, false);
  const auto device = OneDevice::make(replica, {.batch = kReplicaRows}).value();
  EXPECT_EQ(device->step().error().code, Code::kUnavailable);
  EXPECT_EQ(device->program().step(), 0);
  BatchBuffer batch(signature, kReplicaRows);
  for (float& x : batch.mutable_view().as<float>(0)) x = 1;
  slot.offer(batch.view()).value();
  EXPECT_TRUE(device->step().ok());
  EXPECT_EQ(device->program().step(), 1);
  EXPECT_EQ(device->step().error().code, Code::kUnavailable) << "a batch is taken once";
}

TEST(Replica, AnUnknownColumnIsNamed) {
  BatchSlot slot({{"y", DType::kF32, Shape{3}}});
  VarianceReplica replica([&](const InputContext&) { return slot.pipeline(); }, false);
  const auto device = OneDevice::make(replica, {.batch = kReplicaRows});
  ASSERT_FALSE(device.ok());
  EXPECT_NE(device.error().message.find("\"x\""), std::string::npos) << device.error().message;
}

TEST(Replica, InputFnIsToldItsShare) {
  std::array<InputContext, 2> seen;
  run_shares({5, 11}, [&](collectives::Communicator* communicator, std::int64_t, std::int64_t rows) {
    BatchSlot slot({{"x", DType::kF32, Shape{3}}});
    const auto rank = static_cast<std::size_t>(communicator->view().rank);
    VarianceReplica replica(
        [&](const InputContext& context) {
          seen[rank] = context;
          return slot.pipeline();
        },
        false);
    OneDevice::make(replica, {.batch = rows, .communicator = communicator, .global_batch = kReplicaRows}).value();
  });
  EXPECT_EQ(seen[1].replica_id, 1);
  EXPECT_EQ(seen[1].replica_count, 2);
  EXPECT_EQ(seen[1].replica_batch, 11);
  EXPECT_EQ(seen[0].global_batch, kReplicaRows);
}

}  // namespace
}  // namespace troupe::learner
