// Replicas of one process under every replicator: the same bits for 1, 2, 4 and 8 of them where that is promised, exact
// gradients for short and missing batches, and steps that are skipped together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <vector>

#include <troupe/algorithms/d4pg/replica.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/learner/replicate/device_replicas.hpp>
#include <troupe/learner/replicate/make_replicator.hpp>
#include <troupe/messages/safetensors.hpp>
#include <troupe/tests/learner/replicate/replicas.hpp>

namespace troupe::learner {
namespace {

using testing::HasSubstr;

std::unique_ptr<Replica> d4pg_replica() {
  d4pg::Options options = d4pg::steering_options();
  options.policy_optimizer.max_global_norm = options.critic_optimizer.max_global_norm = 0.05;  // so that it clips
  options.target_period = 2;
  return d4pg::training(options, [options](const InputContext& context) {
    return Result<std::unique_ptr<InputPipeline>>(
        std::make_unique<Batches>(d4pg::batch_signature(options), context, std::vector<std::int64_t>{}));
  });
}

std::vector<float> train(Replica& replica, const ReplicatorOptions& options, int steps) {
  auto replicator = make_replicator(replica, options);
  EXPECT_TRUE(replicator.ok()) << replicator.error().message;
  for (int step = 0; step < steps; ++step) {
    const Status status = (*replicator)->step();
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
  EXPECT_EQ((*replicator)->program().step(), steps);
  return all_values((*replicator)->program());
}

TEST(Deterministic, OneTwoFourAndEightReplicasGiveTheSameBits) {
  const auto d4pg = d4pg_replica();
  Mlp mlp;
  for (Replica* replica : {static_cast<Replica*>(&mlp), d4pg.get()}) {
    ReplicatorOptions options{.global_batch = kRows, .deterministic = true, .compile = {.threads = 1, .seed = 5}};
    const std::vector<float> one = train(*replica, options, 6);
    for (const ReplicatorKind kind : {ReplicatorKind::kMultiDevice, ReplicatorKind::kCentralStorage}) {
      for (const int replicas : {1, 2, 4, 8}) {
        options.kind = kind;
        options.replicas = replicas;
        EXPECT_EQ(train(*replica, options, 6), one) << replicas << " replicas, " << to_string(kind);
      }
    }
    options.kind = ReplicatorKind::kMultiDevice;
    options.replicas = 4;
    for (const auto reduce :
         {collectives::InProcessAlgorithm::kHierarchicalCopy, collectives::InProcessAlgorithm::kReductionToOne}) {
      options.reduce = reduce;
      EXPECT_EQ(train(*replica, options, 6), one);
    }
    options.reduce = collectives::InProcessAlgorithm::kCollective;
    for (const std::int64_t bytes : {64, 700, 3000}) {  // several buckets, beside collectives in the backward pass
      for (const int threads : {1, 2}) {
        options.compile.bucket_bytes = bytes;
        options.compile.threads = threads;
        EXPECT_EQ(train(*replica, options, 6), one) << "buckets of " << bytes << " bytes";
      }
    }
    options.kind = ReplicatorKind::kOneDevice;
    options.compile.threads = 3;
    EXPECT_EQ(train(*replica, options, 6), one) << "more threads";
    options.deterministic = false;
    EXPECT_NE(train(*replica, options, 6), one) << "the order of sums does matter here";
  }
}

TEST(Deterministic, RefusesWhatCannotBeEqual) {
  EXPECT_EQ(in_stripes({}, 4, kRows)->stripes, 2);
  EXPECT_THAT(in_stripes({}, 3, 24).error().message, HasSubstr("3 replicas"));
  EXPECT_THAT(in_stripes({}, 2, 20).error().message, HasSubstr("batch of 20"));
}

TEST(Replicators, GiveTheParametersOfOneReplicaOnTheWholeBatch) {
  const auto d4pg = d4pg_replica();
  Mlp mlp;
  for (Replica* replica : {static_cast<Replica*>(&mlp), d4pg.get()}) {
    const std::vector<float> one = train(*replica, {.global_batch = kRows}, 4);
    for (const ReplicatorKind kind : {ReplicatorKind::kMultiDevice, ReplicatorKind::kCentralStorage}) {
      for (const int replicas : {2, 3}) {
        const auto several = train(*replica, {.kind = kind, .global_batch = kRows, .replicas = replicas}, 4);
        // Sums in another order: 1e-7 of a gradient, which Adam passes on undamped where a gradient is small.
        EXPECT_LT(distance(several, one), 1e-4) << replicas << " replicas, " << to_string(kind);
      }
    }
  }
}

TEST(Replicators, OnlyReplicaZeroOfCentralStorageHasOptimiserSlots) {
  Mlp mlp;
  const auto central = CentralStorage::make(mlp, {.replicas = 2, .global_batch = kRows}).value();
  EXPECT_EQ(central->program(0).params("net")->slots().size(), 2U);
  EXPECT_TRUE(central->program(1).params("net")->slots().empty());
}

/// Gradient and metrics after one step with replicas' rows cut to `lengths`.
std::vector<float> short_gradient(const std::vector<std::int64_t>& lengths, std::int64_t global, double* rows) {
  Mlp mlp(lengths);
  const auto devices =
      MultiDevice::make(mlp, {.replicas = static_cast<int>(lengths.size()), .global_batch = global}).value();
  const Status status = devices->step();
  EXPECT_TRUE(status.ok()) << status.error().message;
  *rows = devices->program().metrics()[1];
  const auto gradient = devices->program().gradient("net");
  return {gradient.begin(), gradient.end()};
}

TEST(Replicators, WeighShortAndMissingBatchesExactly) {
  // Shares of 4: rows 0-3, 4-7, 8-11, of which the last replicas have fewer: the same rows as one replica's first ones.
  for (const auto& lengths : {std::vector<std::int64_t>{4, 4, 2}, {4, 3, 0}, {1, 0, 0}}) {
    double rows = 0, expected_rows = 0;
    const auto several = short_gradient(lengths, 12, &rows);
    std::int64_t total = 0;
    for (const std::int64_t length : lengths) total += length;
    const auto one = short_gradient({total}, 12, &expected_rows);
    EXPECT_LT(distance(several, one), 1e-5);  // float32 sums in another order
    EXPECT_EQ(rows, static_cast<double>(total));
    EXPECT_EQ(expected_rows, static_cast<double>(total));
  }
}

TEST(Replicators, EndWhenTheInputOfAllReplicasHasEnded) {
  Mlp mlp;
  const auto devices = MultiDevice::make(mlp, {.replicas = 2, .global_batch = 8, .first_step = 99}).value();
  EXPECT_TRUE(devices->step().ok());
  EXPECT_EQ(devices->step().error().code, Code::kOutOfRange);
}

TEST(Replicators, SkipAStepThatOneReplicaBreaksTogetherAndGiveUpAfterTen) {
  for (const ReplicatorKind kind : {ReplicatorKind::kMultiDevice, ReplicatorKind::kCentralStorage}) {
    Broken broken;
    const auto replicator = make_replicator(broken, {.kind = kind, .global_batch = kRows, .replicas = 2}).value();
    for (int step = 0; step < 2; ++step) replicator->step().value();
    const std::vector<float> before = all_values(replicator->program());
    for (int step = 0; step < kMaxSkippedInARow - 1; ++step) replicator->step().value();
    const Status tenth = replicator->step();
    ASSERT_FALSE(tenth.ok());
    EXPECT_EQ(tenth.error().code, Code::kInternal);
    EXPECT_THAT(tenth.error().message, HasSubstr("10 times in a row"));
    auto& devices = dynamic_cast<DeviceReplicas&>(*replicator);
    EXPECT_EQ(all_values(devices.program(0)), before) << "no replica has changed anything";
    if (kind == ReplicatorKind::kMultiDevice) {
      EXPECT_EQ(all_values(devices.program(1)), before);
    }
    EXPECT_EQ(replicator->program().step(), 2);
    EXPECT_EQ(replicator->program().skipped(), 10);
  }
}

/// A replica whose second batch is longer than it may be, once.
class TooLong final : public Mlp {
 public:
  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override {
    class Pipeline final : public InputPipeline {
     public:
      Pipeline(std::unique_ptr<InputPipeline> of, int id) : of_(std::move(of)), id_(id), long_(Mlp::signature(), 99) {}
      const Signature& signature() const override { return of_->signature(); }
      Result<BatchView> next() override { return id_ == 1 && ++steps_ == 2 ? long_.view() : of_->next(); }

     private:
      std::unique_ptr<InputPipeline> of_;
      int id_, steps_ = 0;
      BatchBuffer long_;
    };
    return std::unique_ptr<InputPipeline>(
        std::make_unique<Pipeline>(Mlp::input_fn(context).value(), context.replica_id));
  }
};

TEST(Replicators, AStepThatFailsInOneReplicaChangesNothingInAnyAndNeverHangs) {
  for (const std::int64_t bucket_bytes : {0, 64}) {
    TooLong replica;
    const auto devices =
        MultiDevice::make(
            replica, {.replicas = 3, .global_batch = kRows, .compile = {.stripes = 2, .bucket_bytes = bucket_bytes}})
            .value();
    devices->step().value();
    const std::vector<float> before = all_values(devices->program(0));
    const Status failed = devices->step();
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code, Code::kShapeMismatch) << failed.error().message;
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(all_values(devices->program(r)), before);
      EXPECT_EQ(devices->program(r).step(), 1);
    }
  }
}

TEST(VariablePolicy, SaysWhatReplicasShare) {
  Policies replica;
  const auto devices =
      MultiDevice::make(replica, {.replicas = 2, .global_batch = kRows, .check_every_steps = 3}).value();
  const auto tensor = [&](int r, std::size_t entry) {
    ParamBuffer& own = *devices->program(r).params("own");
    const auto values = own.tensor(own.layout().entries[entry]);
    return std::vector<float>(values.begin(), values.end());
  };
  const auto state = [&](int r, std::size_t entry) {
    ParamBuffer& own = devices->program(r).state();
    return own.tensor(own.layout().entries[entry])[0];
  };
  for (int step = 0; step < 3; ++step) devices->step().value();
  EXPECT_NE(tensor(0, 0), tensor(1, 0));
  EXPECT_NE(tensor(0, 1), tensor(1, 1));
  EXPECT_EQ(all_values(devices->program(0)).front(), all_values(devices->program(1)).front());
  EXPECT_EQ(state(0, 0), state(1, 0));
  EXPECT_NE(state(0, 1), state(1, 1));
  EXPECT_FLOAT_EQ(state(0, 0), (state(0, 1) + state(1, 1)) / 2);
  // Before the fourth step all take rank 0's, from which each goes on with its own gradient.
  const std::vector<float> of_rank_0 = tensor(0, 1);
  for (int r = 0; r < 2; ++r)
    devices->program(r).params("own")->tensor(devices->program(r).params("own")->layout().entries[0])[0] = 0;
  devices->step().value();
  double apart = 0;
  for (std::size_t i = 0; i < 6; ++i)
    apart = std::max(apart, std::abs(static_cast<double>(tensor(1, 1)[i] - of_rank_0[i])));
  EXPECT_LT(apart, 0.2) << "one step of its own away";
}

TEST(VariablePolicy, FindsASharedVariableThatHasDrifted) {
  Policies replica;
  const auto devices =
      MultiDevice::make(replica, {.replicas = 3, .global_batch = kRows, .check_every_steps = 2}).value();
  devices->step().value();
  devices->program(2).params("net")->tensor(devices->program(2).params("net")->layout().entries[2])[3] += 1e-6F;
  devices->step().value();
  const Status drifted = devices->step();
  ASSERT_FALSE(drifted.ok());
  EXPECT_EQ(drifted.error().code, Code::kCorrupt);
  EXPECT_THAT(drifted.error().message, HasSubstr("step 2: variable \"net/"));
  EXPECT_THAT(drifted.error().message, HasSubstr("rank 2"));
}

TEST(VariablePolicy, AnInfiniteGradientOfOnesOwnIsSkippedByAll) {
  Policies replica;
  const auto devices = MultiDevice::make(replica, {.replicas = 2, .global_batch = kRows}).value();
  devices->step().value();
  ParamBuffer& own = *devices->program(1).params("own");
  own.tensor(own.layout().entries[0])[0] = std::numeric_limits<float>::infinity();
  devices->step().value();
  for (int r = 0; r < 2; ++r) EXPECT_EQ(devices->program(r).skipped(), 1) << r;
}

TEST(SaveBatch, WritesTheColumnsUnderTheirNames) {
  Mlp mlp;
  const auto device = OneDevice::make(mlp, {.batch = 4}).value();
  EXPECT_EQ(save_batch(device->batch(), "nowhere").error().code, Code::kInvalidArgument);
  device->step().value();
  const auto path = (std::filesystem::path(testing::TempDir()) / "batch.safetensors").string();
  save_batch(device->batch(), path).value();
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto parsed = messages::parse_safetensors(std::as_bytes(std::span(text))).value();
  ASSERT_EQ(parsed.tensors.size(), 1U);
  EXPECT_EQ(parsed.tensors[0].name, "observation");
  EXPECT_EQ(parsed.tensors[0].shape, (Shape{4, 6}));
}

}  // namespace
}  // namespace troupe::learner
