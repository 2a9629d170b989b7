// The adder against the definition summed up step by step over whole episodes.
#include <troupe/replay/n_step_adder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include <troupe/core/rng.hpp>

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

NStepAdder make(std::int64_t n, double gamma = 0.9) {
  return std::move(NStepAdder::make(
                       {.observation_size = kObservation, .action_size = kAction, .n_step = n, .discount = gamma}))
      .value();
}

/// Adds steps [from, to) of the episode and appends what comes out.
void add_steps(NStepAdder& adder, const Episode& episode, std::size_t from, std::size_t to,
               std::vector<Transition>& collected) {
  BatchBuffer buffer(transition_signature(kObservation, kAction), 16);
  for (std::size_t t = from; t < to; ++t) {
    const bool last = t + 1 == episode.steps();
    const std::int64_t expected_rows = adder.rows_of_next(last);
    const auto rows = adder.add({.action = episode.actions[t],
                                 .reward = episode.rewards[t],
                                 .discount = episode.discounts[t],
                                 .observation = episode.observations[t + 1],
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
    NStepAdder adder = make(n);
    for (std::size_t steps : {1u, 2u, 4u, 5u, 6u, 30u}) {
      const Episode episode = random_episode(steps, rng);
      ASSERT_TRUE(adder.first(episode.observations[0]).ok());
      std::vector<Transition> got;
      add_steps(adder, episode, 0, steps, got);
      expect_same(got, reference(episode, static_cast<std::size_t>(n), 0.9));
    }
  }
}

TEST(NStepAdder, DiscountHoldsGammaToTheNAndTheEnvironmentsDiscount) {
  NStepAdder adder = make(3, 0.5);
  BatchBuffer buffer(transition_signature(kObservation, kAction), 3);
  const std::vector<float> zeros(kObservation);
  ASSERT_TRUE(adder.first(zeros).ok());
  auto step = [&](double reward, double discount, bool last) {
    return *adder.add({.action = std::span(zeros).first(kAction),
                       .reward = reward,
                       .discount = discount,
                       .observation = zeros,
                       .last = last},
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
  NStepAdder adder = make(3);
  const Episode broken = random_episode(10, rng);
  const Episode whole = random_episode(6, rng);
  std::vector<Transition> got;
  ASSERT_TRUE(adder.first(broken.observations[0]).ok());
  add_steps(adder, broken, 0, 4, got);
  got.clear();
  ASSERT_TRUE(adder.first(whole.observations[0]).ok());
  add_steps(adder, whole, 0, 6, got);
  expect_same(got, reference(whole, 3, 0.9));
}

TEST(NStepAdder, GoesOnBitForBitFromSavedState) {
  Rng rng(3);
  const Episode episode = random_episode(12, rng);
  for (std::size_t cut = 0; cut <= 12; ++cut) {
    NStepAdder adder = make(5);
    std::vector<Transition> before;
    ASSERT_TRUE(adder.first(episode.observations[0]).ok());
    add_steps(adder, episode, 0, cut, before);
    NStepAdder other = make(5);
    ASSERT_TRUE(other.restore_state(adder.save_state()).ok());
    if (cut == 12) continue;
    std::vector<Transition> one;
    std::vector<Transition> two;
    add_steps(adder, episode, cut, 12, one);
    add_steps(other, episode, cut, 12, two);
    EXPECT_EQ(one, two);
  }
}

TEST(NStepAdder, RefusesWrongInputAndStaysAsItWas) {
  NStepAdder adder = make(2);
  BatchBuffer buffer(transition_signature(kObservation, kAction), 1);
  const std::vector<float> zeros(kObservation);
  const AdderStep good{.action = std::span(zeros).first(kAction), .observation = zeros};
  EXPECT_EQ(adder.add(good, buffer.mutable_view(), 0).error().code, Code::kUnavailable);
  EXPECT_EQ(adder.first(std::span(zeros).first(2)).error().code, Code::kShapeMismatch);
  ASSERT_TRUE(adder.first(zeros).ok());
  const auto state = adder.save_state();
  AdderStep wrong = good;
  wrong.action = zeros;
  EXPECT_EQ(adder.add(wrong, buffer.mutable_view(), 0).error().code, Code::kShapeMismatch);
  EXPECT_EQ(adder.add(good, buffer.mutable_view(), 1).error().code, Code::kOutOfRange);
  BatchBuffer other(transition_signature(kObservation, kAction + 1), 1);
  EXPECT_EQ(adder.add(good, other.mutable_view(), 0).error().code, Code::kShapeMismatch);
  EXPECT_EQ(adder.save_state(), state);
  ASSERT_TRUE(adder.add(good, buffer.mutable_view(), 0).ok());
  AdderStep last = good;
  last.last = true;
  EXPECT_EQ(adder.add(last, buffer.mutable_view(), 0).error().code, Code::kOutOfRange) << "two rows, room for one";

  for (const NStepAdderOptions& options :
       {NStepAdderOptions{.observation_size = 0, .action_size = 1}, NStepAdderOptions{.observation_size = 1},
        NStepAdderOptions{.observation_size = 1, .action_size = 1, .n_step = 0},
        NStepAdderOptions{.observation_size = 1, .action_size = 1, .discount = 1.5}}) {
    EXPECT_EQ(NStepAdder::make(options).error().code, Code::kInvalidArgument);
  }
}

TEST(NStepAdder, RefusesStateThatIsNotItsOwn) {
  NStepAdder adder = make(3);
  const auto good = adder.save_state();
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(adder.restore_state(std::span(good).first(size)).ok()) << size << " bytes";
  }
  auto longer = good;
  longer.push_back({});
  EXPECT_EQ(adder.restore_state(longer).error().code, Code::kCorrupt);
  EXPECT_EQ(make(4).restore_state(good).error().code, Code::kShapeMismatch);
  EXPECT_EQ(make(3, 0.8).restore_state(good).error().code, Code::kShapeMismatch);
  EXPECT_EQ(adder.save_state(), good);
}

}  // namespace
}  // namespace troupe::replay
