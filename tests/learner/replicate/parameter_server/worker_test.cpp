// Workers and shards without messages between them: one worker trains as OneDevice does, with one shard bit for
// bit; and what it refuses to push.
#include <troupe/learner/replicate/parameter_server/worker.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include <troupe/algorithms/sngan/networks.hpp>
#include <troupe/algorithms/sngan/replica.hpp>
#include <troupe/learner/ops/embedding.hpp>
#include <troupe/learner/replicate/network_mode.hpp>
#include <troupe/learner/replicate/parameter_server/shard.hpp>
#include <troupe/learner/replicate/replicator.hpp>
#include <troupe/tests/learner/replicate/parameter_server/line.hpp>

namespace troupe::learner {
namespace {

using ::testing::HasSubstr;
using testing::LineReplica;

ParameterServerPlan plan_of(std::size_t shards, ParamPartition how = ParamPartition::kPartitioned) {
  ParameterServerPlan plan;
  plan.input = {.replica_batch = 16, .global_batch = 16};
  plan.compile.seed = 3;
  plan.shards = shards;
  plan.partition = how;
  plan.part_bytes = 8;
  return plan;
}

std::vector<std::unique_ptr<ParameterShard>> shards_of(Replica& replica, const ParameterServerPlan& plan,
                                                       const ParameterShardOptions& options) {
  ServedReplica served = build_served(replica, plan).value();
  std::vector<std::unique_ptr<ParameterShard>> shards;
  for (const ShardPlan& shard : served.plans) {
    shards.push_back(std::make_unique<ParameterShard>(served.model, shard, options));
    for (std::size_t g = 0; g < served.model->groups.size(); ++g) {
      shards.back()->load(g, served.program->params(served.model->groups[g].name)->values());
    }
  }
  return shards;
}

void pull(ParameterServerWorker& worker, std::vector<std::unique_ptr<ParameterShard>>& shards) {
  for (auto& shard : shards) {
    ASSERT_TRUE(worker.load(messages::read_parameters(shard->parameters().value()).value()).ok());
  }
}

std::vector<float> values(Program& program, std::string_view group) {
  const auto span = program.params(group)->values();
  return {span.begin(), span.end()};
}

TEST(ParameterServerWorker, AloneItTrainsAsOneDevice) {
  const auto more = [](Graph& graph, ParamGroup line) {
    graph.target(line, 3);
    graph.average(line, 0.9);
  };
  for (const OptimizerSpec& optimizer :
       {OptimizerSpec{.rule = Adam{.learning_rate = 0.05, .weight_decay = 0.01}, .schedule = {.warmup_steps = 5}},
        OptimizerSpec{.rule = Sgd{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}},
        OptimizerSpec{.rule = RmsProp{.learning_rate = 0.05, .decay = 0.9, .weight_decay = 0.01}},
        OptimizerSpec{.rule = RmsProp{.form = RmsProp::Form::kTensorFlow, .learning_rate = 0.05, .momentum = 0.5}},
        OptimizerSpec{.rule = Lars{.learning_rate = 1, .trust_coefficient = 0.05}, .schedule = {.warmup_steps = 5}},
        OptimizerSpec{.rule = Adam{.learning_rate = 0.05}, .schedule = {.warmup_steps = 5}, .every_steps = 3}}) {
    const bool lars = std::holds_alternative<Lars>(optimizer.rule);
    LineReplica replica(optimizer, more);
    OneDeviceOptions one{.batch = 16};
    one.compile.seed = 3;
    const auto device = OneDevice::make(replica, one).value();
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(device->step().ok());

    for (const std::size_t count : {1, 2, 3, 8}) {
      for (const ParamPartition how : {ParamPartition::kPartitioned, ParamPartition::kMaxSize}) {
        if (lars && count > 1) continue;  // the weight is cut: see below
        auto shards = shards_of(replica, plan_of(count, how), {});
        const auto worker = ParameterServerWorker::make(replica, plan_of(count, how), DType::kF32).value();
        messages::FramePool pool;
        for (int i = 0; i < 20; ++i) {
          pull(*worker, shards);
          ASSERT_TRUE(worker->step().ok());
          const auto frames = worker->gradients(pool).value();
          ASSERT_EQ(frames.size(), count);
          for (std::size_t s = 0; s < count; ++s) {
            ASSERT_TRUE(shards[s]->push(messages::read_gradient(frames[s]).value()).ok());
          }
        }
        pull(*worker, shards);
        EXPECT_EQ(worker->version(), 20);
        for (const char* group : {"line", "line.target", "line.average"}) {
          const auto got = values(worker->program(), group), expected = values(device->program(), group);
          if (count == 1) {
            EXPECT_EQ(got, expected) << group;
          }
          for (std::size_t i = 0; i < got.size(); ++i) {
            // The last lanes of a part go through another loop of the kernel, in which other products may be fused.
            EXPECT_NEAR(got[i], expected[i], 1e-6) << group;
          }
        }
      }
    }
  }
}

TEST(ParameterServerWorker, LeavesOutOfWeightDecayWhatIsExempt) {
  const OptimizerSpec optimizer{.rule = Sgd{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.3}};
  LineReplica line(optimizer), replica(optimizer, [](Graph&graph, ParamGroup group) {
    graph.exempt_from_decay(graph.param(group, "bias", {1}, {}));
  });
  OneDeviceOptions one{.batch = 16};
  one.compile.seed = 3;
  const auto with = OneDevice::make(line, one).value(), device = OneDevice::make(replica, one).value();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(device->step().ok());
    ASSERT_TRUE(with->step().ok());
  }
  const std::vector<float> expected = values(device->program(), "line");
  EXPECT_NE(expected, values(with->program(), "line")) << "the exemption changes nothing here";
  for (const std::size_t count : {1, 2}) {
    auto shards = shards_of(replica, plan_of(count), {});
    const auto worker = ParameterServerWorker::make(replica, plan_of(count), DType::kF32).value();
    messages::FramePool pool;
    for (int i = 0; i < 5; ++i) {
      pull(*worker, shards);
      ASSERT_TRUE(worker->step().ok());
      const auto frames = worker->gradients(pool).value();
      for (std::size_t s = 0; s < count; ++s) {
        ASSERT_TRUE(shards[s]->push(messages::read_gradient(frames[s]).value()).ok());
      }
    }
    pull(*worker, shards);
    const std::vector<float> got = values(worker->program(), "line");
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6);
  }
}

