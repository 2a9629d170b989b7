// The golden numbers were printed by numpy 2.4.6's default_rng(seed), in the order of the calls here.
#include <gtest/gtest.h>

#include <array>

#include <troupe/envs/numpy_generator.hpp>

namespace troupe::envs {
namespace {

struct GeneratorGolden {
  std::uint64_t seed;
  std::array<double, 3> numbers;  // random()
  double uniform;                 // uniform(-3, 5)
  double last;                    // random(), after 1,000 more
};

TEST(NumpyGenerator, DrawsWhatNumpyDraws) {
  const GeneratorGolden goldens[] = {
      {0, {0.6369616873214543, 0.2697867137638703, 0.04097352393619469}, -2.8677789157717672, 0.6017947156364513},
      {1, {0.5118216247002567, 0.9504636963259353, 0.14415961271963373}, 4.589195577097951, 0.4636750178949943},
      {42, {0.7739560485559633, 0.4388784397520523, 0.8585979199113825}, 2.5789442324749112, 0.6322828130302102},
      {4294967295,
       {0.2519435680449965, 0.21906579628685663, 0.28728472043517017},
       1.951850420261465,
       0.9713199003154848},
  };
  for (const GeneratorGolden& golden : goldens) {
    SCOPED_TRACE(golden.seed);
    NumpyGenerator generator(golden.seed);
    for (const double expected : golden.numbers) EXPECT_EQ(generator.random(), expected);
    EXPECT_EQ(generator.uniform(-3, 5), golden.uniform);
    for (int i = 0; i < 1000; ++i) generator.random();
    EXPECT_EQ(generator.random(), golden.last);
  }
}

TEST(NumpyGenerator, SeedsOfMoreThan32BitsCountAsAWhole) {
  const std::pair<std::uint64_t, double> firsts[] = {{4294967296, 0.8897387912781343},
                                                     {0x123456789abcdef0, 0.20418281520908887},
                                                     {0xffffffffffffffff, 0.6800266789616931}};
  for (const auto& [seed, expected] : firsts) EXPECT_EQ(NumpyGenerator(seed).random(), expected) << seed;
}

TEST(NumpyGenerator, ASavedStateContinuesTheSequence) {
  NumpyGenerator generator(7);
  generator.random();
  NumpyGenerator restored(8);
  ASSERT_TRUE(restored.set_state(generator.state()));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(restored.random(), generator.random());
  EXPECT_EQ(restored.state(), generator.state());
}

TEST(NumpyGenerator, RefusesAStateThatNoSeedLeadsTo) {
  NumpyGenerator generator(7);
  NumpyGenerator::State even = generator.state();
  even.increment[1] ^= 1;
  EXPECT_FALSE(generator.set_state(even));
  EXPECT_EQ(generator.random(), NumpyGenerator(7).random());
}

}  // namespace
}  // namespace troupe::envs
