#include <troupe/actors/roles/replay_actor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/messages/batch.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/tests/actors/fake_context.hpp>

namespace troupe::actors {
namespace {

using testing::FakeContext;

const Signature kActorColumns{{"value", DType::kF32, {}}};

class ReplayActorTest : public ::testing::Test {
 protected:
  static ReplayActorOptions options() {
    ReplayActorOptions options;
    options.table.signature = kActorColumns;
    options.table.max_items = 1000;
    options.table.limiter = replay::sample_to_insert_ratio(2, 4, 40).value();
    options.batch = 8;
    return options;
  }
  static std::unique_ptr<Role> make(const ReplayActorOptions& options) {
    return ReplayActor::make(options, {"replay", 0, 1, 0, 5}).value();
  }
  void trajectory(std::int64_t rows) {
    auto builder = messages::TrajectoryBuilder::make(context.pool(),
                                                     {std::make_shared<const Signature>(kActorColumns), rows, false})
                       .value();
    for (float& value : builder.rows().as<float>(0)) value = static_cast<float>(next_++);
    context.in("trajectories").frames.push_back(std::move(builder).finish({}, rows));
  }
  /// Steps until idle.
  void run(Role& role) {
    for (int i = 0; i < 100; ++i) {
      if (role.step(context).value() == Progress::kIdle) return;
    }
    FAIL() << "never idle";
  }
  std::vector<std::vector<float>> batches() {
    std::vector<std::vector<float>> result;
    for (const Frame& frame : context.out("batches").sent) {
      const auto view = messages::read_batch(frame).value();
      const auto values = view.columns().as<float>(0);
      result.emplace_back(values.begin(), values.end());
    }
    return result;
  }

