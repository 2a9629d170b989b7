#include <troupe/messages/message_type.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace troupe::messages {
namespace {

TEST(MessageType, NamesThatATypeMayHave) {
  for (const std::string name : {"Celsius", "A", "Reading2"}) EXPECT_TRUE(check_type_name(name).ok()) << name;
  for (const std::string name : {"", "celsius", "2x", "A b", "A.b", "A\n", "A-b"}) {
    EXPECT_EQ(check_type_name(name).error().code, Code::kInvalidArgument) << name;
  }
  EXPECT_FALSE(check_type_name("A" + std::string(64, 'a')).ok());
  for (const std::string name : {"Trajectory", "Control", "Metrics"}) {
    EXPECT_EQ(check_type_name(name).error().code, Code::kAlreadyExists) << name;
  }
}

TEST(MessageType, WhatIsOnNoChannelIsNoTypeOfAPort) {
  EXPECT_TRUE(is_shipped_type("Trajectory"));
  for (const char* const name : {"Control", "Chunk", "Counters", "", "trajectory"}) {
    EXPECT_FALSE(is_shipped_type(name)) << name;
  }
  const std::vector<std::string> names = shipped_type_names();
  EXPECT_THAT(names, ::testing::IsSupersetOf({"Trajectory", "SampleRequest", "Steps"}));
  for (const std::string& name : names) EXPECT_TRUE(is_shipped_type(name)) << name;
}

TEST(MessageType, FramesHaveTheirSizeAndPassTheirCheck) {
  FramePool pool;
  const auto frame = [&](std::size_t size) { return pool.copy(std::vector<std::byte>(size)).value(); };
  MessageType type{.name = "Celsius", .max_bytes = 8};
  EXPECT_TRUE(type.opaque());
  EXPECT_TRUE(check_message(type, frame(1)).ok());
  EXPECT_TRUE(check_message(type, frame(8)).ok());
  EXPECT_EQ(check_message(type, frame(9)).error().message, "Celsius: got 9 bytes, expected 1 .. 8");
  EXPECT_EQ(check_message(type, frame(0)).error().message, "Celsius: got 0 bytes, expected 1 .. 8");
  EXPECT_EQ(check_message(type, Frame()).error().message, "Celsius: got 0 bytes, expected 1 .. 8");
  type.check = [](std::span<const std::byte> bytes) -> Status {
    if (bytes.size() == 8) return {};
    return Error{Code::kCorrupt, "no number"};
  };
  EXPECT_FALSE(type.opaque());
  EXPECT_TRUE(check_message(type, frame(8)).ok());
  EXPECT_EQ(check_message(type, frame(7)).error().message, "Celsius: no number");
  EXPECT_EQ(check_message(type, frame(9)).error().message, "Celsius: got 9 bytes, expected 1 .. 8")
      << "the check does not see it";
}

}  // namespace
}  // namespace troupe::messages
