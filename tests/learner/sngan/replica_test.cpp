// The SN-GAN against PyTorch (make_replicas_golden.py), and several replicas against one.
#include <troupe/learner/sngan/replica.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/core/rng.hpp>
#include <troupe/tests/learner/models.hpp>

namespace troupe::learner::sngan {
namespace {

using testing::HasSubstr;

Options options() {
  return {.pixels = 6,
          .noise_size = 3,
          .generator_sizes = {8},
          .discriminator_sizes = {9, 5},
          .n_dis = 2,
          .optimizer = {.learning_rate = 0.01, .beta1 = 0, .beta2 = 0.9, .epsilon = 1e-2},
          .average_decay = 0.9};
}

MakeReplica maker(const Options& options) {
  return [options](InputFn input) { return std::make_unique<SnganReplica>(options, std::move(input)); };
}

TEST(Sngan, TakesTheStepsThatPyTorchTakes) {
  const Golden golden("replicas.safetensors");
  const Signature signature = batch_signature(options());
  std::vector<BatchView> batches;
  for (const std::string step : {"0", "1", "2", "3"}) {
    batches.push_back(
        {&signature, 12, {golden.find("sngan/image/" + step).bytes, golden.find("sngan/noise/" + step).bytes}});
  }
  for (const int shards : {1, 3}) {
    const State state = train(
        maker(options()), batches, {12}, shards,
        [&](Program& program) { load_initial(program, golden, "sngan/initial"); },
        [&](std::size_t step, Program& program) {
          const auto expected = [&](const std::string& name) {
            return golden.values<double>("sngan/" + name + "/" + std::to_string(step))[0];
          };
          EXPECT_NEAR(program.metrics()[0], expected("discriminator_loss"), 1e-5) << step;
          EXPECT_NEAR(program.metrics()[1], expected("generator_loss"), 1e-5) << step;
        });
    for (const auto& [name, values] : state) {
      const std::vector<double> expected = golden.values<double>("sngan/final/" + name);
      ASSERT_EQ(values.size(), expected.size()) << name;
      for (std::size_t i = 0; i < values.size(); ++i) {
        // float32 through four steps; Adam's large epsilon keeps an error of 1e-7 in a gradient below 1e-6 of a step.
        EXPECT_NEAR(values[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << name << '[' << i << ']';
      }
    }
  }
}

TEST(Sngan, SeveralReplicasTrainAsOne) {
  const Signature signature = batch_signature(options());
  std::vector<std::unique_ptr<BatchBuffer>> buffers;
  std::vector<BatchView> batches;
  Rng rng(8);
  for (int step = 0; step < 4; ++step) {
    buffers.push_back(std::make_unique<BatchBuffer>(signature, 24));
    for (std::size_t column : {0U, 1U}) {
      for (float& x : buffers.back()->mutable_view().as<float>(column)) x = static_cast<float>(rng.normal());
    }
    batches.push_back(buffers.back()->view());
  }
  const State one = train(maker(options()), batches, {24}, 1);
  for (const std::vector<std::int64_t>& shares : {std::vector<std::int64_t>{12, 12}, {7, 17}, {5, 11, 8}}) {
    EXPECT_LT(largest_difference(train(maker(options()), batches, shares, 2), one), 2e-5) << shares.size();
  }
}

TEST(Sngan, RefusesOptionsThatMakeNoSense) {
  const auto message = [](auto change) {
    Options changed = options();
    change(changed);
    const Status status = validate(changed);
    return status.ok() ? std::string("valid") : status.error().message;
  };
  EXPECT_EQ(message([](Options&) {}), "valid");
  EXPECT_THAT(message([](Options& o) { o.pixels = 0; }), HasSubstr("pixels is 0"));
  EXPECT_THAT(message([](Options& o) { o.noise_size = 0; }), HasSubstr("noise_size is 0"));
  EXPECT_THAT(message([](Options& o) { o.n_dis = 0; }), HasSubstr("n_dis is 0"));
  EXPECT_THAT(message([](Options& o) { o.generator_sizes = {-1}; }), HasSubstr("generator_sizes is -1"));
  EXPECT_THAT(message([](Options& o) { o.average_decay = -1; }), HasSubstr("average_decay is -1"));
  EXPECT_THAT(message([](Options& o) { o.optimizer.beta2 = 1; }), HasSubstr("beta2 is 1"));
}

}  // namespace
}  // namespace troupe::learner::sngan
