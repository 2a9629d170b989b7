#include <troupe/actors/roles/learner_actor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/algorithms/d4pg/options.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/tests/actors/fake_context.hpp>

namespace troupe::actors {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::FakeContext;

constexpr std::int64_t kRows = 4;

class LearnerActorTest : public ::testing::Test {
 protected:
  static LearnerActorOptions options(std::size_t replay_shards, bool prioritised) {
    LearnerActorOptions options;
    options.learner.d4pg.environment = {3, {-1}, {1}};
    options.learner.d4pg.policy_sizes = {8};
    options.learner.d4pg.critic_sizes = {8};
    options.learner.d4pg.batch = kRows;
    options.learner.d4pg.importance_weights = prioritised;
    options.replay_shards = replay_shards;
    return options;
  }
  std::unique_ptr<Role> make(const LearnerActorOptions& options) {
    context.out("updates").consumer_count = options.parameter_shards;
    context.out("priorities").consumer_count = options.replay_shards;
    return LearnerActor::make(options, {"learner", 0, 1, 0, 9}).value();
  }
  /// A batch whose rows were drawn with `probabilities` from a table of `items` items and this mass.
  void batch(std::size_t shard, std::int64_t items, double mass, std::vector<double> probabilities,
             std::uint64_t first_key = 0) {
    learner::d4pg::Options plain = options(1, false).learner.d4pg;
    const auto signature = std::make_shared<const Signature>(learner::d4pg::batch_signature(plain));
    auto builder = messages::SampledBatchBuilder::make(context.pool(), signature, kRows).value();
    Rng rng(3);
    for (std::size_t c = 0; c < signature->size(); ++c) {
      for (float& value : builder.columns().as<float>(c)) value = static_cast<float>(rng.uniform());
    }
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

TEST_F(LearnerActorTest, PrioritiesGoBackToTheShardThatDrewTheBatch) {
  auto role = make(options(3, true));
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

TEST_F(LearnerActorTest, AShardThatStarvesDoesNotHoldItUp) {
  auto role = make(options(2, false));
  for (int i = 0; i < 50; ++i) batch(1, 10, 10, {0.1, 0.1, 0.1, 0.1});
  for (int i = 0; i < 50; ++i) ASSERT_EQ(role->step(context).value(), Progress::kMore);
  EXPECT_EQ(role->step(context).value(), Progress::kIdle);
}

TEST_F(LearnerActorTest, AShardWithoutRoomForPrioritiesDoesNotHoldItUp) {
  auto role = make(options(2, true));
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

TEST_F(LearnerActorTest, BatchesAreTakenInProportionToTheShardsMass) {
  auto role = make(options(2, true));
  for (int i = 0; i < 40; ++i) {
    batch(0, 10, 30, {0.1, 0.1, 0.1, 0.1});
    batch(1, 10, 10, {0.1, 0.1, 0.1, 0.1});
  }
  for (int i = 0; i < 40; ++i) ASSERT_EQ(role->step(context).value(), Progress::kMore);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(context.out("priorities").receivers, 0u)), 30, 1);
}

TEST_F(LearnerActorTest, RowsOfAShardsBatchWeighAsTheyWouldInOneTable) {
  // One table of 40 items against the same items in two: the rows of the batch have weights 1, 2, 1 and 4 of 80, drawn
  // from a shard of 10 items that weighs 16. Rows weigh the same when the losses are equal.
  auto one = make(options(1, true));
  batch(0, 40, 80, {1.0 / 80, 2.0 / 80, 1.0 / 80, 4.0 / 80});
  ASSERT_EQ(one->step(context).value(), Progress::kMore);

  auto two = make(options(2, true));
  batch(0, 10, 16, {1.0 / 16, 2.0 / 16, 1.0 / 16, 4.0 / 16});
  batch(1, 30, 64, {1.0 / 64, 1.0 / 64, 1.0 / 64, 1.0 / 64});
  context.out("priorities").full = {1};
  ASSERT_EQ(two->step(context).value(), Progress::kMore);
  EXPECT_NEAR(gauge(*two, "critic_loss"), gauge(*one, "critic_loss"), 1e-6 * std::abs(gauge(*one, "critic_loss")));
}

TEST_F(LearnerActorTest, EachParameterStoreGetsItsPieceOfEveryVersionThatAllHaveRoomFor) {
  LearnerActorOptions sharded = options(1, false);
  sharded.parameter_shards = 2;
  auto role = make(sharded);
  auto& updates = context.out("updates");
  ASSERT_EQ(role->step(context).value(), Progress::kIdle);
  ASSERT_THAT(updates.receivers, ElementsAre(0, 1));
  updates.full = {1};
  batch(0, 10, 10, {0.1, 0.1, 0.1, 0.1});
  batch(0, 10, 10, {0.1, 0.1, 0.1, 0.1});
  ASSERT_EQ(role->step(context).value(), Progress::kMore);
  ASSERT_EQ(role->step(context).value(), Progress::kMore);
  EXPECT_EQ(updates.sent.size(), 2u) << "one store has no room, so neither gets a version";
  updates.full.clear();
  EXPECT_EQ(role->step(context).value(), Progress::kIdle);
  ASSERT_THAT(updates.receivers, ElementsAre(0, 1, 0, 1));
  std::int64_t elements = 0;
  for (std::size_t i = 2; i < 4; ++i) {
    const auto piece = messages::read_parameters(updates.sent[i]).value();
    EXPECT_EQ(piece.info().version, 2);
    EXPECT_EQ(piece.info().publication, 1u);
    EXPECT_EQ(piece.piece().index, i - 2);
    elements += piece.piece().own_elements();
  }
  EXPECT_EQ(elements, messages::read_parameters(updates.sent[2])->piece().elements);
}

TEST_F(LearnerActorTest, GoesOnBehindTheVersionsOfOthersThatItHasNotHeardOf) {
  auto role = make(options(1, false));
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

TEST_F(LearnerActorTest, SavedStateTakesShardsInTheSameOrder) {
  auto role = make(options(2, true));
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

  auto restored = make(options(2, true));
  ASSERT_TRUE(restored->restore(state).ok());
  context.in("batches").frames = frames;
  context.out("priorities").receivers.clear();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(restored->step(context).ok());
  EXPECT_EQ(context.out("priorities").receivers, expected);
}

}  // namespace
}  // namespace troupe::actors
