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
#include <troupe/tests/algorithms/d4pg/batches.hpp>

namespace troupe::learner {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kRows = 32;

/// Global batches that are the same however many replicas share them; `lengths` cuts a replica's rows short.
class Batches final : public InputPipeline {
 public:
  Batches(Signature signature, const InputContext& context, std::vector<std::int64_t> lengths)
      : signature_(std::move(signature)), context_(context), lengths_(std::move(lengths)) {
    step_ = context.first_step;
  }
  const Signature& signature() const override { return signature_; }
  Result<BatchView> next() override {
    if (step_ >= 100) return Error{Code::kOutOfRange, "the end"};
    Rng rng(derive_seed(3, "batch", static_cast<std::uint64_t>(step_++)));
    batch_ = std::make_unique<BatchBuffer>(signature_, context_.global_batch);
    d4pg::fill_random(rng, *batch_);
    const std::int64_t rows = context_.global_batch, id = context_.replica_id, count = context_.replica_count;
    const std::int64_t begin = rows * id / count, end = rows * (id + 1) / count;
    if (lengths_.empty()) return batch_->view().slice(begin, end - begin);
    return batch_->view().slice(begin, lengths_[static_cast<std::size_t>(id)]);
  }

 private:
  Signature signature_;
  InputContext context_;
  std::vector<std::int64_t> lengths_;
  std::unique_ptr<BatchBuffer> batch_;
  std::int64_t step_ = 0;
};

/// A network whose rows meet all others in the middle of the step, as in a batch norm over replicas, with an optimiser
/// that clips and a loss on the parameters.
class Mlp : public Replica {
 public:
  explicit Mlp(std::vector<std::int64_t> lengths = {}) : lengths_(std::move(lengths)) {}
  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override {
    return std::unique_ptr<InputPipeline>(std::make_unique<Batches>(signature(), context, lengths_));
  }
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    Graph& graph = context.graph();
    const ParamGroup group = graph.group("net");
    const auto param = [&](const char* name, Shape shape) {
      return graph.param(group, name, shape, Init::uniform(0.4));
    };
    const Var h = linear(inputs["observation"], param("0/weight", {6, 16}), param("0/bias", {16}), Activation::kTanh);
    const Var ones = graph.constant(Shape{16, 1}, std::vector<float>(16, 1.0F / 16));
    const Var centre = context.all_mean(mean(matmul(h, ones)), "centre");
    const Var total = context.all_sum(sum(square(h)), "total");
    const Var rows = context.all_sum(count_rows(graph), "rows");
    const Var y = bias_activation(matmul(h, param("1/weight", {16, 1})), reshape_scalar(scale(centre, -1)));
    const Var weight = param("2/weight", {8, 1});
    const Var loss = add(add(mean(square(y)), scale(sum(square(weight)), 0.05)), scale(mul(total, total), 1e-7));
    graph.metric("loss", loss);
    graph.metric("rows", rows);
    graph.minimize(loss, group, context.wrap_optimizer({.rule = Adam{.learning_rate = 1e-2}, .max_global_norm = 0.3}));
  }
  static Signature signature() { return {{"observation", DType::kF32, Shape{6}}}; }

 private:
  static Var reshape_scalar(Var x) { return reshape(x, Shape{1}); }
  std::vector<std::int64_t> lengths_;
};

std::unique_ptr<Replica> d4pg_replica() {
  d4pg::Options options = d4pg::steering_options();
  options.policy_optimizer.max_global_norm = options.critic_optimizer.max_global_norm = 0.05;  // so that it clips
  options.target_period = 2;
  return d4pg::training(options, [options](const InputContext& context) {
    return Result<std::unique_ptr<InputPipeline>>(
        std::make_unique<Batches>(d4pg::batch_signature(options), context, std::vector<std::int64_t>{}));
  });
}

std::vector<float> all_values(Program& program) {
  std::vector<float> values;
  for (std::size_t g = 0; g < program.group_count(); ++g) {
    const auto group = program.group(g).values();
    values.insert(values.end(), group.begin(), group.end());
  }
  return values;
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

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double squares = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(squares / size);
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

/// One replica's batches are broken from its step 2 on.
class Broken final : public Mlp {
 public:
  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override {
    class Pipeline final : public InputPipeline {
     public:
      Pipeline(std::unique_ptr<InputPipeline> of, int id) : of_(std::move(of)), id_(id) {}
      const Signature& signature() const override { return of_->signature(); }
      Result<BatchView> next() override {
        auto batch = of_->next();
        if (id_ == 1 && ++steps_ > 2) {
          auto* x = reinterpret_cast<float*>(const_cast<std::byte*>(batch->columns[0].data()));
          x[3] = std::numeric_limits<float>::quiet_NaN();
        }
        return batch;
      }

     private:
      std::unique_ptr<InputPipeline> of_;
      int id_, steps_ = 0;
    };
    return std::unique_ptr<InputPipeline>(
        std::make_unique<Pipeline>(Mlp::input_fn(context).value(), context.replica_id));
  }
};

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

/// One parameter of its own, one that follows rank 0's, and an average in the state that all share.
class Policies final : public Mlp {
 public:
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    Mlp::step_fn(context, inputs);
    Graph& graph = context.graph();
    const ParamGroup group = graph.group("own");
    const Var local = graph.param(group, "local", Shape{6, 1}, Init::uniform(1));
    const Var follows = graph.param(group, "follows", Shape{6, 1}, Init::uniform(1));
    context.set_policy(local, VariablePolicy::kLocal);
    context.set_policy(follows, VariablePolicy::kBroadcast);
    const Var x = inputs["observation"];
    graph.minimize(mean(square(add(matmul(x, local), square(matmul(x, follows))))), group,
                   context.wrap_optimizer({.rule = Sgd{.learning_rate = 0.01}}));
    const Var average = graph.state("average", {}, Init::constant(0)),
              mine = graph.state("mine", {}, Init::constant(0));
    context.set_policy(average, VariablePolicy::kSync);
    context.assign(average, mean(x));
    context.assign(mine, mean(x));
  }
};

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
