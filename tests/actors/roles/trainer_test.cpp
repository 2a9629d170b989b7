#include <troupe/actors/roles/trainer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include <troupe/actors/roles/policy_publication.hpp>
#include <troupe/actors/roles/replay_feed.hpp>
#include <troupe/algorithms/d4pg/networks.hpp>
#include <troupe/algorithms/d4pg/policy.hpp>
#include <troupe/algorithms/d4pg/replica.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/tests/actors/fake_context.hpp>

namespace troupe::actors {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::FakeContext;

constexpr std::int64_t kRows = 4;

class TrainerTest : public ::testing::Test {
 protected:
  static learner::d4pg::Options d4pg(bool prioritised) {
    learner::d4pg::Options options;
    options.environment = {3, {-1}, {1}};
    options.policy_sizes = {8};
    options.critic_sizes = {8};
    options.batch = kRows;
    options.target_period = 2;
    options.importance_weights = prioritised;
    return options;
  }
  /// D4PG on batches of replay, whose policy is published, or another group.
  std::unique_ptr<Role> make(std::size_t replay_shards, bool prioritised,
                             const std::string& published = learner::d4pg::kPolicyGroup) {
    context.out("priorities").consumer_count = replay_shards;
    const learner::d4pg::Options options = d4pg(prioritised);
    const MakeFedReplica make_replica = [options](learner::InputFn input) {
      return learner::d4pg::training(options, std::move(input));
    };
    return Trainer::make({.feed = replay_feed({.make_replica = make_replica,
                                               .signature = learner::d4pg::batch_signature(options),
                                               .batches = {.shards = replay_shards, .prioritised = prioritised}}),
                          .publication = policy_publication({.groups = {published}}),
                          .how = {.global_batch = kRows}},
                         {"learner", 0, 1, 0, 9})
        .value();
  }
  /// A batch whose rows were drawn with `probabilities` from a table of `items` items and this mass.
  void batch(std::size_t shard, std::int64_t items, double mass, std::vector<double> probabilities,
             std::uint64_t first_key = 0, float first_value = 0.5F) {
    const auto signature = std::make_shared<const Signature>(learner::d4pg::batch_signature(d4pg(false)));
    auto builder = messages::SampledBatchBuilder::make(context.pool(), signature, kRows).value();
    Rng rng(3);
    for (std::size_t c = 0; c < signature->size(); ++c) {
      for (float& value : builder.columns().as<float>(c)) value = static_cast<float>(rng.uniform());
    }
    builder.columns().as<float>(0)[0] = first_value;
    for (std::size_t r = 0; r < kRows; ++r) {
      builder.rows().keys[r] = first_key + r;
      builder.rows().probabilities[r] = probabilities[r];
    }
    context.in("batches").frames.push_back({std::move(builder).finish({0, items, mass}), shard});
  }
  static double gauge(const Role& role, const std::string& name) {
    Report report;
    role.report(report);
    for (const Scalar& scalar : report.gauges) {
      if (scalar.name == name) return scalar.value;
    }
    ADD_FAILURE() << name;
    return 0;
  }

