// Turns by themselves: who goes on when, and what happens at the ends.
#include <troupe/actors/runtime/turns.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

class TurnsTest : public ::testing::Test {
 protected:
  /// Of a turn that says its name when it begins and when it has waited.
  std::function<void()> waits(char name, const bool& over, Duration timeout = 1h) {
    return [this, name, &over, timeout] {
      said_ += name;
      const bool came = turns_.yield_until([&over] { return over; }, timeout);
      said_ += came ? static_cast<char>(name - 'a' + 'A') : '!';
    };
  }

  ManualClock clock_;
  Turns turns_{clock_, 3};
  std::string said_;
};

TEST_F(TurnsTest, OneTurnRunsAtATimeOnAThreadOfItsOwn) {
  std::thread::id thread;
  turns_.run([&] { thread = std::this_thread::get_id(); });
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_FALSE(turns_.resume());
  EXPECT_EQ(turns_.waiting(), 0U);
}

TEST_F(TurnsTest, TheFirstThatMayGoesOn) {
  bool a = false, b = false, c = false;
  turns_.run(waits('a', a));
  turns_.run(waits('b', b));
  turns_.run(waits('c', c));
  EXPECT_EQ(said_, "abc");
  EXPECT_EQ(turns_.waiting(), 3U);
  EXPECT_FALSE(turns_.resume());
  b = c = true;
  EXPECT_TRUE(turns_.resume());
  EXPECT_EQ(said_, "abcB");
  a = true;  // it has waited for longer than c
  EXPECT_TRUE(turns_.resume());
  EXPECT_TRUE(turns_.resume());
  EXPECT_EQ(said_, "abcBAC");
  EXPECT_FALSE(turns_.resume());
}

TEST_F(TurnsTest, WhatHoldsAlreadyIsNotWaitedFor) {
  const bool over = true;
  turns_.run(waits('a', over));
  EXPECT_EQ(said_, "aA");
}

TEST_F(TurnsTest, ATurnMayWaitAgainAndThenIsTheLast) {
  int step = 0;
  bool b = false;
  turns_.run([&] {
    for (int wanted = 1; wanted <= 3; ++wanted) {
      EXPECT_TRUE(turns_.yield_until([&step, wanted] { return step >= wanted; }, 1h));
      said_ += 'a';
    }
  });
  turns_.run(waits('b', b));
  step = 1;
  EXPECT_TRUE(turns_.resume());
  EXPECT_EQ(said_, "ba");
  step = 2;
  b = true;
  EXPECT_TRUE(turns_.resume());
  EXPECT_EQ(said_, "baB");
  step = 3;
  EXPECT_TRUE(turns_.resume());
  EXPECT_EQ(said_, "baBaa");
}

TEST_F(TurnsTest, TheTimeIsTheClocksOwn) {
  const bool never = false;
  turns_.run(waits('a', never, 2s));
  clock_.advance(1s);
  EXPECT_FALSE(turns_.resume());
  clock_.advance(1s);
  EXPECT_TRUE(turns_.resume());
  EXPECT_EQ(said_, "a!");
}

TEST_F(TurnsTest, TheEndWakesAllAndNobodyWaitsAnyMore) {
  const bool never = false;
  turns_.run(waits('a', never));
  turns_.run(waits('b', never));
  turns_.cancel();
  EXPECT_TRUE(turns_.resume());
  EXPECT_TRUE(turns_.resume());
  EXPECT_FALSE(turns_.resume());
  turns_.run(waits('c', never));
  EXPECT_EQ(said_, "ab!!c!");
}

TEST_F(TurnsTest, NoMoreMayWaitThanItWasMadeFor) {
  bool over = false;
  for (const char name : {'a', 'b', 'c', 'd'}) turns_.run(waits(name, over));
  EXPECT_EQ(said_, "abcd!");
  over = true;
  while (turns_.resume()) {
  }
  EXPECT_EQ(said_, "abcd!ABC");
}

TEST_F(TurnsTest, OutsideOfTurnsNobodyWaits) {
  EXPECT_FALSE(turns_.yield_until([] { return false; }, 1h));
  EXPECT_TRUE(turns_.yield_until([] { return true; }, 1h));
}

}  // namespace
}  // namespace troupe::actors
