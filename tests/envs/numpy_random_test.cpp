// The golden numbers were printed by numpy 2.4.6's RandomState, in the order of the calls here.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <troupe/envs/numpy_random.hpp>

namespace troupe::envs {
namespace {

struct Golden {
  std::uint64_t seed;
  std::array<double, 3> samples;
  std::array<double, 3> normals;
  double uniform;                 // uniform(-3, 5)
  std::array<double, 2> further;  // after 1,000 more samples: randn(), which uses the kept value; uniform(1, 2)
};

TEST(NumpyRandom, DrawsWhatNumpyDraws) {
  const Golden goldens[] = {
      {0,
       {0.5488135039273248, 0.7151893663724195, 0.6027633760716439},
       {-2.268328201180374, 1.3335453816218967, -0.8427240538292873},
       4.134184006256638,
       {1.9699244478698945, 1.2244136119208402}},
      {42,
       {0.3745401188473625, 0.9507143064099162, 0.7319939418114051},
       {-1.1118801180469204, 0.31890218468938336, 0.2790412922001377},
       2.664580622368364,
       {1.0105152848065264, 1.2212094418196022}},
      {4294967295,
       {0.0976320289940138, 0.9123828453026218, 0.78903530185164},
       {0.0813036681172692, 0.4096851233481656, 0.31595808265170017},
       0.3139715658032767,
       {0.03503916479349264, 1.699965559274582}},
  };
  for (const Golden& golden : goldens) {
    SCOPED_TRACE(golden.seed);
    NumpyRandom random(golden.seed);
    for (double expected : golden.samples) EXPECT_EQ(random.random_sample(), expected);
    for (double expected : golden.normals) EXPECT_EQ(random.randn(), expected);
    EXPECT_EQ(random.uniform(-3, 5), golden.uniform);
    for (int i = 0; i < 1000; ++i) random.random_sample();
    EXPECT_EQ(random.randn(), golden.further[0]);
    EXPECT_EQ(random.uniform(1, 2), golden.further[1]);
  }
}

TEST(NumpyRandom, DrawsNumpysIntegersAndChoices) {
  NumpyRandom random(42);
  const std::pair<std::uint32_t, std::uint32_t> integers[] = {{1, 0}, {2, 0},      {4, 3}, {5, 4},
                                                              {7, 6}, {1000, 106}, {2, 1}, {4, 0}};
  for (const auto& [count, expected] : integers) EXPECT_EQ(random.randint(count), expected) << count;
  const std::array<double, 3> probabilities = {.1, .1, 1 - .1 - .1};
  for (const std::size_t expected : {2, 2, 0, 2, 2, 1, 2, 0, 2, 2, 0, 2}) {
    EXPECT_EQ(random.choice(probabilities), expected);
  }
  EXPECT_EQ(random.random_sample(), 0.6174815096277165);  // so the draws took as many words as numpy's
}

TEST(NumpyRandom, WideSeedsAreNumpysArraySeeds) {
  NumpyRandom random(0x123456789abcdef0);  // RandomState([0x9abcdef0, 0x12345678])
  for (double expected : {0.849063363578306, 0.9649343632780897, 0.8861196598032612}) {
    EXPECT_EQ(random.random_sample(), expected);
  }
  EXPECT_EQ(random.randn(), -1.925747832986363);
  EXPECT_EQ(random.randn(), -0.329390558344643);
  NumpyRandom smallest(std::uint64_t{1} << 32);  // RandomState([0, 1])
  EXPECT_EQ(smallest.random_sample(), 0.11299430095636409);
  EXPECT_EQ(smallest.random_sample(), 0.41782886486292836);
}

TEST(NumpyRandom, SavedStateContinuesTheSequenceWithTheKeptNormal) {
  NumpyRandom random(7);
  random.randn();  // leaves the second value of the pair
  NumpyRandom restored(8);
  ASSERT_TRUE(restored.set_state(random.state()));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(restored.randn(), random.randn());
}

TEST(NumpyRandom, RefusesStatesThatNoDrawLeadsTo) {
  NumpyRandom random(7);
  const NumpyRandom::State good = random.state();
  NumpyRandom::State zero = good;
  zero.key.fill(0);
  NumpyRandom::State beyond = good;
  beyond.position = 625;
  NumpyRandom::State flagged = good;
  flagged.has_gauss = 2;
  NumpyRandom::State not_a_number = good;
  not_a_number.gauss = std::numeric_limits<double>::quiet_NaN();
  for (const auto& bad : {zero, beyond, flagged, not_a_number}) EXPECT_FALSE(random.set_state(bad));
  EXPECT_EQ(random.random_sample(), NumpyRandom(7).random_sample());
}

}  // namespace
}  // namespace troupe::envs
