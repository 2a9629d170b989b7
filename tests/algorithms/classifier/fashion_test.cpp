// The classifier on real images: Fashion-MNIST to 89 % test accuracy, with either optimiser.
#include <gtest/gtest.h>

#include <memory>
#include <span>

#include <troupe/algorithms/classifier/replica.hpp>
#include <troupe/data/image_batches.hpp>
#include <troupe/data/images.hpp>
#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::learner::classifier {
namespace {

class Pipeline : public InputPipeline {
 public:
  Pipeline(std::shared_ptr<const data::ImageReader> images, std::int64_t batch, bool shuffle)
      : batches_(std::move(images), {.global_batch = batch, .seed = 3, .shuffle = shuffle}) {}
  const Signature& signature() const override { return batches_.signature(); }
  Result<BatchView> next() override { return batches_.at(step_++); }

 private:
  data::ImageBatches batches_;
  std::int64_t step_ = 0;
};

constexpr std::int64_t kBatch = 120, kSteps = 4000;  // a divisor of 60000: no short batch; eight epochs

double test_accuracy_of(const Options& options) {
  const auto input = [](data::Split split, std::int64_t batch) {
    return [=](const InputContext&) -> Result<std::unique_ptr<InputPipeline>> {
      TROUPE_ASSIGN(auto set, data::load_fashion_mnist(split));
      TROUPE_ASSIGN(auto images, data::ImageReader::make(std::move(set), {}));
      return std::unique_ptr<InputPipeline>(new Pipeline(images, batch, split == data::Split::kTrain));
    };
  };
  const auto replica = training(options, input(data::Split::kTrain, kBatch));
  const auto trained = OneDevice::make(*replica, {.batch = kBatch, .compile = {.stripes = 2}}).value();
  for (std::int64_t step = 0; step < kSteps; ++step) trained->step().value();

  const auto judge = evaluation(options, input(data::Split::kTest, 1000));
  const auto evaluation = OneDevice::make(*judge, {.batch = 1000, .compile = {.stripes = 2}}).value();
  Program& program = evaluation->program();
  for (std::size_t i = 0; i < program.group_count(); ++i) {
    const ParamBuffer& from = *trained->program().params(program.group(i).layout().group);
    program.group(i).load(from.values(), from.fingerprint()).value();
  }
  ParamBuffer& state = trained->program().state();
  program.state().load(state.values(), state.fingerprint()).value();
  program.parameters_changed();
  double correct = 0;
  for (int step = 0; step < 10; ++step) {
    evaluation->step().value();
    correct += program.metrics()[1] / 10;
  }
  return correct;
}

class OnFashionMnist : public testing::Test {
 protected:
  void SetUp() override {
    if (!data::load_fashion_mnist(data::Split::kTest).ok()) GTEST_SKIP() << "needs the package dataset-fashion-mnist";
  }
};

using SlowOnFashionMnist = OnFashionMnist;

TEST_F(SlowOnFashionMnist, NesterovWithCosineAndBatchNormReaches89Percent) {
  const double accuracy = test_accuracy_of(
      {.batch_norm = true,
       .optimizer = {.rule = Sgd{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 5e-4},
                     .schedule = {.kind = Schedule::Kind::kCosine, .warmup_steps = 200, .total_steps = kSteps}}});
  RecordProperty("accuracy", std::to_string(accuracy));
  EXPECT_GE(accuracy, 0.89);
}

TEST_F(OnFashionMnist, AdamWithItsAverageReaches89Percent) {
  const double accuracy = test_accuracy_of(
      {.optimizer = {.rule = Adam{.learning_rate = 1e-3},
                     .schedule = {.kind = Schedule::Kind::kLinear, .total_steps = kSteps, .final_factor = 0.05}},
       .average_decay = 0.995});
  RecordProperty("accuracy", std::to_string(accuracy));
  EXPECT_GE(accuracy, 0.89);
}

}  // namespace
}  // namespace troupe::learner::classifier