  FakeContext context;
};

TEST_F(TrainerTest, PrioritiesGoBackToTheShardThatDrewTheBatch) {
  auto role = make(3, true);
  for (std::size_t round = 0; round < 4; ++round) {
    for (std::size_t shard = 0; shard < 3; ++shard) batch(shard, 10, 10, {0.1, 0.1, 0.1, 0.1}, 100 * shard);
  }
  for (int i = 0; i < 12; ++i) ASSERT_EQ(role->step(context).value(), Progress::kMore);
  const auto& priorities = context.out("priorities");
  ASSERT_EQ(priorities.sent.size(), 12u);
  std::vector<int> updates(3, 0);
  for (std::size_t i = 0; i < 12; ++i) {
    const auto update = messages::read_priorities(priorities.sent[i]).value();
    EXPECT_EQ(update.keys[0], 100 * priorities.receivers[i]);
    ++updates[priorities.receivers[i]];
  }
  EXPECT_THAT(updates, Each(4));
}

TEST_F(TrainerTest, ARowThatIsNotFiniteIsSkippedAndNotDrawnAgain) {
  auto role = make(1, true);
  batch(0, 10, 10, {0.1, 0.1, 0.1, 0.1});
  ASSERT_EQ(role->step(context).value(), Progress::kMore);
  const double loss = gauge(*role, "critic_loss");
  batch(0, 10, 10, {0.1, 0.1, 0.1, 0.1}, 40, std::numeric_limits<float>::quiet_NaN());
  ASSERT_EQ(role->step(context).value(), Progress::kMore);
  EXPECT_EQ(role->save()->counter("steps").value(), 1) << "the step is skipped";
  EXPECT_EQ(gauge(*role, "critic_loss"), loss) << "of the last step that was not";
  const auto update = messages::read_priorities(context.out("priorities").sent.back()).value();
  EXPECT_EQ(update.keys[0], 40u);
  EXPECT_EQ(update.priorities[0], 0);
  for (std::size_t row = 1; row < kRows; ++row) EXPECT_GT(update.priorities[row], 0);
}

TEST_F(TrainerTest, AShardThatStarvesDoesNotHoldItUp) {
  auto role = make(2, false);
  for (int i = 0; i < 50; ++i) batch(1, 10, 10, {0.1, 0.1, 0.1, 0.1});
  for (int i = 0; i < 50; ++i) ASSERT_EQ(role->step(context).value(), Progress::kMore);
  EXPECT_EQ(role->step(context).value(), Progress::kIdle);
}

TEST_F(TrainerTest, AShardWithoutRoomForPrioritiesDoesNotHoldItUp) {
  auto role = make(2, true);
  context.out("priorities").full = {0};
  for (int i = 0; i < 3; ++i) {
    batch(0, 10, 10, {0.1, 0.1, 0.1, 0.1});
    batch(1, 10, 10, {0.1, 0.1, 0.1, 0.1});
  }
  for (int i = 0; i < 3; ++i) ASSERT_EQ(role->step(context).value(), Progress::kMore);
  EXPECT_EQ(role->step(context).value(), Progress::kIdle);
  EXPECT_THAT(context.out("priorities").receivers, Each(1));
  context.out("priorities").full.clear();
  EXPECT_EQ(role->step(context).value(), Progress::kMore);
}

TEST_F(TrainerTest, BatchesAreTakenInProportionToTheShardsMass) {
  auto role = make(2, true);
  for (int i = 0; i < 40; ++i) {
    batch(0, 10, 30, {0.1, 0.1, 0.1, 0.1});
    batch(1, 10, 10, {0.1, 0.1, 0.1, 0.1});
  }
  for (int i = 0; i < 40; ++i) ASSERT_EQ(role->step(context).value(), Progress::kMore);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(context.out("priorities").receivers, 0u)), 30, 1);
}

TEST_F(TrainerTest, RowsOfAShardsBatchWeighAsTheyWouldInOneTable) {
  // One table of 40 items against the same items in two: the rows of the batch have weights 1, 2, 1 and 4 of 80, drawn
  // from a shard of 10 items that weighs 16. Rows weigh the same when the losses are equal.
  auto one = make(1, true);
  batch(0, 40, 80, {1.0 / 80, 2.0 / 80, 1.0 / 80, 4.0 / 80});
  ASSERT_EQ(one->step(context).value(), Progress::kMore);

  auto two = make(2, true);
  batch(0, 10, 16, {1.0 / 16, 2.0 / 16, 1.0 / 16, 4.0 / 16});
  batch(1, 30, 64, {1.0 / 64, 1.0 / 64, 1.0 / 64, 1.0 / 64});
  context.out("priorities").full = {1};
  ASSERT_EQ(two->step(context).value(), Progress::kMore);
  EXPECT_NEAR(gauge(*two, "critic_loss"), gauge(*one, "critic_loss"), 1e-6 * std::abs(gauge(*one, "critic_loss")));
}