TEST(ParameterServerWorker, LarsIsRefusedWhereNoShardHasAWholeVariable) {
  LineReplica replica({.rule = Lars{}});
  EXPECT_EQ(
      ParameterServerWorker::make(replica, plan_of(2), DType::kF32).error().message,
      "parameter server: LARS needs the norms of whole variables, but none of 2 shards has \"line/weight\" whole, "
      "which is cut, or travels as rows: expected fewer shards or another rule");
  ParameterServerPlan whole = plan_of(2, ParamPartition::kMinSize);
  whole.part_bytes = kDefaultPartBytes;
  EXPECT_TRUE(ParameterServerWorker::make(replica, whole, DType::kF32).ok()) << "each variable is whole on its shard";
}

TEST(ParameterServerWorker, KeepsLengthsAsOneDeviceAndRefusesWhatIsCut) {
  const auto keep = [](Graph& graph, ParamGroup line) {
    graph.keep_length({graph.param(line, "weight", {testing::kFeatures, 1}, {})}, LengthOf::kColumns, 0.75);
    graph.average(line, 0.9);
  };
  LineReplica replica({.rule = Adam{.learning_rate = 0.05}}, keep);
  OneDeviceOptions one{.batch = 16};
  one.compile.seed = 3;
  const auto device = OneDevice::make(replica, one).value();
  ParameterServerPlan whole = plan_of(2, ParamPartition::kMinSize);
  whole.part_bytes = kDefaultPartBytes;
  auto shards = shards_of(replica, whole, {});
  const auto worker = ParameterServerWorker::make(replica, whole, DType::kF32).value();
  messages::FramePool pool;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(device->step().ok());
    pull(*worker, shards);
    ASSERT_TRUE(worker->step().ok());
    const auto frames = worker->gradients(pool).value();
    for (std::size_t s = 0; s < frames.size(); ++s) {
      ASSERT_TRUE(shards[s]->push(messages::read_gradient(frames[s]).value()).ok());
    }
  }
  pull(*worker, shards);
  for (const char* group : {"line", "line.average"}) {
    const auto got = values(worker->program(), group), expected = values(device->program(), group);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << group;
  }
  double squares = 0;
  for (std::size_t i = 0; i < testing::kFeatures; ++i) squares += std::pow(values(worker->program(), "line")[i], 2);
  EXPECT_NEAR(std::sqrt(squares), 0.75, 1e-6);
  EXPECT_EQ(ParameterServerWorker::make(replica, plan_of(2), DType::kF32).error().message,
            "parameter server: \"line/weight\" keeps its length, for which a shard needs it whole, but none of 2 has "
            "that: expected fewer shards");
}

