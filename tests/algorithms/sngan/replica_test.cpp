// The SN-GAN against PyTorch (make_replicas_golden.py), and several replicas against one.
#include <troupe/algorithms/sngan/replica.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/core/rng.hpp>
#include <troupe/learner/replicate/device_replicas.hpp>
#include <troupe/tests/learner/models.hpp>

namespace troupe::learner::sngan {
namespace {

using testing::HasSubstr;

Options options() {
  return {.image = {2, 3, 1},
          .noise_size = 3,
          .generator_sizes = {8},
          .discriminator_sizes = {9, 5},
          .n_dis = 2,
          .optimizer = {.rule = Adam{.learning_rate = 0.01, .beta1 = 0, .beta2 = 0.9, .epsilon = 1e-2}},
          .average_decay = 0.9};
}

MakeReplica maker(const Options& options) {
  return [options](InputFn input) { return training(options, std::move(input)); };
}

TEST(Sngan, TakesTheStepsThatPyTorchTakes) {
  const Golden golden("replicas.safetensors");
  const Signature signature = batch_signature(options());
  std::vector<BatchView> batches;
  for (const std::string step : {"0", "1", "2", "3"}) {
    batches.push_back(
        {&signature, 12, {golden.find("sngan/image/" + step).bytes, golden.find("sngan/noise/" + step).bytes}});
  }
  for (const int stripes : {1, 3}) {
    const State state = train(
        maker(options()), batches, {12}, stripes,
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

TEST(Sngan, TheGeneratorsScheduleEndsWithTheSteps) {
  // The rate falls to 0 over as many steps as are taken, so the last of the generator's updates is a small one. With
  // beta1 0 a step of Adam is the rate times the sign of the gradient, about.
  Options falling = options();
  falling.optimizer = {.rule = Adam{.learning_rate = 0.01, .beta1 = 0, .beta2 = 0.1, .epsilon = 1e-8},
                       .schedule = {.kind = Schedule::Kind::kLinear, .total_steps = 40}};
  BatchBuffer batch(batch_signature(falling), 12);
  Rng rng(8);
  for (std::size_t column : {0U, 1U}) {
    for (float& x : batch.mutable_view().as<float>(column)) x = static_cast<float>(rng.normal());
  }
  std::vector<std::vector<float>> weights;
  train(maker(falling), std::vector<BatchView>(40, batch.view()), {12}, 1, {},
        [&](std::size_t, Program& program) { weights.push_back(state_of(program).at("generator/layer0/weight")); });
  const auto moved = [&](std::size_t step) {
    double largest = 0;
    for (std::size_t i = 0; i < weights[step].size(); ++i) {
      largest = std::max<double>(largest, std::abs(weights[step][i] - weights[step - 1][i]));
    }
    return largest;
  };
  EXPECT_GT(moved(1), 0.009);
  EXPECT_EQ(moved(38), 0);  // n_dis is 2
  EXPECT_GT(moved(39), 0);
  EXPECT_LT(moved(39), 0.01 / 20 * 1.5);  // the last of 20 updates; beta2 lets it be somewhat more than the rate
}

/// What is said of a replica whose copy of a state is no longer that of the others.
std::string said_of_drifted(const Options& options, const std::string& state) {
  const Signature signature = batch_signature(options);
  const auto input = [&](const InputContext& context) -> Result<std::unique_ptr<InputPipeline>> {
    class Noise final : public InputPipeline {
     public:
      Noise(const Signature& signature, const InputContext& context)
          : signature_(signature),
            batch_(signature_, context.replica_batch),
            rng_(derive_seed(8, "noise", static_cast<std::uint64_t>(context.replica_id))) {}
      const Signature& signature() const override { return signature_; }
      Result<BatchView> next() override {
        for (std::size_t column : {0U, 1U}) {
          for (float& x : batch_.mutable_view().as<float>(column)) x = static_cast<float>(rng_.normal());
        }
        return batch_.view();
      }

     private:
      const Signature signature_;
      BatchBuffer batch_;
      Rng rng_;
    };
    return {std::make_unique<Noise>(signature, context)};
  };
  const auto replica = training(options, input);
  const auto devices = MultiDevice::make(*replica, {.replicas = 3, .global_batch = 12, .check_every_steps = 1}).value();
  for (int step = 0; step < 3; ++step) devices->step().value();  // equal this far, by the check
  ParamBuffer& of_two = devices->program(2).state();
  for (const ParamEntry& entry : of_two.layout().entries) {
    if (entry.name == "state/" + state) of_two.tensor(entry)[0] += 1e-6F;
  }
  const Status checked = devices->step();
  return checked.ok() ? std::string() : checked.error().message;
}

TEST(Sngan, FindsStateThatHasDrifted) {
  for (const std::string state :
       {"discriminator/layer0/u", "discriminator/layer2/u", "generator/layer0/mean", "generator/layer0/variance"}) {
    EXPECT_EQ(said_of_drifted(options(), state),
              "step 3: variable \"state/" + state + "\" of rank 2 is not that of rank 0, expected equal");
  }
  // Its own statistics are a replica's own business.
  Options apart = options();
  apart.sync_batch_norm = false;
  EXPECT_EQ(said_of_drifted(apart, "generator/layer0/mean"), "");
  EXPECT_NE(said_of_drifted(apart, "discriminator/layer1/u"), "");
}

TEST(Sngan, RefusesOptionsThatMakeNoSense) {
  const auto message = [](auto change) {
    Options changed = options();
    change(changed);
    const Status status = validate(changed);
    return status.ok() ? std::string("valid") : status.error().message;
  };
  EXPECT_EQ(message([](Options&) {}), "valid");
  EXPECT_THAT(message([](Options& o) { o.image = {6}; }), HasSubstr("image is [6]"));
  EXPECT_THAT(message([](Options& o) { o.noise_size = 0; }), HasSubstr("noise_size is 0"));
  EXPECT_THAT(message([](Options& o) { o.n_dis = 0; }), HasSubstr("n_dis is 0"));
  EXPECT_THAT(message([](Options& o) { o.generator_sizes = {-1}; }), HasSubstr("generator_sizes is -1"));
  EXPECT_THAT(message([](Options& o) { o.average_decay = -1; }), HasSubstr("average_decay is -1"));
  EXPECT_THAT(message([](Options& o) { o.optimizer.rule = Adam{.beta2 = 1}; }), HasSubstr("beta2 is 1"));
}

}  // namespace
}  // namespace troupe::learner::sngan
