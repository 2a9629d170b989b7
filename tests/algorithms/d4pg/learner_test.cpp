// The D4PG learner as a whole: it fits, it solves a task whose best policy is known (also with bfloat16 products), it
// continues bit for bit from a saved state, and it says what is wrong with its input.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <troupe/algorithms/d4pg/policy.hpp>
#include <troupe/learner/engine/program_state.hpp>
#include <troupe/tests/algorithms/d4pg/batches.hpp>
#include <troupe/tests/algorithms/d4pg/hand_fed.hpp>

namespace troupe::learner::d4pg {
namespace {

std::unique_ptr<HandFed> make_learner(const Options& options, const CompileOptions& compile = {}) {
  Result<std::unique_ptr<HandFed>> learner = HandFed::make({.d4pg = options, .compile = compile});
  EXPECT_TRUE(learner.ok()) << learner.error().message;
  return std::move(learner).value();
}

/// Trains on freshly drawn transitions.
void train_to_steer(HandFed& learner, int steps) {
  Rng rng(3);
  BatchBuffer batch(learner.signature(), 64);
  for (int step = 0; step < steps; ++step) {
    fill_steering(rng, batch);
    const Result<StepMetrics> metrics = learner.step(batch.view());
    ASSERT_TRUE(metrics.ok()) << metrics.error().message;
  }
}

/// Mean distance of the policy's actions from the best ones over the states -1, -0.9, ..., 1.
double steering_error(const HandFed& learner, const Options& options) {
  const std::unique_ptr<Policy> policy = make_policy(options, {.rows = 21}).value();
  policy->load(learner.policy().values(), learner.policy().fingerprint()).value();
  BatchBuffer inputs(policy->columns().inputs, 21), outputs(policy->columns().outputs, 21);
  const std::span<float> states = inputs.mutable_view().as<float>(0), actions = outputs.mutable_view().as<float>(0);
  for (int i = 0; i < 21; ++i) states[static_cast<std::size_t>(i)] = static_cast<float>(i - 10) / 10;
  policy->act(inputs.view(), outputs.mutable_view()).value();
  double error = 0;
  for (std::size_t i = 0; i < states.size(); ++i) error += std::abs(actions[i] - best_steering(states[i])) / 21;
  return error;
}

class ComputeTypes : public testing::TestWithParam<DType> {};

TEST_P(ComputeTypes, LearnsToSteer) {
  const Options options = steering_options();
  const std::unique_ptr<HandFed> learner = make_learner(options, {.compute = GetParam(), .seed = 1});
  EXPECT_GT(steering_error(*learner, options), 0.5) << "the task must not be solved by the initial policy";
  train_to_steer(*learner, 3000);
  EXPECT_LT(steering_error(*learner, options), 0.1);
}

INSTANTIATE_TEST_SUITE_P(D4pg, ComputeTypes, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(D4pgLearner, FitsAFixedBatch) {
  const Options options = steering_options();
  const std::unique_ptr<HandFed> learner = make_learner(options);
  Rng rng(5);
  BatchBuffer batch(learner->signature(), options.batch);
  fill_steering(rng, batch);
  // Episodes that end at once: a row's target is its reward, spread over two atoms, so the loss can fall below log(2).
  std::ranges::fill(batch.mutable_view().as<float>(3), 0.0F);
  const double first = learner->step(batch.view()).value().critic_loss;
  double last = first;
  for (int step = 0; step < 300; ++step) last = learner->step(batch.view()).value().critic_loss;
  EXPECT_GT(first, 2.5);  // nearly uniform over 41 atoms: log(41) = 3.7
  EXPECT_LT(last, 0.7);
}

TEST(D4pgLearner, TwoStripesLearnAsOne) {
  const Options options = steering_options();
  const std::unique_ptr<HandFed> learner = make_learner(options, {.stripes = 2, .seed = 1});
  train_to_steer(*learner, 3000);
  EXPECT_LT(steering_error(*learner, options), 0.1);
}

TEST(D4pgLearner, TdErrorsAreTheRowsOfTheLoss) {
  Options options = steering_options();
  options.importance_weights = true;
  const std::unique_ptr<HandFed> learner = make_learner(options);
  Rng rng(6);
  BatchBuffer batch(learner->signature(), options.batch);
  fill_random(rng, batch);
  const double loss = learner->step(batch.view()).value().critic_loss;
  const std::span<const float> td_error = learner->td_error();
  const std::span<const float> weight = batch.view().as<float>(5);
  ASSERT_EQ(td_error.size(), 64U);
  double weighted = 0;
  for (std::size_t row = 0; row < 64; ++row) weighted += weight[row] * td_error[row] / 64;
  EXPECT_NEAR(weighted, loss, 1e-5 * loss);
}

TEST(D4pgLearner, ContinuesFromASavedStateBitForBit) {
  const Options options = steering_options();
  const std::unique_ptr<HandFed> original = make_learner(options, {.seed = 1});
  train_to_steer(*original, 30);  // past a target copy, so that targets and online parameters differ

  std::vector<std::vector<std::byte>> storage;  // as on disk: copies of the borrowed bytes
  std::vector<messages::TensorBytes> saved = save_state(original->program());
  for (messages::TensorBytes& tensor : saved) {
    storage.emplace_back(tensor.bytes.begin(), tensor.bytes.end());
    tensor.bytes = storage.back();
  }
  const std::int64_t step = original->program().step();
  const std::unique_ptr<HandFed> resumed = make_learner(options, {.seed = 2});
  ASSERT_TRUE(restore_state(resumed->program(), saved, step).ok());

  train_to_steer(*original, 30);
  train_to_steer(*resumed, 30);
  EXPECT_EQ(original->program().step(), resumed->program().step());
  const auto expected = save_state(original->program()), got = save_state(resumed->program());
  ASSERT_EQ(expected.size(), got.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(expected[i].bytes, got[i].bytes)) << expected[i].name;
    EXPECT_FALSE(std::ranges::equal(expected[i].bytes, saved[i].bytes)) << expected[i].name << " did not change";
  }
}

TEST(D4pgLearner, RestoreRefusesAnotherNetworkAndChangesNothing) {
  Options options = steering_options();
  const std::unique_ptr<HandFed> learner = make_learner(options, {.seed = 1});
  options.policy_sizes = {32, 33};
  const std::unique_ptr<HandFed> other = make_learner(options, {.seed = 2});
  const std::vector<float> before(learner->policy().values().begin(), learner->policy().values().end());

  const Status status = restore_state(learner->program(), save_state(other->program()), 7);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kShapeMismatch);
  EXPECT_NE(status.error().message.find("policy/layer1/weight"), std::string::npos) << status.error().message;
  EXPECT_TRUE(std::ranges::equal(before, learner->policy().values()));
  EXPECT_EQ(learner->program().step(), 0);

