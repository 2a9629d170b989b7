// One conformance suite for all selectors, then what each of them promises: distributions by a chi-squared test, ages
// by following a plain list.
#include <troupe/replay/selector.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include <troupe/tests/replay/chi_squared.hpp>

namespace troupe::replay {
namespace {

std::unique_ptr<Selector> make(SelectorKind kind, double exponent = 1.0) {
  return std::move(make_selector({.kind = kind, .priority_exponent = exponent})).value();
}

/// What a selector must know, kept plainly: the key and the priority of every slot.
struct Mirror {
  std::vector<Key> keys;
  std::vector<double> priorities;
  Key next = 0;

  void append(double priority) {
    keys.push_back(next++);
    priorities.push_back(priority);
  }
  void replace(Slot slot, double priority) {
    keys[slot] = next++;
    priorities[slot] = priority;
  }
  void erase(Slot slot) {
    keys[slot] = keys.back();
    priorities[slot] = priorities.back();
    keys.pop_back();
    priorities.pop_back();
  }
};

/// Random operations on a selector and its mirror alike.
void shuffle_both(Selector& selector, Mirror& mirror, Rng& rng, int operations) {
  for (int i = 0; i < operations; ++i) {
    const std::uint64_t choice = rng.below(10);
    const double priority = static_cast<double>(rng.below(5));
    if (mirror.keys.empty() || choice < 4) {
      selector.append(priority);
      mirror.append(priority);
      continue;
    }
    const auto slot = static_cast<Slot>(rng.below(mirror.keys.size()));
    if (choice < 6) {
      selector.replace(slot, priority);
      mirror.replace(slot, priority);
    } else if (choice < 8) {
      selector.erase(slot);
      mirror.erase(slot);
    } else {
      selector.update({&slot, 1}, {&priority, 1});
      mirror.priorities[slot] = priority;
    }
  }
}

/// Makes all priorities different.
void set_apart(Selector& selector, Mirror& mirror) {
  for (std::size_t i = 0; i < mirror.keys.size(); ++i) {
    const auto slot = static_cast<Slot>(i);
    mirror.priorities[i] += static_cast<double>(i + 1) / 10000;
    selector.update({&slot, 1}, {&mirror.priorities[i], 1});
  }
}

class SelectorConformance : public testing::TestWithParam<SelectorKind> {};

TEST_P(SelectorConformance, CountsItsItems) {
  auto selector = make(GetParam());
  EXPECT_EQ(selector->size(), 0);
  for (int i = 0; i < 100; ++i) selector->append(1);
  EXPECT_EQ(selector->size(), 100);
  selector->replace(7, 2);
  EXPECT_EQ(selector->size(), 100);
  for (int i = 0; i < 100; ++i) selector->erase(0);
  EXPECT_EQ(selector->size(), 0);
}

TEST_P(SelectorConformance, DrawsTheOnlyItemForSure) {
  auto selector = make(GetParam());
  Rng rng(1);
  for (double priority : {0.0, 1e-30, 1.0, kMaxPriority}) {
    selector->append(priority);
    std::vector<Selection> draws(9);
    selector->select(rng, draws);
    for (const Selection& draw : draws) {
      EXPECT_EQ(draw.slot, 0u);
      EXPECT_DOUBLE_EQ(draw.probability, 1.0);
    }
    selector->erase(0);
  }
}

TEST_P(SelectorConformance, DrawsOnlyPresentSlotsUnderRandomOperations) {
  auto selector = make(GetParam(), 0.6);
  Mirror mirror;
  Rng operations(2);
  Rng rng(3);
  for (int round = 0; round < 300; ++round) {
    shuffle_both(*selector, mirror, operations, 20);
    ASSERT_EQ(selector->size(), static_cast<std::int64_t>(mirror.keys.size()));
    if (mirror.keys.empty()) continue;
    std::vector<Selection> draws(5);
    selector->select(rng, draws);
    for (const Selection& draw : draws) {
      ASSERT_LT(draw.slot, mirror.keys.size());
      ASSERT_GT(draw.probability, 0);
      ASSERT_LE(draw.probability, 1);
    }
  }
}

TEST_P(SelectorConformance, AssignGivesTheSameDrawsAsTheHistoryThatLedThere) {
  auto lived = make(GetParam(), 0.6);
  Mirror mirror;
  Rng operations(4);
  shuffle_both(*lived, mirror, operations, 3000);
  if (GetParam() == SelectorKind::kMaxHeap || GetParam() == SelectorKind::kMinHeap) set_apart(*lived, mirror);
  auto assigned = make(GetParam(), 0.6);
  assigned->append(3);  // to be forgotten
  assigned->assign(mirror.keys, mirror.priorities);
  ASSERT_EQ(assigned->size(), lived->size());
  for (int round = 0; round < 50; ++round) {
    Rng one(static_cast<std::uint64_t>(round));
    Rng two(static_cast<std::uint64_t>(round));
    std::vector<Selection> a(16);
    std::vector<Selection> b(16);
    lived->select(one, a);
    assigned->select(two, b);
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].slot, b[i].slot);
      ASSERT_EQ(a[i].probability, b[i].probability);
    }
    EXPECT_EQ(one.state(), two.state());
    lived->replace(a[0].slot, 2.0);
    assigned->replace(b[0].slot, 2.0);
    lived->erase(0);
    assigned->erase(0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SelectorConformance, testing::ValuesIn(kSelectorKinds),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(SelectorNames, RoundTripAndRefuseOthers) {
  for (const SelectorKind kind : kSelectorKinds) {
    EXPECT_EQ(selector_kind(to_string(kind)), kind);
  }
  EXPECT_EQ(selector_kind("heap"), std::nullopt);
}

TEST(SelectorOptions, RefusesAnExponentOutOfRange) {
  for (double exponent : {-0.1, 4.1, static_cast<double>(NAN)}) {
    auto result = make_selector({.kind = SelectorKind::kPrioritized, .priority_exponent = exponent});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
    EXPECT_NE(result.error().message.find("priority_exponent"), std::string::npos);
  }
}

/// Draws in batches of 256 and compares counts and reported probabilities with `expected`.
void expect_distribution(Selector& selector, const std::vector<double>& expected, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::int64_t> counts(expected.size());
  std::vector<Selection> draws(256);
  for (int batch = 0; batch < 2000; ++batch) {
    selector.select(rng, draws);
    for (const Selection& draw : draws) {
      ++counts[draw.slot];
      ASSERT_NEAR(draw.probability, expected[draw.slot], 1e-12 * expected[draw.slot]);  // rounding of a sum
    }
  }
  const auto possible = std::count_if(expected.begin(), expected.end(), [](double p) { return p > 0; });
  EXPECT_LT(chi_squared(counts, expected), chi_squared_bound(static_cast<double>(possible - 1)));
}

TEST(UniformSelector, DrawsEveryItemEquallyOften) {
  for (std::size_t count : {2u, 17u, 1000u}) {
    auto selector = make(SelectorKind::kUniform);
    for (std::size_t i = 0; i < count; ++i) selector->append(static_cast<double>(i));
    expect_distribution(*selector, std::vector<double>(count, 1.0 / static_cast<double>(count)), count);
  }
}

TEST(PrioritizedSelector, DrawsInProportionToPriorityToTheExponent) {
  for (double exponent : {0.0, 0.6, 1.0, 2.0}) {
    for (std::size_t count : {3u, 9u, 700u}) {
      auto selector = make(SelectorKind::kPrioritized, exponent);
      std::vector<double> expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        const double priority = static_cast<double>(i % 7);  // zeros among them: never drawn, whatever the exponent
        selector->append(priority);
        expected[i] = priority == 0 ? 0 : std::pow(priority, exponent);
      }
      const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
      for (double& probability : expected) probability /= sum;
      expect_distribution(*selector, expected, count);
    }
  }
}

TEST(PrioritizedSelector, DrawsUniformlyWhenAllPrioritiesAreZero) {
  auto selector = make(SelectorKind::kPrioritized);
  for (int i = 0; i < 20; ++i) selector->append(0);
  expect_distribution(*selector, std::vector<double>(20, 0.05), 5);
}

TEST(ByPrioritySelectors, FollowTheHighestAndTheLowestAndOfEqualOnesTheFirst) {
  for (const SelectorKind kind : {SelectorKind::kMaxHeap, SelectorKind::kMinHeap}) {
    const double sign = kind == SelectorKind::kMinHeap ? 1 : -1;
    auto selector = make(kind);
    std::vector<std::pair<double, int>> items;  // priority times sign, and when it was set
    Rng rng(7);
    for (int change = 0; change < 5000; ++change) {
      const std::uint64_t choice = rng.below(8);
      const double priority = static_cast<double>(rng.below(6));
      const auto slot = static_cast<Slot>(items.empty() ? 0 : rng.below(items.size()));
      if (items.empty() || choice < 3) {
        selector->append(priority);
        items.emplace_back(sign * priority, change);
      } else if (choice < 5) {
        selector->erase(slot);
        items[slot] = items.back();
        items.pop_back();
      } else {
        if (choice == 5) selector->replace(slot, priority);
        if (choice > 5) selector->update({&slot, 1}, {&priority, 1});
        items[slot] = {sign * priority, change};
      }
      if (items.empty()) continue;
      Selection draw;
      selector->select(rng, {&draw, 1});
      ASSERT_EQ(items[draw.slot], *std::ranges::min_element(items)) << to_string(kind) << ", change " << change;
    }
  }
}

TEST(ByAgeSelectors, FollowTheOldestAndTheNewestKey) {
  auto fifo = make(SelectorKind::kFifo);
  auto lifo = make(SelectorKind::kLifo);
  Mirror one;
  Mirror two;
  Rng rng(6);
  for (int round = 0; round < 2000; ++round) {
    Rng same = rng;
    shuffle_both(*fifo, one, rng, 3);
    shuffle_both(*lifo, two, same, 3);
    if (one.keys.empty()) continue;
    Selection oldest;
    Selection newest;
    fifo->select(rng, {&oldest, 1});
    lifo->select(rng, {&newest, 1});
    ASSERT_EQ(one.keys[oldest.slot], *std::min_element(one.keys.begin(), one.keys.end()));
    ASSERT_EQ(two.keys[newest.slot], *std::max_element(two.keys.begin(), two.keys.end()));
  }
}

}  // namespace
}  // namespace troupe::replay
