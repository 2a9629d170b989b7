// The adder against the definition summed up step by step over whole episodes.
#include <troupe/replay/n_step_adder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/replay/return_adder.hpp>

namespace troupe::replay {
namespace {

constexpr std::int64_t kObservation = 3;
constexpr std::int64_t kAction = 2;

struct Episode {
  std::vector<std::vector<float>> observations;  // T + 1
  std::vector<std::vector<float>> actions;       // T
  std::vector<double> rewards;
  std::vector<double> discounts;

  std::size_t steps() const { return actions.size(); }
};

struct Transition {
  std::vector<float> observation, action, next_observation;
  float reward = 0, discount = 0;
  bool operator==(const Transition&) const = default;
};

Episode random_episode(std::size_t steps, Rng& rng) {
  auto vector = [&](std::size_t size) {
    std::vector<float> values(size);
    for (float& value : values) value = static_cast<float>(rng.normal());
    return values;
  };
  Episode episode;
  episode.observations.push_back(vector(kObservation));
  for (std::size_t t = 0; t < steps; ++t) {
    episode.actions.push_back(vector(kAction));
    episode.rewards.push_back(rng.normal());
    episode.discounts.push_back(rng.below(4) == 0 ? rng.uniform() : 1.0);
    episode.observations.push_back(vector(kObservation));
  }
  if (rng.below(2) == 0) episode.discounts.back() = 0;
  return episode;
}

/// From start to end (exclusive), straight from the definition in the header.
Transition transition(const Episode& episode, std::size_t start, std::size_t end, double gamma) {
  double reward = 0;
  double discount = 1;
  for (std::size_t t = start; t < end; ++t) {
    double factor = 1;
    for (std::size_t i = start; i < t; ++i) factor *= gamma * episode.discounts[i];
    reward += factor * episode.rewards[t];
    discount *= gamma * episode.discounts[t];
  }
  return {.observation = episode.observations[start],
          .action = episode.actions[start],
          .next_observation = episode.observations[end],
          .reward = static_cast<float>(reward),
          .discount = static_cast<float>(discount)};
}

/// Acme's list: every end with the start n before it (or the first), then the last end with every younger start.
std::vector<Transition> reference(const Episode& episode, std::size_t n, double gamma) {
  std::vector<Transition> all;
  for (std::size_t end = 1; end <= episode.steps(); ++end) {
    all.push_back(transition(episode, end > n ? end - n : 0, end, gamma));
  }
  const std::size_t last = episode.steps();
  for (std::size_t start = (last > n ? last - n : 0) + 1; start < last; ++start) {
    all.push_back(transition(episode, start, last, gamma));
  }
  return all;
}

const Signature kObserved = {{"observation", DType::kF32, {kObservation}}};
const Signature kActed = {{"action", DType::kF32, {kAction}}};

std::unique_ptr<NStepAdder> make(std::int64_t n, double gamma = 0.9) {
  return NStepAdder::make({.observation = kObserved, .acted = kActed, .n_step = n, .discount = gamma}).value();
}

std::span<const std::byte> bytes(const std::vector<float>& values) { return std::as_bytes(std::span(values)); }

/// Adds steps [from, to) of the episode and appends what comes out.
void add_steps(NStepAdder& adder, const Episode& episode, std::size_t from, std::size_t to,
               std::vector<Transition>& collected) {
  BatchBuffer buffer(transition_signature(kObserved, kActed), 16);
  for (std::size_t t = from; t < to; ++t) {
    const bool last = t + 1 == episode.steps();
    const std::int64_t expected_rows = adder.rows_of_next(last);
    const auto rows = adder.add({.acted = bytes(episode.actions[t]),
                                 .reward = episode.rewards[t],
                                 .discount = episode.discounts[t],
                                 .observation = bytes(episode.observations[t + 1]),
                                 .last = last},
                                buffer.mutable_view(), 2);
    ASSERT_TRUE(rows.ok()) << rows.error().message;
    ASSERT_EQ(*rows, expected_rows);
    const BatchView view = buffer.view();
    for (auto row = std::size_t{2}; row < static_cast<std::size_t>(2 + *rows); ++row) {
      auto slice = [&](std::size_t column, std::size_t size) {
        const auto values = view.as<float>(column).subspan(row * size, size);
        return std::vector<float>(values.begin(), values.end());
      };
      collected.push_back({.observation = slice(0, kObservation),
                           .action = slice(1, kAction),
                           .next_observation = slice(4, kObservation),
                           .reward = view.as<float>(2)[row],
                           .discount = view.as<float>(3)[row]});
    }
  }
}

void expect_same(const std::vector<Transition>& got, const std::vector<Transition>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].observation, expected[i].observation) << i;
    EXPECT_EQ(got[i].action, expected[i].action) << i;
    EXPECT_EQ(got[i].next_observation, expected[i].next_observation) << i;
    // Sums of at most 7 doubles in another order, rounded to float: one step of it at most.
    EXPECT_FLOAT_EQ(got[i].reward, expected[i].reward) << i;
    EXPECT_FLOAT_EQ(got[i].discount, expected[i].discount) << i;
  }
}

