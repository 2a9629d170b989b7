// Queues of frames: orders, bounds, and what a checkpoint holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include <troupe/actors/roles/frame_queue.hpp>
#include <troupe/tests/actors/fake_context.hpp>

namespace troupe::actors::testing {
namespace {

using ::testing::ElementsAre;

class FrameQueueTest : public ::testing::Test {
 protected:
  static FrameQueueOptions options(QueueOrder order, std::int64_t capacity = 100, std::int64_t min_after_dequeue = 0) {
    return {.order = order, .capacity = capacity, .min_after_dequeue = min_after_dequeue, .priority = &priority_of};
  }
  static double value_of(const Frame& frame) {
    double value = 0;
    std::memcpy(&value, frame.bytes().data(), sizeof(value));
    return value;
  }
  /// The tens of a value.
  static Result<double> priority_of(const Frame& frame) { return std::floor(value_of(frame) / 10); }
  void put(std::initializer_list<double> values) {
    for (const double value : values) {
      context_.in("in").frames.emplace_back(context_.pool().copy(std::as_bytes(std::span(&value, 1))).value());
    }
  }
  std::vector<double> given() {
    std::vector<double> values;
    for (const Frame& frame : context_.out("out").sent) values.push_back(value_of(frame));
    return values;
  }
  void run(Role& queue) {
    while (queue.step(context_).value() == Progress::kMore) {
    }
  }
  /// What leaves a queue that has taken all of these before the first one may leave.
  std::vector<double> order_of(QueueOrder order, std::initializer_list<double> values) {
    FrameQueue queue(options(order), 1);
    context_.out("out").room = 0;
    put(values);
    run(queue);
    context_.out("out").room = 1000;
    run(queue);
    return given();
  }

  FakeContext context_;
};

TEST_F(FrameQueueTest, GivesTheOldestFirst) {
  EXPECT_THAT(order_of(QueueOrder::kFifo, {3, 1, 2}), ElementsAre(3, 1, 2));
}

TEST_F(FrameQueueTest, GivesTheNewestFirst) {
  EXPECT_THAT(order_of(QueueOrder::kLifo, {3, 1, 2}), ElementsAre(2, 1, 3));
}

TEST_F(FrameQueueTest, GivesTheLowestPriorityFirstAndOfEqualOnesTheOldest) {
  EXPECT_THAT(order_of(QueueOrder::kPriority, {25, 11, 5, 21, 14, 3, 12}), ElementsAre(5, 3, 11, 14, 12, 25, 21));
}

TEST_F(FrameQueueTest, ShufflesAndGivesEachOnce) {
  FrameQueue queue(options(QueueOrder::kShuffle, 1000, 200), 1);
  for (int i = 0; i < 600; ++i) put({static_cast<double>(i)});
  run(queue);
  std::vector<double> first = given();
  ASSERT_EQ(first.size(), 400U);
  EXPECT_FALSE(std::ranges::is_sorted(first));
  // With 200 to 600 to choose from, the first hundred are not those that came first.
  EXPECT_GT(std::accumulate(first.begin(), first.begin() + 100, 0.0) / 100, 150);
  std::ranges::sort(first);
  EXPECT_EQ(std::ranges::adjacent_find(first), first.end());
  EXPECT_EQ(queue.waiting_for(), "1 more frames (min_after_dequeue 200)");
}

TEST_F(FrameQueueTest, HoldsProducersBackWhenItIsFull) {
  FrameQueue queue(options(QueueOrder::kFifo, 2), 1);
  context_.out("out").room = 0;
  put({1, 2, 3});
  run(queue);
  EXPECT_EQ(context_.in("in").frames.size(), 1U);
  context_.out("out").room = 1;
  run(queue);
  EXPECT_TRUE(context_.in("in").frames.empty());
  EXPECT_THAT(given(), ElementsAre(1));
  Report report;
  queue.report(report);
  EXPECT_EQ(report.counters[0].value, 3);
  EXPECT_EQ(report.counters[1].value, 1);
  EXPECT_EQ(report.sums[0].value, 2);
}

TEST_F(FrameQueueTest, RefusesAFrameWhosePriorityIsNone) {
  FrameQueueOptions odd = options(QueueOrder::kPriority);
  odd.priority = [](const Frame& frame) -> Result<double> {
    if (value_of(frame) < 0) return Error{Code::kInvalidArgument, "below 0"};
    return value_of(frame) == 0 ? std::nan("") : value_of(frame);
  };
  FrameQueue queue(odd, 1);
  put({2, -1, 0, 1});
  run(queue);
  EXPECT_THAT(given(), ElementsAre(1, 2));
  EXPECT_THAT(context_.refused, ElementsAre("in: below 0", "in: a priority that is no number"));
}

TEST_F(FrameQueueTest, GoesOnFromACheckpointAsIfNothingHadHappened) {
  for (const QueueOrder order : {QueueOrder::kFifo, QueueOrder::kLifo, QueueOrder::kShuffle, QueueOrder::kPriority}) {
    FrameQueue queue(options(order), 7);
    context_.out("out").room = 0;
    put({25, 11, 5, 21, 14, 3, 12});
    run(queue);
    const RoleState saved = queue.save().value();
    FrameQueue again(options(order), 1);
    ASSERT_TRUE(again.restore(saved).ok());
    std::vector<std::vector<double>> both;
    for (Role* one : {static_cast<Role*>(&queue), static_cast<Role*>(&again)}) {
      context_.out("out").sent.clear();
      context_.out("out").room = 1000;
      run(*one);
      both.push_back(given());
    }
    EXPECT_EQ(both[0].size(), 7U);
    EXPECT_EQ(both[0], both[1]);
    context_.out("out").sent.clear();
  }
}

}  // namespace
}  // namespace troupe::actors::testing
