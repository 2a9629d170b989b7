// A program's threads on one side, the instance of `external` on the other, which the test steps by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <troupe/actors/roles/replay_client.hpp>
#include <troupe/messages/trajectory.hpp>
#include <troupe/replay/journal.hpp>
#include <troupe/tests/actors/fake_context.hpp>

namespace troupe::actors::testing {
namespace {

using namespace std::chrono_literals;

class ReplayClientTest : public ::testing::Test {
 protected:
  explicit ReplayClientTest(std::size_t shards = 2) : client_(shards) {
    context_.out("priorities").consumer_count = shards;
    context_.caller("samples").capacity = 4;
  }
  void begin() {
    role_ = client_.factory()({"external", 3, 0, 2, 5}).value();
    ASSERT_EQ(role_->step(context_).value(), Progress::kIdle);
  }
  /// Steps the role until the call, on a thread of its own, has ended.
  template <typename F>
  auto during(
      F call, const std::function<void()>& between = [] {}) {
    std::atomic<bool> ended{false};
    auto result = std::optional<decltype(call())>();
    std::thread thread([&] {
      result = call();
      ended = true;
    });
    while (!ended) {
      EXPECT_EQ(role_->step(context_).value(), Progress::kIdle);
      between();
      std::this_thread::sleep_for(1ms);
    }
    thread.join();
    return *std::move(result);
  }
  Status insert(Duration timeout = 10s, std::vector<double> priorities = {}) {
    return client_.insert(rows_.view(), priorities, 7, timeout);
  }
  Frame batch(std::int64_t rows, const messages::SampledBatchInfo& info) {
    auto builder =
        messages::SampledBatchBuilder::make(context_.pool(), std::make_shared<const Signature>(kColumns), rows).value();
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) builder.rows().probabilities[i] = 0.5;
    for (float& value : builder.columns().as<float>(0)) value = 1;
    return std::move(builder).finish(info);
  }

  const Signature kColumns{{"x", DType::kF32, {}}};
  FakeContext context_;
  ReplayClient client_;
  BatchBuffer rows_{kColumns, 3};
  std::unique_ptr<Role> role_;
};

TEST_F(ReplayClientTest, SendsTrajectoriesUnderNumbersThatNoEnvActorHas) {
  begin();
  ASSERT_TRUE(during([&] { return insert(10s, {1, 2, 3}); }).ok());
  ASSERT_TRUE(during([&] { return insert(); }).ok());
  ASSERT_EQ(context_.out("trajectories").sent.size(), 2U);
  const auto first = messages::read_trajectory(context_.out("trajectories").sent[0]).value();
  EXPECT_EQ(first.info().producer, replay::kMaxJournalProducers / 2 + 3);
  EXPECT_EQ(first.info().incarnation, 2U);
  EXPECT_EQ(first.info().env_steps, 7);
  EXPECT_EQ(first.rows().rows, 3);
  EXPECT_THAT(first.priorities(), ::testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(messages::read_trajectory(context_.out("trajectories").sent[1]).value().info().sequence, 1U);
  EXPECT_GT(context_.wakes, 0);
}

TEST_F(ReplayClientTest, WaitsForRoomAndSendsNothingAfterItsDeadline) {
  begin();
  context_.out("trajectories").room = 0;
  const Status late = during([&] { return insert(30ms); });
  EXPECT_EQ(late.error().code, Code::kDeadlineExceeded);
  EXPECT_THAT(late.error().message, ::testing::HasSubstr("no room"));
  context_.out("trajectories").room = 10;
  ASSERT_TRUE(role_->step(context_).ok());
  EXPECT_TRUE(context_.out("trajectories").sent.empty());
}

TEST_F(ReplayClientTest, SaysWhenTheRunHasNotTakenItIn) {
  const Status status = insert(20ms);
  EXPECT_EQ(status.error().code, Code::kDeadlineExceeded);
  EXPECT_THAT(status.error().message, ::testing::HasSubstr("did not take this client in"));
  client_.close({Code::kCancelled, "shut out"});
  EXPECT_EQ(insert().error().message, "shut out");
  EXPECT_EQ(client_.sample(1, 1s).error().message, "shut out");
}

TEST_F(ReplayClientTest, DrawsFromShardsByTheirMass) {
  begin();
  std::vector<int> of(2);
  for (int i = 0; i < 40; ++i) {
    const auto drawn = during([&] { return client_.sample(4, 10s); },
                              [&] {
                                auto& caller = context_.caller("samples");
                                if (caller.calls.empty()) return;
                                const std::size_t shard = caller.calls.front().server;
                                caller.finish(batch(4, {.table_items = 100, .table_mass = shard == 0 ? 30 : 10}));
                              });
    ASSERT_TRUE(drawn.ok()) << drawn.error().message;
    EXPECT_EQ(drawn->batch.columns().rows, 4);
    ++of[drawn->shard];
  }
  EXPECT_NEAR(of[0], 30, 2);
}

TEST_F(ReplayClientTest, AddsUpWhatTheShardsSayOfThemselves) {
  begin();
  std::vector<std::size_t> asked;
  const auto info = during(
      [&] { return client_.info(10s); },
      [&] {
        auto& caller = context_.caller("samples");
        if (caller.calls.empty()) return;
        asked.push_back(caller.calls.front().server);
        caller.finish(batch(
            0,
            {.table_items = 10, .table_bytes = 640, .table_inserts = 14, .table_samples = 50, .table_evictions = 4}));
      });
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(asked, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(info->items, 20);
  EXPECT_EQ(info->bytes, 1280);
  EXPECT_EQ(info->inserts, 28);
  EXPECT_EQ(info->samples, 100);
  EXPECT_EQ(info->evictions, 8);
}

TEST_F(ReplayClientTest, SetsPrioritiesWhereTheItemsAre) {
  begin();
  ASSERT_TRUE(during([&] { return client_.update_priorities(1, {{5}, {0.5}}, 10s); }).ok());
  EXPECT_EQ(context_.out("priorities").receivers, std::vector<std::size_t>{1});
  EXPECT_EQ(client_.update_priorities(2, {{5}, {0.5}}, 1s).error().code, Code::kInvalidArgument);
  EXPECT_EQ(during([&] {
              return client_.update_priorities(0, {{5}, {-1}}, 10s);
            })
                .error()
                .code,
            Code::kInvalidArgument);
}

TEST_F(ReplayClientTest, EndsACallThatReplayDoesNotAnswer) {
  begin();
  const auto drawn = during([&] { return client_.sample(4, 10s); },
                            [&] {
                              auto& caller = context_.caller("samples");
                              if (!caller.calls.empty()) caller.finish(Error{Code::kCancelled, "refused"});
                            });
  EXPECT_EQ(drawn.error().code, Code::kCancelled);
  EXPECT_EQ(client_.sample(0, 1s).error().code, Code::kInvalidArgument);
}

TEST_F(ReplayClientTest, IsNoRoleForANodeWithoutAProgram) {
  const RoleSpec spec = external_role("external", nullptr);
  EXPECT_TRUE(spec.elastic);
  EXPECT_EQ(spec.count, 0);
  EXPECT_THAT(spec.make({"external", 0, 0, 0, 5}).error().message, ::testing::HasSubstr("no `troupe node`"));
}

}  // namespace
}  // namespace troupe::actors::testing
