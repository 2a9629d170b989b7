// The residual SN-GAN against PyTorch (make_sngan_golden.py), and its layers at the sizes of the paper.
#include <troupe/algorithms/sngan/resnet.hpp>

#include <gtest/gtest.h>

#include <troupe/algorithms/sngan/replica.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/tests/learner/models.hpp>

namespace troupe::learner::sngan {
namespace {

Options small(std::int64_t classes) {
  return {.network = Network::kResnet,
          .image = {32, 32, 3},
          .classes = classes,
          .noise_size = 5,
          .generator_width = 3,
          .discriminator_width = 4,
          .n_dis = 2,
          .optimizer = {.rule = Adam{.learning_rate = 0.01, .beta1 = 0, .beta2 = 0.9, .epsilon = 1e-2}}};
}

MakeReplica resnet_maker(const Options& options) {
  return [options](InputFn input_fn) { return training(options, std::move(input_fn)); };
}

class SnganResnet : public testing::TestWithParam<std::int64_t> {};

TEST_P(SnganResnet, TakesPyTorchsSteps) {
  const Golden golden("sngan_resnet.safetensors");
  const std::int64_t classes = GetParam();
  const std::string prefix = classes > 0 ? "conditional/" : "plain/";
  const Signature signature = batch_signature(small(classes));
  BatchView batch{&signature, 3, {}};
  for (const TensorSpec& column : signature) batch.columns.push_back(golden.find(prefix + column.name).bytes);
  for (const int stripes : {1, 3}) {
    const State state = train(
        resnet_maker(small(classes)), {batch, batch}, {3}, stripes,
        [&](Program& program) { load_initial(program, golden, prefix + "initial"); },
        [&](std::size_t step, Program& program) {
          const auto expected = [&](const std::string& name) {
            return golden.values<double>(prefix + name + "/" + std::to_string(step))[0];
          };
          EXPECT_NEAR(program.metrics()[0], expected("discriminator_loss"), 2e-5) << step;
          EXPECT_NEAR(program.metrics()[1], expected("generator_loss"), 2e-5) << step;
        });
    std::size_t compared = 0;
    for (const auto& [name, values] : state) {
      if (name.ends_with(".adam_v")) continue;
      const std::vector<double> expected = golden.values<double>(prefix + "final/" + name);
      ASSERT_EQ(values.size(), expected.size()) << name;
      double scale = 1;
      for (const double x : expected) scale = std::max(scale, std::abs(x));
      for (std::size_t i = 0; i < values.size(); ++i) {
        // float32 sums over up to 3072 pixels and ten layers; Adam's large epsilon divides an error of a gradient.
        EXPECT_NEAR(values[i], expected[i], 1e-4 * scale) << name << '[' << i << ']';
      }
      ++compared;
    }
    EXPECT_GT(compared, 80U);
  }
}

TEST_P(SnganResnet, SeveralReplicasTrainAsOne) {
  Options options = small(GetParam());
  options.image = {8, 8, 1};
  const Signature signature = batch_signature(options);
  std::vector<std::unique_ptr<BatchBuffer>> buffers;
  std::vector<BatchView> batches;
  Rng rng(8);
  for (int step = 0; step < 3; ++step) {
    buffers.push_back(std::make_unique<BatchBuffer>(signature, 12));
    const MutableBatchView& view = buffers.back()->mutable_view();
    for (std::size_t column : {0U, 1U}) {
      for (float& x : view.as<float>(column)) x = static_cast<float>(rng.normal());
    }
    for (std::size_t row = 0; options.classes > 0 && row < 12; ++row) {
      view.as<std::int32_t>(2)[row] = static_cast<std::int32_t>(rng.below(2));
    }
    batches.push_back(buffers.back()->view());
  }
  const State one = train(resnet_maker(options), batches, {12}, 1);
  EXPECT_LT(largest_difference(train(resnet_maker(options), batches, {5, 7}, 2), one), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Classes, SnganResnet, testing::Values(0, 2));

TEST(SnganEvaluation, SeesTheSameNoiseAndLabelsEachTime) {
  const auto replica = evaluation(small(3), 10, 7);
  const auto input = replica->input_fn({.replica_batch = 4, .global_batch = 4}).value();
  std::vector<std::vector<float>> noise;
  for (int batch = 0; batch < 4; ++batch) {
    const BatchView view = input->next().value();
    noise.emplace_back(view.as<float>(0).begin(), view.as<float>(0).end());
    for (std::size_t row = 0; row < 4; ++row) {
      const int image = batch % 3 * 4 + static_cast<int>(row);  // three batches hold 10 images, then it begins again
      EXPECT_EQ(view.as<std::int32_t>(1)[row], image % 3) << batch;
    }
  }
  EXPECT_EQ(noise[3], noise[0]);
  EXPECT_NE(noise[1], noise[0]);
}

TEST(SnganResnetPlan, IsThePapersForEachSize) {
  const auto plan = [](std::int64_t side) {
    return resnet_plan({.image = {side, side, 3}, .generator_width = 64, .discriminator_width = 32}).value();
  };
  using Widths = std::vector<std::int64_t>;
  EXPECT_EQ(plan(32).bottom, 4);
  EXPECT_EQ(plan(32).generator, (Widths{64, 64, 64, 64}));
  EXPECT_EQ(plan(32).discriminator, (Widths{32, 32, 32, 32}));
  EXPECT_EQ(plan(32).halvings, 2);
  EXPECT_EQ(plan(28).bottom, 7);
  EXPECT_EQ(plan(28).generator, (Widths{64, 64, 64}));
  EXPECT_EQ(plan(64).generator, (Widths{1024, 512, 256, 128, 64}));
  EXPECT_EQ(plan(64).discriminator, (Widths{32, 64, 128, 256, 512}));
  EXPECT_EQ(plan(64).halvings, 5);
  EXPECT_EQ(plan(128).generator, (Widths{1024, 1024, 512, 256, 128, 64}));
  EXPECT_EQ(plan(128).discriminator, (Widths{32, 64, 128, 256, 512, 512}));
  EXPECT_EQ(plan(128).halvings, 5);
  for (const Shape& odd : {Shape{30, 30, 3}, Shape{32, 64, 3}, Shape{6, 6, 1}, Shape{1, 1, 1}}) {
    const Status refused = validate({.network = Network::kResnet, .image = odd});
    ASSERT_FALSE(refused.ok()) << odd.to_string();
    EXPECT_NE(refused.error().message.find("a square whose side is 4 to 7 times a power of two"), std::string::npos);
  }
}

TEST(SnganResnetPlan, BuildsLargeNetworksToo) {
  // The shapes of 64 and 128 pixels, with few channels: a step of each.
  for (const std::int64_t side : {64, 128}) {
    Options options = small(2);
    options.image = {side, side, 3};
    options.generator_width = options.discriminator_width = 1;
    const Signature signature = batch_signature(options);
    BatchBuffer batch(signature, 2);
    const State state = train(resnet_maker(options), {batch.view()}, {2}, 1);
    EXPECT_TRUE(state.contains("generator/block3/conv0/weight"));
    EXPECT_TRUE(state.contains("discriminator/block4/conv1/weight"));
  }
}

}  // namespace
}  // namespace troupe::learner::sngan
