// A Cap'n Proto schema of a user's own: what it makes is read as it was, and bytes that are none of it are refused,
// whatever they are.
#include <troupe/messages/own_schema.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <reading.capnp.h>

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include <troupe/core/rng.hpp>

namespace troupe::messages {
namespace {

using testing::Reading;

Frame reading(FramePool& pool, double celsius, int levels = 1) {
  capnp::MallocMessageBuilder message;
  auto at = message.initRoot<Reading>();
  for (int i = 1; i < levels; ++i) at = at.initBefore();
  at.setCelsius(celsius);
  at.setSensor("roof");
  at.initHistory(3).set(1, 2.5);
  return own_frame(pool, message).value();
}

/// What a user would check: no number that is none.
MessageCheck finite_celsius() {
  return own_check<Reading>([](Reading::Reader reading) -> Status {
    if (std::isfinite(reading.getCelsius())) return {};
    return Error{Code::kInvalidArgument, "celsius: expected a finite number"};
  });
}

class OwnSchema : public ::testing::Test {
 protected:
  FramePool pool;
};

TEST_F(OwnSchema, IsReadAsItWasMade) {
  const Frame frame = reading(pool, 21.5);
  double celsius = 0;
  std::string sensor;
  const Status read = read_own<Reading>(frame.bytes(), [&](Reading::Reader reading) -> Status {
    celsius = reading.getCelsius();
    sensor = reading.getSensor().cStr();
    return {};
  });
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(celsius, 21.5);
  EXPECT_EQ(sensor, "roof");
  EXPECT_TRUE(finite_celsius()(frame.bytes()).ok());
  EXPECT_TRUE(own_check<Reading>()(frame.bytes()).ok());
}

TEST_F(OwnSchema, OfSeveralSegmentsIsReadToo) {
  capnp::MallocMessageBuilder message(8, capnp::AllocationStrategy::FIXED_SIZE);
  auto root = message.initRoot<Reading>();
  root.setSensor(std::string(1000, 'x').c_str());
  root.initHistory(100);
  EXPECT_TRUE(own_check<Reading>()(own_frame(pool, message)->bytes()).ok());
}

TEST_F(OwnSchema, WhatTheUserRefusesIsRefused) {
  const Status refused = finite_celsius()(reading(pool, std::nan("")).bytes());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "celsius: expected a finite number");
}

TEST_F(OwnSchema, DoesNotNestWithoutEnd) {
  EXPECT_TRUE(own_check<Reading>()(reading(pool, 1, 8).bytes()).ok());
  EXPECT_EQ(own_check<Reading>()(reading(pool, 1, 40).bytes()).error().code, Code::kCorrupt);
}

TEST_F(OwnSchema, EveryTruncationIsRefused) {
  const Frame whole = reading(pool, 21.5, 3);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Frame part = pool.copy(whole.bytes().first(size)).value();
    EXPECT_FALSE(own_check<Reading>()(part.bytes()).ok()) << size;
  }
  std::vector<std::byte> longer(whole.bytes().begin(), whole.bytes().end());
  longer.resize(longer.size() + 8);
  EXPECT_FALSE(own_check<Reading>()(pool.copy(longer)->bytes()).ok());
}

TEST_F(OwnSchema, AnyBytesAreReadOrRefusedAndNothingElse) {
  const Frame whole = reading(pool, 21.5, 3);
  Rng rng(7);
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes(whole.bytes().begin(), whole.bytes().end());
    for (std::uint64_t flips = 1 + rng.below(4); flips > 0; --flips) {
      bytes[rng.below(bytes.size())] ^= static_cast<std::byte>(1U << rng.below(8));
    }
    const Frame frame = pool.copy(bytes).value();
    (void)own_check<Reading>([](Reading::Reader root) -> Status {
      double sum = root.getCelsius();  // whatever a check looks at is safe to look at
      for (const double value : root.getHistory()) sum += value;
      return root.getSensor().size() + static_cast<std::size_t>(sum > 0) > 1'000'000
                 ? Status(Error{Code::kInvalidArgument, "too much"})
                 : Status();
    })(frame.bytes());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(60));
}

}  // namespace
}  // namespace troupe::messages
