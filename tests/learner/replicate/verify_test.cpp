#include <troupe/learner/replicate/verify.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/algorithms/d4pg/replica.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/tests/algorithms/d4pg/batches.hpp>

namespace troupe::learner {
namespace {

using ::testing::HasSubstr;

enum class Mistake { kNone, kOptimizerNotWrapped, kLossIsASum, kOwnInput };

/// Fits y to x, rightly or not.
class MistakenRegression final : public Replica {
 public:
  explicit MistakenRegression(Mistake mistake) : mistake_(mistake) {}
  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override {
    InputContext own = context;
    if (mistake_ == Mistake::kOwnInput) own.replica_id = 0;  // every replica sees the same rows
    return random_batches({{"x", DType::kF32, Shape{4}}, {"y", DType::kF32, Shape{2}}}, 5)(own);
  }
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    Graph& graph = context.graph();
    const ParamGroup group = graph.group("model");
    const Var w = graph.param(group, "w", Shape{4, 2}, Init::uniform(0.5));
    const Var b = graph.param(group, "b", Shape{2}, Init::constant(0));
    const Var out = linear(inputs["x"], w, b, Activation::kNone);
    const Var errors = square(sub(out, inputs["y"]));
    const Var loss = mistake_ == Mistake::kLossIsASum ? sum(errors) : mean(errors);
    const OptimizerSpec optimizer{.rule = Sgd{.learning_rate = 0.01}};
    graph.minimize(loss, group,
                   mistake_ == Mistake::kOptimizerNotWrapped ? optimizer : context.wrap_optimizer(optimizer));
  }

 private:
  const Mistake mistake_;
};

std::vector<Equivalence> verify(Mistake mistake, DType wire = DType::kF32) {
  const ReplicaFactory make = [mistake]() -> Result<std::unique_ptr<Replica>> {
    return {std::make_unique<MistakenRegression>(mistake)};
  };
  return verify_equivalence(
             make,
             {.replicas = {1, 2, 3, 4},
              .how = {.kind = ReplicatorKind::kMultiWorker, .global_batch = 13, .compile = {.seed = 1}, .wire = wire}})
      .value();
}

TEST(Verify, FindsNoDifferenceWhereThereIsNone) {
  for (const Equivalence& found : verify(Mistake::kNone)) {
    ASSERT_EQ(found.variables.size(), 2u);
    EXPECT_EQ(found.variables[0].name, "model/w");
    EXPECT_LT(found.largest(), found.replicas == 1 ? 1e-30 : 1e-5) << found.replicas;  // float32 sums of 13 rows
  }
}

TEST(Verify, FindsTheMistakesThatStaySilentOtherwise) {
  for (const Mistake mistake : {Mistake::kOptimizerNotWrapped, Mistake::kLossIsASum, Mistake::kOwnInput}) {
    for (const Equivalence& found : verify(mistake)) {
      if (found.replicas == 1) continue;
      EXPECT_GT(found.variables[0].gradient, 1e-2) << static_cast<int>(mistake) << " with " << found.replicas;
      EXPECT_GT(found.variables[1].parameter, 1e-3) << static_cast<int>(mistake) << " with " << found.replicas;
    }
  }
}

TEST(Verify, ShowsWhatAWireRounds) {
  for (const Equivalence& found : verify(Mistake::kNone, DType::kBF16)) {
    if (found.replicas == 1) continue;
    EXPECT_GT(found.variables[0].gradient, 1e-5) << found.replicas << ": nothing was rounded";
    EXPECT_LT(found.variables[0].gradient, 1e-2) << found.replicas << ": a bfloat16 has 8 bits";
  }
}

TEST(Verify, HoldsForD4pg) {
  const d4pg::Options options = d4pg::steering_options();
  const ReplicaFactory make = [&options]() -> Result<std::unique_ptr<Replica>> {
    return {d4pg::training(options, random_batches(d4pg::batch_signature(options), 9))};
  };
  const auto found = verify_equivalence(
      make,
      {.replicas = {2, 4}, .how = {.kind = ReplicatorKind::kMultiWorker, .global_batch = 32, .compile = {.seed = 1}}});
  ASSERT_TRUE(found.ok()) << found.error().message;
  for (const Equivalence& each : *found) {
    EXPECT_GT(each.variables.size(), 10u);
    for (const VariableDifference& variable : each.variables) {
      EXPECT_LT(variable.gradient, 1e-4) << variable.name;   // sums of 32 rows in another order, small ones among them
      EXPECT_LT(variable.parameter, 1e-3) << variable.name;  // Adam divides by the gradient's size
    }
  }
}

TEST(Verify, RefusesWhatCannotBeCompared) {
  const ReplicaFactory make = []() -> Result<std::unique_ptr<Replica>> {
    return {std::make_unique<MistakenRegression>(Mistake::kNone)};
  };
  EXPECT_THAT(
      verify_equivalence(make, {.replicas = {1, 5}, .how = {.global_batch = 4}}).error().message,
      HasSubstr("verify: 1,5 replicas, 3 steps, a global batch of 4 rows: expected at least one step and 1 to 4"));
  EXPECT_FALSE(verify_equivalence(make, {.replicas = {}, .how = {.global_batch = 4}}).ok());
  EXPECT_FALSE(verify_equivalence(make, {.replicas = {1}, .steps = 0, .how = {.global_batch = 4}}).ok());
}

}  // namespace
}  // namespace troupe::learner