/// Batch i looks up rows 7, 30, 7 and i mod 3.
class TableInput final : public InputPipeline {
 public:
  const Signature& signature() const override { return *batch_.view().signature; }
  Result<BatchView> next() override {
    const auto rows = batch_.mutable_view().as<std::int32_t>(0);
    rows[0] = rows[2] = 7;
    rows[1] = 30;
    rows[3] = next_++ % 3;
    return batch_.view();
  }

 private:
  std::int32_t next_ = 0;
  BatchBuffer batch_{{{"row", DType::kI32, {}}}, 4};
};

class TableReplica final : public Replica {
 public:
  explicit TableReplica(OptimizerSpec optimizer = {.rule = Sgd{.learning_rate = 0.5}})
      : optimizer_(std::move(optimizer)) {}
  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext&) override {
    return std::unique_ptr<InputPipeline>(std::make_unique<TableInput>());
  }
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    Graph& graph = context.graph();
    const ParamGroup net = graph.group("net");
    const Var table = graph.param(net, "table", {40, 3}, Init::uniform(1));
    const Var head = graph.param(net, "head", {3, 1}, Init::uniform(1));
    graph.minimize(mean(square(matmul(embedding(table, inputs["row"]), head))), net,
                   context.wrap_optimizer(optimizer_));
  }

 private:
  OptimizerSpec optimizer_;
};

TEST(ParameterServerWorker, LarsIsRefusedOverRowsOfAnEmbedding) {
  TableReplica replica({.rule = Lars{}});
  ParameterServerPlan plan = plan_of(1);
  plan.input = {.replica_batch = 4, .global_batch = 4};
  EXPECT_THAT(ParameterServerWorker::make(replica, plan, DType::kF32).error().message,
              HasSubstr("none of 1 shards has \"net/table\" whole, which is cut, or travels as rows"));
}

TEST(ParameterServerWorker, PushesTheRowsOfAnEmbeddingThatItsBatchLookedUp) {
  TableReplica replica;
  OneDeviceOptions one{.batch = 4};
  one.compile.seed = 3;
  const auto device = OneDevice::make(replica, one).value();
  for (const std::size_t count : {1, 3}) {
    ParameterServerPlan plan = plan_of(count);
    plan.input = {.replica_batch = 4, .global_batch = 4};
    auto shards = shards_of(replica, plan, {});
    const auto worker = ParameterServerWorker::make(replica, plan, DType::kF32).value();
    messages::FramePool pool;
    for (std::uint32_t i = 0; i < 5; ++i) {
      if (count == 1) {
        ASSERT_TRUE(device->step().ok());
      }
      pull(*worker, shards);
      ASSERT_TRUE(worker->step().ok());
      const auto frames = worker->gradients(pool).value();
      std::vector<std::uint32_t> rows;
      for (std::size_t s = 0; s < count; ++s) {
        const auto view = messages::read_gradient(frames[s]).value();
        for (const messages::SparseRows& table : view.sparse())
          rows.insert(rows.end(), table.rows.begin(), table.rows.end());
        ASSERT_TRUE(shards[s]->push(view).ok());
      }
      EXPECT_THAT(rows, ::testing::ElementsAre(i % 3, 7, 30));
    }
    pull(*worker, shards);
    const auto got = values(worker->program(), "net"), expected = values(device->program(), "net");
    // The rule is applied to rows of three here, and to whole vectors there: other products may be fused.
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6);
  }
}