TEST(NStepAdder, AgreesWithTheDefinitionOverManyEpisodes) {
  Rng rng(1);
  for (std::int64_t n : {1, 2, 3, 5, 7}) {
    const auto adder = make(n);
    for (std::size_t steps : {1u, 2u, 4u, 5u, 6u, 30u}) {
      const Episode episode = random_episode(steps, rng);
      ASSERT_TRUE(adder->first(bytes(episode.observations[0])).ok());
      std::vector<Transition> got;
      add_steps(*adder, episode, 0, steps, got);
      expect_same(got, reference(episode, static_cast<std::size_t>(n), 0.9));
    }
  }
}

TEST(NStepAdder, DiscountHoldsGammaToTheNAndTheEnvironmentsDiscount) {
  const auto adder = make(3, 0.5);
  BatchBuffer buffer(transition_signature(kObserved, kActed), 3);
  const std::vector<float> zeros(kObservation);
  const std::span<const std::byte> action = bytes(zeros).first(kAction * sizeof(float));
  ASSERT_TRUE(adder->first(bytes(zeros)).ok());
  auto step = [&](double reward, double discount, bool last) {
    return *adder->add(
        {.acted = action, .reward = reward, .discount = discount, .observation = bytes(zeros), .last = last},
        buffer.mutable_view(), 0);
  };
  EXPECT_EQ(step(1, 1, false), 1);
  EXPECT_EQ(buffer.view().as<float>(3)[0], 0.5f);
  EXPECT_EQ(step(1, 1, false), 1);
  EXPECT_EQ(step(4, 1, false), 1);
  EXPECT_EQ(buffer.view().as<float>(2)[0], 1 + 0.5f + 0.25f * 4);
  EXPECT_EQ(buffer.view().as<float>(3)[0], 0.125f);
  EXPECT_EQ(step(8, 0, true), 3);  // the task ended: starts of age 3, 2 and 1
  EXPECT_EQ(buffer.view().as<float>(2)[0], 1 + 0.5f * 4 + 0.25f * 8);
  EXPECT_EQ(buffer.view().as<float>(2)[1], 4 + 0.5f * 8);
  EXPECT_EQ(buffer.view().as<float>(2)[2], 8.0f);
  for (int row = 0; row < 3; ++row) EXPECT_EQ(buffer.view().as<float>(3)[static_cast<std::size_t>(row)], 0.0f);
}

TEST(NStepAdder, DropsWhatIsLeftOfABrokenEpisode) {
  Rng rng(2);
  const auto adder = make(3);
  const Episode broken = random_episode(10, rng);
  const Episode whole = random_episode(6, rng);
  std::vector<Transition> got;
  ASSERT_TRUE(adder->first(bytes(broken.observations[0])).ok());
  add_steps(*adder, broken, 0, 4, got);
  EXPECT_EQ(adder->unfinished(), 2) << "of 4 steps two have seen their 3-step return";
  got.clear();
  ASSERT_TRUE(adder->first(bytes(whole.observations[0])).ok());
  add_steps(*adder, whole, 0, 6, got);
  EXPECT_EQ(adder->unfinished(), 0);
  expect_same(got, reference(whole, 3, 0.9));
}