TEST_F(TrainerTest, PublishesTheNewestVersionWhenTheParameterStoreHasTakenTheOneBefore) {
  auto role = make(1, false);
  auto& updates = context.out("updates");
  ASSERT_EQ(role->step(context).value(), Progress::kIdle);
  ASSERT_EQ(updates.sent.size(), 1u);
  updates.full = {0};
  batch(0, 10, 10, {0.1, 0.1, 0.1, 0.1});
  batch(0, 10, 10, {0.1, 0.1, 0.1, 0.1});
  ASSERT_EQ(role->step(context).value(), Progress::kMore);
  ASSERT_EQ(role->step(context).value(), Progress::kMore);
  EXPECT_EQ(updates.sent.size(), 1u);
  updates.full.clear();
  EXPECT_EQ(role->step(context).value(), Progress::kIdle);
  ASSERT_EQ(updates.sent.size(), 2u);
  EXPECT_EQ(messages::read_parameters(updates.sent[1])->info().version, 2);
}

TEST_F(TrainerTest, PublishesATargetForThePolicyOfItsGroup) {
  const std::string target = "policy.target";
  const learner::d4pg::Options options = d4pg(false);
  const auto network = [&](learner::Graph& graph) {
    const learner::Var observation = graph.input("observation", Shape{options.environment.observation_size});
    graph.output("action", learner::d4pg::policy_network(graph, graph.group(target), options, observation));
  };
  const auto policy = learner::Policy::make(network, learner::d4pg::policy_columns(options), {.rows = 1}).value();
  auto role = make(1, false, target);
  std::vector<std::vector<float>> versions;
  for (int step = 0; step < 4; ++step) {
    if (step > 0) batch(0, 10, 10, {0.1, 0.1, 0.1, 0.1});
    ASSERT_EQ(role->step(context).value(), step > 0 ? Progress::kMore : Progress::kIdle);
    const auto parameters = messages::read_parameters(context.out("updates").sent.back()).value();
    ASSERT_EQ(parameters.info().version, step);
    const auto values = parameters.floats().value();
    const Status loaded = policy->load(values, parameters.info().layout_hash);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    versions.emplace_back(values.begin(), values.end());
  }
  EXPECT_EQ(versions[1], versions[0]);
  EXPECT_NE(versions[2], versions[1]) << "the target follows after each second step";
  EXPECT_EQ(versions[3], versions[2]);
}

TEST_F(TrainerTest, GoesOnBehindTheVersionsOfOthersThatItHasNotHeardOf) {
  auto role = make(1, false);
  const auto step_to = [&](std::int64_t version) {
    batch(0, 10, 10, {0.1, 0.1, 0.1, 0.1});
    ASSERT_EQ(role->step(context).value(), Progress::kMore);
    EXPECT_EQ(messages::read_parameters(context.out("updates").sent.back())->info().version, version);
  };
  step_to(1);
  context.in("refused").frames.push_back(messages::make_parameters_version(context.pool(), {900}).value());
  step_to(902);  // 901 has its first parameters
  context.in("refused").frames.push_back(messages::make_parameters_version(context.pool(), {900}).value());
  step_to(903);  // said of what was under way then
  EXPECT_EQ(role->save()->counter("steps").value(), 3);
  context.in("refused").frames.push_back(
      messages::make_parameters_version(context.pool(), {std::int64_t{1} << 60}).value());
  step_to(904);
  ASSERT_EQ(context.refused.size(), 1u);
  EXPECT_THAT(context.refused[0], ::testing::HasSubstr("got version 1152921504606846976, expected one below"));
}

TEST_F(TrainerTest, SavedStateTakesShardsInTheSameOrder) {
  auto role = make(2, true);
  const auto feed = [&] {
    batch(0, 10, 30, {0.1, 0.1, 0.1, 0.1});
    batch(1, 10, 20, {0.1, 0.1, 0.1, 0.1});
  };
  for (int i = 0; i < 20; ++i) feed();
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(role->step(context).ok());
  const RoleState state = role->save().value();
  const auto frames = context.in("batches").frames;
  context.out("priorities").receivers.clear();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(role->step(context).ok());
  const auto expected = context.out("priorities").receivers;

  auto restored = make(2, true);
  ASSERT_TRUE(restored->restore(state).ok());
  context.in("batches").frames = frames;
  context.out("priorities").receivers.clear();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(restored->step(context).ok());
  EXPECT_EQ(context.out("priorities").receivers, expected);
}

}  // namespace
}  // namespace troupe::actors