TEST(ParameterServerWorker, TrainsAGanWhoseGeneratorMovesInEverySecondStep) {
  sngan::Options options{
      .image = Shape{1, 6, 1}, .noise_size = 3, .generator_sizes = {8}, .discriminator_sizes = {9, 5}, .n_dis = 2};
  options.average_decay = 0.9;
  const Signature signature = sngan::batch_signature(options);
  BatchBuffer batch(signature, 16);
  Rng rng(5);
  for (const std::size_t column : {0U, 1U}) {
    for (float& x : batch.mutable_view().as<float>(column)) x = static_cast<float>(rng.normal());
  }
  class Repeated final : public InputPipeline {
   public:
    explicit Repeated(const BatchBuffer& batch) : batch_(batch) {}
    const Signature& signature() const override { return *batch_.view().signature; }
    Result<BatchView> next() override { return batch_.view(); }

   private:
    const BatchBuffer& batch_;
  };
  const auto replica = sngan::training(options, [&](const InputContext&) -> Result<std::unique_ptr<InputPipeline>> {
    return {std::make_unique<Repeated>(batch)};
  });
  const auto device = OneDevice::make(*replica, {.batch = 16, .compile = {.seed = 3}}).value();
  auto shards = shards_of(*replica, plan_of(1), {});
  const auto worker = ParameterServerWorker::make(*replica, plan_of(1), DType::kF32).value();
  messages::FramePool pool;
  for (int step = 0; step < 5; ++step) {
    const std::vector<float> generator = values(worker->program(), sngan::kGeneratorGroup);
    ASSERT_TRUE(device->step().ok());
    pull(*worker, shards);
    ASSERT_TRUE(worker->step().ok());
    ASSERT_TRUE(shards[0]->push(messages::read_gradient(worker->gradients(pool).value()[0]).value()).ok());
    pull(*worker, shards);
    EXPECT_EQ(values(worker->program(), sngan::kGeneratorGroup) != generator, step % 2 == 1) << step;
    for (const std::string group : {"generator", "discriminator", "generator.average"}) {
      EXPECT_EQ(values(worker->program(), group), values(device->program(), group)) << group << " after step " << step;
    }
  }
}

TEST(ParameterServerWorker, ClipsItsOwnGradientAsOneDeviceDoes) {
  const OptimizerSpec optimizer{.rule = Sgd{.learning_rate = 0.1}, .max_global_norm = 0.25};
  LineReplica replica(optimizer);
  OneDeviceOptions one{.batch = 16};
  one.compile.seed = 3;
  const auto device = OneDevice::make(replica, one).value();
  auto shards = shards_of(replica, plan_of(2), {});
  const auto worker = ParameterServerWorker::make(replica, plan_of(2), DType::kF32).value();
  messages::FramePool pool;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(device->step().ok());
    pull(*worker, shards);
    ASSERT_TRUE(worker->step().ok());
    const auto frames = worker->gradients(pool).value();
    for (std::size_t s = 0; s < 2; ++s) {
      ASSERT_TRUE(shards[s]->push(messages::read_gradient(frames[s]).value()).ok());
    }
  }
  pull(*worker, shards);
  const auto got = values(worker->program(), "line"), expected = values(device->program(), "line");
  // The norm is one sum here and a sum of blocks there.
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6);
}

TEST(ParameterServerWorker, PushesNoPartOfAGradientThatIsNotFinite) {
  const OptimizerSpec optimizer{.rule = Sgd{}};
  LineReplica replica(optimizer);
  auto shards = shards_of(replica, plan_of(2), {});
  const auto worker = ParameterServerWorker::make(replica, plan_of(2), DType::kF32).value();
  pull(*worker, shards);
  worker->program().params("line")->values()[0] = std::nanf("");
  messages::FramePool pool;
  for (int i = 1; i < ParameterServerWorker::kMaxNotFinite; ++i) {
    ASSERT_TRUE(worker->step().ok());
    EXPECT_TRUE(worker->gradients(pool)->empty());
    EXPECT_EQ(worker->not_finite(), i);
  }
  ASSERT_TRUE(worker->step().ok());
  EXPECT_THAT(worker->gradients(pool).error().message, HasSubstr("10 batches in a row are not finite"));
}