TEST(NStepAdder, GoesOnBitForBitFromSavedState) {
  Rng rng(3);
  const Episode episode = random_episode(12, rng);
  for (std::size_t cut = 0; cut <= 12; ++cut) {
    const auto adder = make(5);
    std::vector<Transition> before;
    ASSERT_TRUE(adder->first(bytes(episode.observations[0])).ok());
    add_steps(*adder, episode, 0, cut, before);
    const auto other = make(5);
    ASSERT_TRUE(other->restore_state(adder->save_state()).ok());
    if (cut == 12) continue;
    std::vector<Transition> one;
    std::vector<Transition> two;
    add_steps(*adder, episode, cut, 12, one);
    add_steps(*other, episode, cut, 12, two);
    EXPECT_EQ(one, two);
  }
}

TEST(NStepAdder, RefusesWrongInputAndStaysAsItWas) {
  const auto adder = make(2);
  BatchBuffer buffer(transition_signature(kObserved, kActed), 1);
  const std::vector<float> zeros(kObservation);
  const AdderStep good{.acted = bytes(zeros).first(kAction * sizeof(float)), .observation = bytes(zeros)};
  EXPECT_EQ(adder->add(good, buffer.mutable_view(), 0).error().code, Code::kUnavailable);
  EXPECT_EQ(adder->first(bytes(zeros).first(2)).error().code, Code::kShapeMismatch);
  ASSERT_TRUE(adder->first(bytes(zeros)).ok());
  const auto state = adder->save_state();
  AdderStep wrong = good;
  wrong.acted = bytes(zeros);
  EXPECT_EQ(adder->add(wrong, buffer.mutable_view(), 0).error().code, Code::kShapeMismatch);
  EXPECT_EQ(adder->add(good, buffer.mutable_view(), 1).error().code, Code::kOutOfRange);
  BatchBuffer other(transition_signature(kObserved, {{"action", DType::kF32, {kAction + 1}}}), 1);
  EXPECT_EQ(adder->add(good, other.mutable_view(), 0).error().code, Code::kShapeMismatch);
  EXPECT_EQ(adder->save_state(), state);
  ASSERT_TRUE(adder->add(good, buffer.mutable_view(), 0).ok());
  AdderStep last = good;
  last.last = true;
  EXPECT_EQ(adder->add(last, buffer.mutable_view(), 0).error().code, Code::kOutOfRange) << "two rows, room for one";

  for (const NStepAdderOptions& options :
       {NStepAdderOptions{.observation = {}, .acted = kActed}, NStepAdderOptions{.observation = kObserved, .acted = {}},
        NStepAdderOptions{.observation = kObserved, .acted = kActed, .n_step = 0},
        NStepAdderOptions{.observation = kObserved, .acted = kActed, .discount = 1.5},
        NStepAdderOptions{.observation = {{"reward", DType::kF32, {1}}}, .acted = kActed}}) {
    EXPECT_EQ(NStepAdder::make(options).error().code, Code::kInvalidArgument);
  }
}

TEST(NStepAdder, RefusesStateThatIsNotItsOwn) {
  const auto adder = make(3);
  const auto good = adder->save_state();
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(adder->restore_state(std::span(good).first(size)).ok()) << size << " bytes";
  }
  auto longer = good;
  longer.push_back({});
  EXPECT_EQ(adder->restore_state(longer).error().code, Code::kCorrupt);
  EXPECT_EQ(make(4)->restore_state(good).error().code, Code::kShapeMismatch);
  EXPECT_EQ(make(3, 0.8)->restore_state(good).error().code, Code::kShapeMismatch);
  const auto images = NStepAdder::make({.observation = {{"pixels", DType::kU8, {12}}}, .acted = kActed, .n_step = 3});
  EXPECT_EQ((*images)->restore_state(good).error().code, Code::kShapeMismatch) << "as many bytes, of something else";
  EXPECT_EQ(adder->save_state(), good);
}

