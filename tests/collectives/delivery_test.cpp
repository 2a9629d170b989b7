#include <troupe/collectives/delivery.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace troupe::collectives {
namespace {

using ::testing::ElementsAre;

TEST(DeliveryTest, WhatCameEarlyIsHandedOverFirst) {
  Delivery delivery;
  std::vector<std::uint32_t> got;
  delivery.put({.from = 1});
  delivery.put({.from = 2});
  delivery.deliver_to([&](const PeerMessage& message) { got.push_back(message.from); });
  delivery.put({.from = 3});
  EXPECT_THAT(got, ElementsAre(1, 2, 3));
  delivery.deliver_to(nullptr);
  delivery.put({.from = 4});
  EXPECT_EQ(got.size(), 3u);
}

TEST(DeliveryTest, AReceiverMayAnswerAtOnceAndBeAnswered) {
  Delivery one, other;
  std::vector<std::uint32_t> got;
  one.deliver_to([&](const PeerMessage& message) {
    got.push_back(message.from);
    if (message.from < 5) other.put({.from = message.from + 1});
  });
  other.deliver_to([&](const PeerMessage& message) { one.put({.from = message.from + 1}); });
  one.put({.from = 0});
  EXPECT_THAT(got, ElementsAre(0, 2, 4, 6));
}

TEST(DeliveryTest, TwoThatAskEachOtherForEverNeverWaitForEachOther) {
  constexpr int kEach = 20'000;
  Delivery one, other;
  std::atomic<int> answers = 0;
  // A question (0) is answered, by whichever thread hands it over; an answer (1) is counted.
  const auto serve = [&answers](Delivery& back) {
    return [&answers, &back](const PeerMessage& message) {
      if (message.from == 0) return back.put({.from = 1});
      ++answers;
    };
  };
  one.deliver_to(serve(other));
  other.deliver_to(serve(one));
  {
    const std::jthread here([&] {
      for (int i = 0; i < kEach; ++i) one.put({.from = 0});
    });
    const std::jthread there([&] {
      for (int i = 0; i < kEach; ++i) other.put({.from = 0});
    });
  }
  one.deliver_to(nullptr);
  other.deliver_to(nullptr);
  EXPECT_EQ(answers, 2 * kEach);
}

TEST(DeliveryTest, NobodyIsCalledAfterTheEnd) {
  Delivery delivery;
  std::atomic<bool> over = false, late = false;
  delivery.deliver_to([&](const PeerMessage&) { late = late || over; });
  std::jthread sender([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) delivery.put({.from = 0});
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  delivery.deliver_to(nullptr);
  over = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(late);
}

}  // namespace
}  // namespace troupe::collectives