/// A line whose step also asks something of the other replicas.
class MeetingReplica final : public Replica {
 public:
  using Call = std::function<Var(ReplicaContext& context, Var weight)>;
  explicit MeetingReplica(Call call) : call_(std::move(call)) {}
  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override {
    return std::unique_ptr<InputPipeline>(std::make_unique<testing::LineInput>(context));
  }
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    Graph& graph = context.graph();
    const ParamGroup line = graph.group("line");
    const Var weight = graph.param(line, "weight", {testing::kFeatures, 1}, Init::uniform(0.5));
    const Var loss = mean(square(sub(matmul(inputs["x"], weight), inputs["y"])));
    graph.metric("met", call_(context, mean(weight)));
    graph.minimize(loss, line, context.wrap_optimizer({.rule = Sgd{}}));
  }

 private:
  Call call_;
};

TEST(ParameterServerWorker, RefusesCollectivesOfAStepByNameUnlessItIsAlone) {
  using collectives::ReduceOp;
  const std::vector<std::pair<std::string, MeetingReplica::Call>> calls = {
      {"all_mean \"loss\"", [](ReplicaContext& c, Var x) { return c.all_mean(x, "loss"); }},
      {"all_sum", [](ReplicaContext& c, Var x) { return c.all_sum(x); }},
      {"all_max", [](ReplicaContext& c, Var x) { return c.all_reduce(x, ReduceOp::kMax); }},
      {"all_gather", [](ReplicaContext& c, Var x) { return mean(c.all_gather(x)); }},
      {"broadcast", [](ReplicaContext& c, Var x) { return c.broadcast(x, 0); }},
      {"map_reduce",
       [](ReplicaContext& c, Var x) {
         return c.map_reduce(
             std::array{x, x}, [](Var item) { return item; }, ReduceOp::kSum);
       }},
      {"map_gather",
       [](ReplicaContext& c, Var x) {
         return mean(c.map_gather(std::array{x, x}, [](Var item) { return item; }));
       }},
      {"all_mean \"state/count\"",  // synchronised
       [](ReplicaContext& c, Var x) {
         const Var count = c.graph().state("count", Shape{}, Init::constant(0));
         c.set_policy(count, VariablePolicy::kSync);
         c.assign(count, x);
         return x;
       }}};
  for (const auto& [name, call] : calls) {
    MeetingReplica replica(call);
    ParameterServerPlan plan = plan_of(1);
    EXPECT_TRUE(ParameterServerWorker::make(replica, plan, DType::kF32).ok()) << name;
    plan.input.replica_count = 3;
    plan.input.global_batch = 48;
    const auto refused = ParameterServerWorker::make(replica, plan, DType::kF32);
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message,
                HasSubstr("step_fn: " + name + ": the 3 workers of a parameter server do not meet within a step"));
  }
}

TEST(ParameterServerWorker, RefusesBatchNormOfTheGlobalBatch) {
  ParameterServerPlan plan = plan_of(1);
  plan.input.replica_count = 2;
  plan.input.global_batch = 32;
  for (const bool sync : {true, false}) {
    Graph graph(16);
    ReplicaContext context(graph, plan.input, nullptr);
    const NetworkMode mode = training_mode(context, sync);
    const Var x = graph.input("x", Shape{4});
    if (mode.all_sum) mode.all_sum(sum(x));
    EXPECT_EQ(graph.status().ok(), !sync);
    if (!sync) continue;
    EXPECT_THAT(graph.status().error().message, HasSubstr("step_fn: all_sum: the 2 workers"));
  }
}

TEST(ParameterServerWorker, RefusesParametersOfAnotherModelOrPlan) {
  LineReplica replica({.rule = Sgd{}});
  LineReplica other({.rule = Sgd{}}, [](Graph& graph, ParamGroup line) { graph.target(line, 3); });
  const auto worker = ParameterServerWorker::make(replica, plan_of(2), DType::kF32).value();
  for (const auto& shards : std::array{shards_of(other, plan_of(2), {}), shards_of(replica, plan_of(3), {})}) {
    const auto view = messages::read_parameters(shards[0]->parameters().value()).value();
    EXPECT_EQ(worker->load(view).error().code, Code::kShapeMismatch);
  }
  EXPECT_EQ(worker->version(), -1);
}

}  // namespace
}  // namespace troupe::learner