  FakeContext context;
  int next_ = 0;
};

TEST_F(ReplayActorTest, SamplesNothingBeforeTheLimiterAdmitsItAndSaysWhy) {
  auto role = make(options());
  trajectory(3);
  run(*role);
  EXPECT_TRUE(context.out("batches").sent.empty());
  EXPECT_THAT(role->waiting_for(), ::testing::HasSubstr("1 more items"));
}

TEST_F(ReplayActorTest, PrioritiesThatAreMalformedOrTooLargeAreRefusedAndReplayGoesOn) {
  auto role = make(options());
  trajectory(20);
  run(*role);
  const std::size_t sent = context.out("batches").sent.size();
  const Frame good = messages::make_priorities(context.pool(), {{1, 2}, {0.5, 0.25}}).value();
  // Every byte of it wrong in turn, and cut short at each word: some of these are another legal update.
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::vector<std::byte> bytes(good.bytes().begin(), good.bytes().end());
    bytes[at] ^= std::byte{0x81};
    context.in("priorities").frames.push_back(context.pool().copy(bytes).value());
    bytes.resize(at / 8 * 8);
    context.in("priorities").frames.push_back(context.pool().copy(bytes).value());
  }
  context.in("priorities").frames.push_back(messages::make_priorities(context.pool(), {{1}, {1e200}}).value());
  auto step = role->step(context);
  ASSERT_TRUE(step.ok()) << step.error().message;
  EXPECT_GT(context.refused.size(), good.size() / 2);
  EXPECT_THAT(context.refused.back(), ::testing::StartsWith("priorities: "));
  context.in("priorities").frames.push_back(good);
  trajectory(20);
  run(*role);
  EXPECT_GT(context.out("batches").sent.size(), sent);
}

TEST_F(ReplayActorTest, SamplesAsManyBatchesAsTheRatioAndTheLearnerAllow) {
  auto role = make(options());
  context.out("batches").room = 3;
  trajectory(20);
  run(*role);
  EXPECT_EQ(context.out("batches").sent.size(), 3u);
  context.out("batches").room = 1000;
  run(*role);
  // 20 inserts allow 40 samples and the buffer of 40 above what stood at min_size: (40 + 40 - 8) / 8, rounded down.
  EXPECT_GE(context.out("batches").sent.size(), 5u);
  EXPECT_LE(context.out("batches").sent.size(), 10u);
  for (const auto& batch : batches()) {
    for (float value : batch) EXPECT_LT(value, 20);
  }
}

TEST_F(ReplayActorTest, InsertsAreHeldBackRowByRow) {
  auto role = make(options());
  context.out("batches").room = 0;
  trajectory(100);
  trajectory(100);
  run(*role);
  Report report;
  role->report(report);
  const double inserted = report.counters[0].value;
  EXPECT_GT(inserted, 4);
  EXPECT_LT(inserted, 100);
  EXPECT_EQ(context.in("trajectories").frames.size(), 1u);  // the second has not been taken: its credit is held
  EXPECT_THAT(role->waiting_for(), ::testing::HasSubstr("insert"));
}

TEST_F(ReplayActorTest, PrioritiesReachTheSampler) {
  ReplayActorOptions prioritised = options();
  prioritised.table.sampler = {replay::SelectorKind::kPrioritized, 1.0};
  prioritised.batch = 4;
  auto role = make(prioritised);
  context.out("batches").room = 1;
  trajectory(10);
  run(*role);
  // Key 0 is the first row's; all others go to priority 0.
  messages::PriorityUpdate update;
  for (std::uint64_t key = 0; key < 10; ++key) {
    update.keys.push_back(key);
    update.priorities.push_back(key == 3 ? 1 : 0);
  }
  context.in("priorities").frames.push_back(messages::make_priorities(context.pool(), update).value());
  context.out("batches").room = 1;
  run(*role);
  const auto drawn = batches();
  ASSERT_EQ(drawn.size(), 2u);
  EXPECT_THAT(drawn[1], ::testing::Each(3.0F));
}

TEST_F(ReplayActorTest, ItemsLeaveWhenAnUpdateSaysSo) {
  auto role = make(options());
  trajectory(10);
  run(*role);
  const auto say = [&](messages::PriorityUpdate update) {
    context.in("priorities").frames.push_back(messages::make_priorities(context.pool(), update).value());
    run(*role);
    Report report;
    role->report(report);
    return std::pair(report.sums[0].value, report.counters.back().value);  // items, unknown keys
  };
  EXPECT_EQ(say({.deletes = {2, 3, 99, 2}}), std::pair(8.0, 2.0));
  EXPECT_EQ(say({.keys = {4}, .priorities = {2}, .deletes = {4}}), std::pair(7.0, 2.0));
  EXPECT_EQ(say({.keys = {5}, .priorities = {1e200}, .deletes = {5}, .reset = true}), std::pair(7.0, 2.0));  // refused
  EXPECT_EQ(say({.reset = true}), std::pair(0.0, 2.0));
  trajectory(5);
  run(*role);
  EXPECT_EQ(say({.deletes = {0, 10}}), std::pair(4.0, 3.0));  // keys go on
}

TEST_F(ReplayActorTest, SavedStateContinuesWithTheSameBatches) {
  auto role = make(options());
  context.out("batches").room = 2;
  trajectory(100);
  run(*role);
  const RoleState state = role->save().value();
  context.out("batches").sent.clear();

  context.out("batches").room = 2;
  run(*role);
  const auto expected = batches();
  context.out("batches").sent.clear();

  auto restored = make(options());
  ASSERT_TRUE(restored->restore(state).ok());
  context.out("batches").room = 2;
  run(*restored);
  EXPECT_EQ(batches(), expected);
}

TEST_F(ReplayActorTest, OneOfSeveralHasItsPartOfTheLimits) {
  // min_items 4, window 80 and 1000 items over two: it samples from 2 items on, and inserts stop at half the error.
  auto role = ReplayActor::make(options(), {"replay", 1, 2, 0, 5}).value();
  trajectory(1);
  run(*role);
  EXPECT_TRUE(context.out("batches").sent.empty());
  trajectory(100);
  context.out("batches").room = 1;
  run(*role);
  ASSERT_EQ(context.out("batches").sent.size(), 1u);
  const auto info = messages::read_batch(context.out("batches").sent[0])->info();
  EXPECT_EQ(info.table_mass, static_cast<double>(info.table_items));
  Report report;
  role->report(report);
  EXPECT_LE(report.counters[0].value, 2 + 20 / 2 + 8 / 2);
}

TEST_F(ReplayActorTest, AWindowTooNarrowForABatchIsRefused) {
  ReplayActorOptions narrow = options();
  narrow.batch = 200;
  EXPECT_EQ(ReplayActor::make(narrow, {"replay", 0, 1, 0, 5}).error().code, Code::kInvalidArgument);
}

/// With clients: requests wait in "samples".
class ClientsOfReplayTest : public ReplayActorTest {
 protected:
  static ReplayActorOptions with_clients() {
    ReplayActorOptions made = options();
    made.clients = true;
    return made;
  }
  void ask(std::int64_t rows, std::uint32_t timeout_ms = 1000) {
    context.server("samples").requests.push_back(
        messages::make_sample_request(context.pool(), {rows, timeout_ms}).value());
  }
  std::size_t answers() { return context.server("samples").answers.size(); }
  std::size_t learnt() { return context.out("batches").sent.size(); }
};

TEST_F(ClientsOfReplayTest, AreAnsweredOnceTheLimiterAdmitsTheirRows) {
  auto role = make(with_clients());
  context.out("batches").room = 0;
  ask(5);
  ask(3);
  run(*role);
  EXPECT_EQ(answers(), 0U);
  trajectory(10);
  run(*role);
  ASSERT_EQ(answers(), 2U);
  EXPECT_EQ(messages::read_batch(context.server("samples").answers[0]).value().columns().rows, 5);
  const auto second = messages::read_batch(context.server("samples").answers[1]).value();
  EXPECT_EQ(second.columns().rows, 3);
  EXPECT_EQ(second.info().table_items, 10);
}

TEST_F(ClientsOfReplayTest, HearAtOnceHowTheTableStands) {
  auto role = make(with_clients());
  context.out("batches").room = 0;
  const auto told = [&](std::size_t answer) {
    return messages::read_batch(context.pool().copy(context.server("samples").answers.at(answer).bytes()).value())
        .value();
  };
  ask(5);  // which waits
  run(*role);
  ask(0);
  run(*role);
  ASSERT_EQ(answers(), 1U);
  EXPECT_EQ(told(0).columns().rows, 0);
  EXPECT_EQ(told(0).info().table_items, 0);
  trajectory(10);
  run(*role);
  ASSERT_EQ(answers(), 2U);
  ask(0);
  run(*role);
  ASSERT_EQ(answers(), 3U);
  EXPECT_EQ(told(2).info().table_items, 10);
  EXPECT_EQ(told(2).info().table_inserts, 10);
  EXPECT_EQ(told(2).info().table_samples, 5);
  EXPECT_GT(told(2).info().table_bytes, 0);
}

TEST_F(ClientsOfReplayTest, DrawInTurnsWithLearners) {
  auto role = make(with_clients());
  for (int i = 0; i < 4; ++i) ask(8);
  trajectory(20);  // admits some 8 batches of 8 rows in all
  for (std::size_t drawn = 1; drawn <= 8; ++drawn) {
    ASSERT_EQ(role->step(context).value(), Progress::kMore);
    // A step draws for whoever's turn it is, and for the other one if that was the client's.
    EXPECT_LE(learnt() > answers() ? learnt() - answers() : answers() - learnt(), 1U) << learnt() << ", " << answers();
    if (answers() == 4) break;
  }
  EXPECT_EQ(answers(), 4U);
}

TEST_F(ClientsOfReplayTest, HoldLearnersBackWhenItIsTheirTurn) {
  auto role = make(with_clients());
  trajectory(4);
  ASSERT_EQ(role->step(context).value(), Progress::kMore);  // a learner's
  const std::size_t before = learnt();
  ASSERT_GT(before, 0U);
  ask(40);  // not admitted yet
  run(*role);
  EXPECT_EQ(learnt(), before);
  trajectory(20);
  run(*role);
  EXPECT_EQ(answers(), 1U);
  EXPECT_GT(learnt(), before);
}

TEST_F(ClientsOfReplayTest, AreForgottenWhenTheirTimeIsOver) {
  auto role = make(with_clients());
  ask(8, 50);
  run(*role);
  context.manual_clock.advance(std::chrono::milliseconds(60));
  trajectory(20);
  run(*role);
  EXPECT_EQ(answers(), 0U);
  EXPECT_GT(learnt(), 0U);
}

TEST_F(ClientsOfReplayTest, HoldNobodyBackBeyondTheirTimeThoughNothingElseHappens) {
  auto role = make(with_clients());
  trajectory(4);
  ASSERT_EQ(role->step(context).value(), Progress::kMore);  // a learner's
  const std::size_t before = learnt();
  ask(40, 50);
  run(*role);
  EXPECT_EQ(learnt(), before);
  EXPECT_EQ(context.woken_after, std::chrono::milliseconds(50));
  context.manual_clock.advance(context.woken_after);
  run(*role);
  EXPECT_EQ(answers(), 0U);
  EXPECT_GT(learnt(), before);
}

TEST_F(ClientsOfReplayTest, AreRefusedWhatTheLimiterCouldNeverAdmit) {
  auto role = make(with_clients());
  ask(100'000);
  context.server("samples").requests.push_back(messages::make_priorities(context.pool(), {{1}, {1}}).value());
  trajectory(20);
  run(*role);
  EXPECT_EQ(answers(), 0U);
  ASSERT_EQ(context.refused.size(), 2U);
  EXPECT_THAT(context.refused[0], ::testing::HasSubstr("100000"));
}

}  // namespace
}  // namespace troupe::actors
