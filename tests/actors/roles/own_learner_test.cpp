// A learner of the user's own behind the role's ports: what it is given, what it gives out, what it is refused for.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <troupe/actors/roles/own_learner.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/tests/actors/fake_context.hpp>

namespace troupe::actors::testing {
namespace {

constexpr std::int64_t kBatchRows = 4;

/// Counts its steps and gives out their number.
struct Counting {
  int steps = 0;
  std::vector<Signature> seen;
  std::vector<double> priorities = {1, 2, 3, 4};
  float value = 0;  ///< added to what it gives out
};
class CountingLearner final : public Learner {
 public:
  explicit CountingLearner(Counting& counting) : counting_(counting) {}
  Result<LearnerStep> learn(const BatchView& batch) override {
    counting_.seen.push_back(*batch.signature);
    ++counting_.steps;
    return LearnerStep{counting_.priorities, {{"loss", 0.5}}};
  }
  Status write_policy(std::span<float> values) override {
    values[0] = static_cast<float>(counting_.steps) + counting_.value;
    return {};
  }
  Result<RoleState> save() const override { return RoleState{.counters = {{"steps", 100 + counting_.steps}}}; }
  Status restore(const RoleState& state) override {
    TROUPE_ASSIGN(const std::int64_t steps, state.counter("steps"));
    counting_.steps = static_cast<int>(steps - 100);
    return {};
  }

 private:
  Counting& counting_;
};

class OwnLearnerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Role> make(bool prioritised = false, std::int64_t max_steps = 0, std::int64_t period = 1) {
    Signature batch = signature();
    if (prioritised) batch.push_back({"weight", DType::kF32, {}});
    learner::ParamLayout policy;
    policy.group = "policy";
    policy.add("policy/0/weight", Shape{2, 3});
    const RoleSpec spec =
        own_learner("learner", {.make = [this](const LearnerContext& told) -> Result<std::unique_ptr<Learner>> {
                                  told_ = told;
                                  return {std::make_unique<CountingLearner>(counting_)};
                                },
                                .context = {.batch = batch,
                                            .policy = policy,
                                            .batch_size = kBatchRows,
                                            .max_steps = max_steps,
                                            .prioritised = prioritised},
                                .batches = {.prioritised = prioritised},
                                .publish_period = period});
    return spec.make({"learner", 0, 1, 0, 17}).value();
  }
  static Signature signature() { return {{"x", DType::kF32, Shape{2}}}; }
  void batch(Signature of = signature()) {
    auto builder = messages::SampledBatchBuilder::make(context_.pool(),
                                                       std::make_shared<const Signature>(std::move(of)), kBatchRows)
                       .value();
    for (const auto column : builder.columns().columns) std::ranges::fill(column, std::byte{0});
    for (std::size_t i = 0; i < kBatchRows; ++i) {
      builder.rows().keys[i] = 10 + i;
      builder.rows().probabilities[i] = i == 0 ? 0.1 : 0.3;
    }
    context_.in("batches").frames.emplace_back(std::move(builder).finish({0, 100, 1}));
  }
  messages::ParametersView published() {
    return messages::read_parameters(context_.out("updates").sent.back()).value();
  }
  static double counter(const Role& role, std::string_view name) {
    Report report;
    role.report(report);
    for (const auto* list : {&report.counters, &report.gauges}) {
      for (const Scalar& scalar : *list) {
        if (scalar.name == name) return scalar.value;
      }
    }
    return std::numeric_limits<double>::quiet_NaN();
  }

