// The two sides of the SN-GAN apart: step by step in turn they are training(), and several of a side train as one.
#include <troupe/algorithms/sngan/adversaries.hpp>

#include <gtest/gtest.h>

#include <troupe/algorithms/sngan/networks.hpp>
#include <troupe/algorithms/sngan/replica.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/tests/learner/models.hpp>

namespace troupe::learner::sngan {
namespace {

constexpr std::int64_t kRows = 24;

Options options() {
  return {.image = {2, 3, 1},
          .noise_size = 3,
          .generator_sizes = {8},
          .discriminator_sizes = {9, 5},
          .n_dis = 2,
          .optimizer = {.rule = Adam{.learning_rate = 0.01, .beta1 = 0, .beta2 = 0.9, .epsilon = 1e-2}},
          .average_decay = 0.9};
}

/// Of residual networks on the smallest image that they take.
Options residual(std::int64_t classes) {
  Options made = options();
  made.network = Network::kResnet;
  made.image = {8, 8, 1};
  made.classes = classes;
  made.generator_width = made.discriminator_width = 3;
  return made;
}

/// Batches of normal values, and labels below 5.
class Batches {
 public:
  Batches(Signature signature, int count, std::uint64_t seed) : signature_(std::move(signature)) {
    Rng rng(seed);
    for (int i = 0; i < count; ++i) {
      buffers_.push_back(std::make_unique<BatchBuffer>(signature_, kRows));
      const MutableBatchView& batch = buffers_.back()->mutable_view();
      for (std::size_t column = 0; column < batch.columns.size(); ++column) {
        if (signature_[column].dtype == DType::kI32) {
          for (std::int32_t& x : batch.as<std::int32_t>(column)) x = static_cast<std::int32_t>(rng.below(5));
          continue;
        }
        for (float& x : batch.as<float>(column)) x = static_cast<float>(rng.normal());
      }
      views.push_back(buffers_.back()->view());
    }
  }
  std::vector<BatchView> views;

 private:
  const Signature signature_;
  std::vector<std::unique_ptr<BatchBuffer>> buffers_;
};

/// What the discriminator's program has and the generator's has a copy of.
void copy_discriminator(Program& from, Program& to) {
  std::ranges::copy(from.params(kDiscriminatorGroup)->values(), to.params(kDiscriminatorGroup)->values().begin());
  for (const ParamEntry& entry : from.state().layout().entries) {
    std::ranges::copy(from.state().tensor(entry), to.state().tensor(*to.state().layout().find(entry.name)).begin());
  }
  to.parameters_changed();
}

void expect_the_synchronous_step(const Options& options) {
  const Batches batches(batch_signature(options), 6, 3);
  std::vector<State> expected;
  train([&](InputFn input) { return training(options, std::move(input)); }, batches.views, {kRows}, 1, {},
        [&](std::size_t, Program& program) { expected.push_back(state_of(program)); });

  Signature with_fake = batch_signature(options);
  for (const TensorSpec& column : fakes_signature(options)) with_fake.push_back(column);
  BatchSlot noise(batch_signature(options)), images(with_fake);
  const auto generator = generator_training(options, [&](const InputContext&) { return noise.pipeline(); });
  const auto discriminator = discriminator_training(options, [&](const InputContext&) { return images.pipeline(); });
  const CompileOptions compile = {.seed = 11};  // that of train()
  const auto g = OneDevice::make(*generator, {.batch = kRows, .compile = compile}).value();
  const auto d = OneDevice::make(*discriminator, {.batch = kRows, .compile = compile}).value();
  for (std::size_t step = 0; step < batches.views.size(); ++step) {
    // The first step has what the seed gives.
    if (step > 0) copy_discriminator(d->program(), g->program());
    noise.offer(batches.views[step]).value();
    g->step().value();
    BatchView both = batches.views[step];
    both.signature = &with_fake;
    both.columns.push_back(std::as_bytes(g->program().output(kFakes)));
    if (options.classes > 0) both.columns.push_back(both.columns[static_cast<std::size_t>(both.find("label"))]);
    images.offer(both).value();
    d->step().value();
    State apart = state_of(g->program());
    for (auto& [name, values] : state_of(d->program())) apart[name] = values;  // the generator's copy is one step older
    EXPECT_LT(largest_difference(apart, expected[step]), 1e-6) << "step " << step;
  }
}

TEST(Adversaries, InTurnAreTheSynchronousStep) { expect_the_synchronous_step(options()); }
TEST(Adversaries, ResidualOnesToo) { expect_the_synchronous_step(residual(0)); }
TEST(Adversaries, ConditionalOnesToo) { expect_the_synchronous_step(residual(5)); }

TEST(Adversaries, SeveralOfASideTrainAsOne) {
  const Batches noise({{"noise", DType::kF32, Shape{3}}}, 4, 5);
  const Batches images({{"image", DType::kF32, {2, 3, 1}}, {kFakes, DType::kF32, {2, 3, 1}}}, 4, 6);
  const MakeReplica generator = [](InputFn input) { return generator_training(options(), std::move(input)); };
  const MakeReplica discriminator = [](InputFn input) { return discriminator_training(options(), std::move(input)); };
  const State one_generator = train(generator, noise.views, {kRows}, 1);
  const State one_discriminator = train(discriminator, images.views, {kRows}, 1);
  for (const std::vector<std::int64_t>& shares : {std::vector<std::int64_t>{12, 12}, {5, 11, 8}}) {
    EXPECT_LT(largest_difference(train(generator, noise.views, shares, 1), one_generator), 2e-5) << shares.size();
    EXPECT_LT(largest_difference(train(discriminator, images.views, shares, 1), one_discriminator), 2e-5)
        << shares.size();
  }
}

TEST(Adversaries, EachGeneratorHasADiscriminatorOfItsOwn) {
  const auto generator = generator_training(options(), noise_input(options(), 1));
  const auto g = OneDevice::make(*generator, {.batch = 4}).value();
  const Program& program = g->program();
  for (const ParamEntry& entry : program.params(kDiscriminatorGroup)->layout().entries) {
    EXPECT_EQ(entry.policy, VariablePolicy::kLocal) << entry.name;
  }
  for (const ParamEntry& entry : program.params(kGeneratorGroup)->layout().entries) {
    EXPECT_EQ(entry.policy, VariablePolicy::kSync) << entry.name;
  }
  for (const ParamEntry& entry : g->program().state().layout().entries) {
    const bool copied = entry.name.starts_with("state/discriminator/");
    EXPECT_EQ(entry.policy, copied ? VariablePolicy::kLocal : VariablePolicy::kSync) << entry.name;
  }
}

TEST(NoiseInput, DependsOnTheGlobalRowAlone) {
  const auto at = [](int replica, int replicas, std::int64_t step) {
    const InputContext context{.replica_id = replica,
                               .replica_count = replicas,
                               .replica_batch = 12 / replicas,
                               .global_batch = 12,
                               .first_step = step};
    const auto input = noise_input(options(), 9)(context).value();
    const auto noise = input->next()->as<float>(0);
    return std::vector<float>(noise.begin(), noise.end());
  };
  const std::vector<float> whole = at(0, 1, 2);
  ASSERT_EQ(whole.size(), 36U);
  std::vector<float> shared;
  for (int replica = 0; replica < 3; ++replica) {
    const auto share = at(replica, 3, 2);
    shared.insert(shared.end(), share.begin(), share.end());
  }
  EXPECT_EQ(shared, whole);
  EXPECT_NE(at(0, 1, 3), whole);
}

}  // namespace
}  // namespace troupe::learner::sngan
