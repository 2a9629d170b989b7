#include <troupe/algorithms/acting/epsilon_greedy.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace troupe::acting {
namespace {

const Signature kInputs = {};
const Signature kOutputs = {{"value", DType::kF32, {3}}};

std::unique_ptr<Exploration> made(double epsilon, std::uint64_t seed = 1) {
  return epsilon_greedy({.choices = 3, .epsilon = epsilon})({.seed = seed}).value();
}

/// What is chosen for the second of two rows of values.
std::int32_t chosen(Exploration& exploration, const std::array<float, 6>& values) {
  const BatchView inputs{&kInputs, 2, {}}, outputs{&kOutputs, 2, {std::as_bytes(std::span(values))}};
  std::array<std::byte, sizeof(std::int32_t)> acted;
  const Status good = exploration.choose({inputs, outputs, 1}, acted);
  EXPECT_TRUE(good.ok()) << good.error().message;
  std::int32_t action = -1;
  std::memcpy(&action, acted.data(), sizeof(action));
  return action;
}

TEST(EpsilonGreedy, TakesTheGreatestValueAndOfEqualOnesTheFirst) {
  const auto greedy = made(0);
  EXPECT_EQ(greedy->acted(), (Signature{{"action", DType::kI32, {}}}));
  EXPECT_EQ(chosen(*greedy, {9, 0, 0, 1, 3, 2}), 1);
  EXPECT_EQ(chosen(*greedy, {0, 9, 0, 5, 5, 4}), 0);
}

TEST(EpsilonGreedy, TakesAnyActionInThatShareOfSteps) {
  const auto exploration = made(0.3);
  std::array<int, 3> counts{};
  for (int i = 0; i < 30'000; ++i) ++counts[static_cast<std::size_t>(chosen(*exploration, {0, 0, 0, 0, 0, 1}))];
  // A tenth of the steps each, and the rest; the deviation of a count is about 50.
  EXPECT_NEAR(counts[0], 3'000, 300);
  EXPECT_NEAR(counts[1], 3'000, 300);
  EXPECT_NEAR(counts[2], 24'000, 400);
}

TEST(EpsilonGreedy, GoesOnFromItsState) {
  const auto first = made(0.5), second = made(0.5, 2);
  for (int i = 0; i < 10; ++i) chosen(*first, {});
  ASSERT_TRUE(second->restore_state(first->save_state()).ok());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(chosen(*first, {}), chosen(*second, {}));
  EXPECT_EQ(second->restore_state(std::vector<std::byte>(3)).error().code, Code::kCorrupt);
}

TEST(EpsilonGreedy, MistakesNameTheOption) {
  EXPECT_THAT(epsilon_greedy({.choices = 0})({}).error().message, ::testing::HasSubstr("0 choices"));
  EXPECT_THAT(epsilon_greedy({.choices = 2, .epsilon = 1.5})({}).error().message,
              ::testing::HasSubstr("epsilon 1.5, expected 0 .. 1"));
  const auto other = epsilon_greedy({.values = "advantage", .choices = 3})({}).value();
  const std::array<float, 3> values{};
  const BatchView inputs{&kInputs, 1, {}}, outputs{&kOutputs, 1, {std::as_bytes(std::span(values))}};
  std::array<std::byte, sizeof(std::int32_t)> acted;
  EXPECT_EQ(other->choose({inputs, outputs, 0}, acted).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace troupe::acting