// What DQN on pixels and a recurrent or stochastic policy need: bytes stay bytes, a choice is an integer, and what
// acting adds to the action is that of the transition's start.
TEST(NStepAdder, CarriesColumnsOfAnyDtypeAndExtrasOfTheStart) {
  const Signature observed = {{"pixels", DType::kU8, {4, 4, 3}}, {"goal", DType::kI32, {1}}};
  const Signature acted = {{"action", DType::kI32, {}}, {"log_prob", DType::kF32, {}}};
  const auto adder = NStepAdder::make({observed, acted, 2, 0.5}).value();
  EXPECT_EQ(adder->signature(), (Signature{{"pixels", DType::kU8, {4, 4, 3}},
                                           {"goal", DType::kI32, {1}},
                                           {"action", DType::kI32, {}},
                                           {"log_prob", DType::kF32, {}},
                                           {"reward", DType::kF32, {}},
                                           {"discount", DType::kF32, {}},
                                           {"next_pixels", DType::kU8, {4, 4, 3}},
                                           {"next_goal", DType::kI32, {1}}}));
  const auto observation = [&](std::int32_t t) {
    std::vector<std::byte> row(row_bytes(observed), static_cast<std::byte>(250 + t));
    std::memcpy(row.data() + 48, &t, sizeof(t));
    return row;
  };
  const auto action = [&](std::int32_t t) {
    std::vector<std::byte> row(row_bytes(acted));
    const float log_prob = -0.25F * static_cast<float>(t);
    std::memcpy(row.data(), &t, sizeof(t));
    std::memcpy(row.data() + sizeof(t), &log_prob, sizeof(log_prob));
    return row;
  };
  BatchBuffer items(adder->signature(), 4);
  ASSERT_TRUE(adder->first(observation(0)).ok());
  std::int64_t rows = 0;
  for (std::int32_t t = 0; t < 3; ++t) {
    const auto next = observation(t + 1), did = action(t);
    rows += adder->add({did, 1.0, 1.0, next, t == 2}, items.mutable_view(), rows).value();
  }
  ASSERT_EQ(rows, 4);
  const std::int32_t starts[] = {0, 0, 1, 2}, ends[] = {1, 2, 3, 3};
  const BatchView view = items.view();
  for (std::size_t row = 0; row < 4; ++row) {
    EXPECT_EQ(view.as<std::uint8_t>(0)[row * 48], 250 + starts[row]) << row;
    EXPECT_EQ(view.as<std::int32_t>(1)[row], starts[row]) << row;
    EXPECT_EQ(view.as<std::int32_t>(2)[row], starts[row]) << row;
    EXPECT_EQ(view.as<float>(3)[row], -0.25F * static_cast<float>(starts[row])) << row;
    EXPECT_EQ(view.as<std::uint8_t>(6)[row * 48 + 47], 250 + ends[row]) << row;
    EXPECT_EQ(view.as<std::int32_t>(7)[row], ends[row]) << row;
  }
}

TEST(ReturnAdder, PutsTheReturnSoFarBehindEachItem) {
  const Signature observed{{"x", DType::kF32, {}}}, acted{{"action", DType::kF32, {}}};
  const auto make = with_return(n_step_adders(2, 0.5), 0.5);
  const auto adder = make(observed, acted).value(), other = make(observed, acted).value();
  EXPECT_EQ(adder->signature().back(), (TensorSpec{"return", DType::kF32, {}}));
  EXPECT_EQ(adder->most_rows(), 2);
  const float zero = 0;
  const auto row = std::as_bytes(std::span(&zero, 1));
  BatchBuffer items(adder->signature(), 8);
  std::int64_t rows = 0;
  for (const bool last_episode : {false, true}) {
    ASSERT_TRUE(adder->first(row).ok());
    for (int t = 0; t < 3; ++t) {
      if (last_episode && t == 1) {  // another one goes on from its state
        ASSERT_TRUE(other->restore_state(adder->save_state()).ok());
      }
      Adder& now = last_episode && t >= 1 ? *other : *adder;
      rows += now.add({row, 8.0 + t, 1.0, row, t == 2}, items.mutable_view(), rows).value();
    }
  }
  ASSERT_EQ(rows, 8);
  // 8, 9 + 8 / 2, and at the end the last reward alone, of both items that end there; from there it goes on.
  const float expected[] = {8, 13, 10, 10, 13, 15.5, 10, 10};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(items.view().as<float>(5)[i], expected[i]) << i;
  const auto state = adder->save_state();
  EXPECT_EQ(other->restore_state(std::span(state).first(9)).error().code, Code::kCorrupt);
  EXPECT_EQ(with_return(n_step_adders(2, 0.5), 0.25)(observed, acted).value()->restore_state(state).error().code,
            Code::kShapeMismatch);
  EXPECT_EQ(with_return(make, 0.5)(observed, acted).error().message,
            "return adder: items have a column return already");
}

}  // namespace
}  // namespace troupe::replay