  FakeContext context_;
  Counting counting_;
  LearnerContext told_;
};

TEST_F(OwnLearnerTest, GivesOutAPolicyBeforeTheFirstBatchAndAfterEachStep) {
  const auto role = make();
  EXPECT_EQ(role->step(context_).value(), Progress::kIdle);
  ASSERT_EQ(context_.out("updates").sent.size(), 1U);
  EXPECT_EQ(published().info().version, 0);
  EXPECT_EQ(published().info().layout_hash, told_.policy.fingerprint());
  EXPECT_EQ(told_.seed, 17U);
  for (int step = 1; step <= 3; ++step) {
    batch();
    EXPECT_EQ(role->step(context_).value(), Progress::kMore);
    EXPECT_EQ(role->step(context_).value(), Progress::kIdle);
    EXPECT_EQ(published().info().version, step);
    EXPECT_EQ(published().floats().value()[0], static_cast<float>(step));
    EXPECT_EQ(published().floats().value()[1], 0.0F);
  }
  EXPECT_EQ(counter(*role, "steps"), 3);
  EXPECT_EQ(counter(*role, "version"), 3);
  EXPECT_EQ(counter(*role, "loss"), 0.5);
  EXPECT_TRUE(context_.out("priorities").sent.empty());
}

TEST_F(OwnLearnerTest, WeighsRowsAndAnswersWithPriorities) {
  const auto role = make(true);
  batch();
  ASSERT_EQ(role->step(context_).value(), Progress::kMore);
  ASSERT_EQ(counting_.seen.size(), 1U);
  EXPECT_EQ(counting_.seen[0].back().name, "weight");
  ASSERT_EQ(role->step(context_).value(), Progress::kIdle);
  ASSERT_EQ(context_.out("priorities").sent.size(), 1U);
  const auto update = messages::read_priorities(context_.out("priorities").sent[0]).value();
  EXPECT_EQ(update.keys, (std::vector<std::uint64_t>{10, 11, 12, 13}));
  EXPECT_EQ(update.priorities, counting_.priorities);
}

TEST_F(OwnLearnerTest, IsDoneAfterItsStepsWithTheLastPolicyGivenOut) {
  const auto role = make(false, 2, 100);
  for (int i = 0; i < 3; ++i) batch();
  EXPECT_EQ(role->step(context_).value(), Progress::kMore);
  EXPECT_EQ(role->step(context_).value(), Progress::kMore);
  context_.out("updates").full.insert(0);  // the store has not taken the first policy yet
  EXPECT_EQ(role->step(context_).value(), Progress::kIdle);
  context_.out("updates").full.clear();
  EXPECT_EQ(role->step(context_).value(), Progress::kDone);
  EXPECT_EQ(published().info().version, 2);
  EXPECT_EQ(counting_.steps, 2);
}

TEST_F(OwnLearnerTest, ErrsWhenItsPrioritiesOrItsPolicyAreNone) {
  for (const std::vector<double>& wrong :
       {std::vector<double>{1, 2}, {1, 2, 3, -1}, {1, 2, 3, std::numeric_limits<double>::infinity()}}) {
    counting_.priorities = wrong;
    const auto role = make(true);
    batch();
    const auto said = role->step(context_);
    ASSERT_FALSE(said.ok());
    EXPECT_NE(said.error().message.find("priorit"), std::string::npos) << said.error().message;
  }
  counting_.value = std::numeric_limits<float>::quiet_NaN();
  const auto said = make()->step(context_);
  ASSERT_FALSE(said.ok());
  EXPECT_NE(said.error().message.find("element 0 is nan"), std::string::npos) << said.error().message;
}

TEST_F(OwnLearnerTest, RefusesABatchOfOtherColumnsAndGoesOn) {
  const auto role = make();
  batch({{"y", DType::kF32, Shape{2}}});
  batch();
  EXPECT_EQ(role->step(context_).value(), Progress::kMore);
  EXPECT_EQ(context_.refused.size(), 1U);
  EXPECT_EQ(counting_.steps, 0);
  EXPECT_EQ(role->step(context_).value(), Progress::kMore);
  EXPECT_EQ(counting_.steps, 1);
}

TEST_F(OwnLearnerTest, GoesOnFromWhatItSavedBehindVersionsThatOthersKnow) {
  const auto role = make();
  for (int i = 0; i < 3; ++i) {
    batch();
    ASSERT_TRUE(role->step(context_).ok());
  }
  const RoleState saved = role->save().value();
  const auto weight = std::ranges::find(saved.tensors, "policy/0/weight", &StateTensor::name);
  ASSERT_NE(weight, saved.tensors.end());
  EXPECT_EQ(weight->shape, (Shape{2, 3}));

  counting_.steps = 0;
  const auto again = make();
  ASSERT_TRUE(again->restore(saved).ok());
  EXPECT_EQ(counting_.steps, 3);
  ASSERT_TRUE(again->step(context_).ok());
  EXPECT_EQ(published().info().version, 3);
  context_.in("refused").frames.emplace_back(messages::make_parameters_version(context_.pool(), {9}).value());
  ASSERT_TRUE(again->step(context_).ok());
  EXPECT_EQ(published().info().version, 10);
  EXPECT_EQ(counter(*again, "steps"), 3);
  const std::int64_t absurd = std::numeric_limits<std::int64_t>::max();
  context_.in("refused").frames.emplace_back(messages::make_parameters_version(context_.pool(), {absurd}).value());
  ASSERT_TRUE(again->step(context_).ok());
  EXPECT_EQ(context_.refused.size(), 1U);
  EXPECT_EQ(counter(*again, "version"), 10);
}

}  // namespace
}  // namespace troupe::actors::testing