  std::vector<messages::TensorBytes> tensors = save_state(learner->program());
  tensors.pop_back();
  EXPECT_EQ(restore_state(learner->program(), tensors, 7).error().code, Code::kNotFound);
}

TEST(D4pgLearner, NamesTheColumnThatDoesNotFit) {
  const std::unique_ptr<HandFed> learner = make_learner(steering_options());
  Options wrong = steering_options();
  wrong.environment.action_low = {-1, -1};
  wrong.environment.action_high = {1, 1};
  BatchBuffer batch(batch_signature(wrong), 64);
  const Result<StepMetrics> result = learner->step(batch.view());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Code::kShapeMismatch);
  EXPECT_NE(result.error().message.find("action"), std::string::npos) << result.error().message;

  BatchBuffer large(learner->signature(), 65);
  EXPECT_EQ(learner->step(large.view()).error().code, Code::kShapeMismatch);
  BatchBuffer small(learner->signature(), 63);
  EXPECT_TRUE(learner->step(small.view()).ok());
  EXPECT_EQ(learner->td_error().size(), 63U);
}

TEST(D4pgLearner, SkipsABatchThatIsNotFiniteAndStopsAfterTen) {
  const std::unique_ptr<HandFed> learner = make_learner(steering_options());
  Rng rng(8);
  BatchBuffer batch(learner->signature(), 64);
  fill_steering(rng, batch);
  const StepMetrics good = learner->step(batch.view()).value();
  EXPECT_FALSE(good.skipped);
  const std::vector<float> before(learner->policy().values().begin(), learner->policy().values().end());
  batch.mutable_view().as<float>(0)[5] = std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < kMaxSkippedInARow - 1; ++i) {
    const StepMetrics skipped = learner->step(batch.view()).value();
    EXPECT_TRUE(skipped.skipped);
    EXPECT_EQ(skipped.critic_loss, good.critic_loss);
  }
  EXPECT_TRUE(std::equal(before.begin(), before.end(), learner->policy().values().begin()));
  EXPECT_EQ(learner->program().step(), 1);
  EXPECT_EQ(learner->step(batch.view()).error().code, Code::kInternal);
}

}  // namespace
}  // namespace troupe::learner::d4pg
