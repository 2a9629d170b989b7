// The golden numbers were printed by numpy 2.4.6 with its portable code (see dm_control_parity.py).
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/envs/numpy_math.hpp>

namespace troupe::envs {
namespace {

TEST(NumpyMath, MeansAddInNumpysOrder) {
  std::vector<double> values;
  for (int i = 0; i < 21; ++i) values.push_back(.1 * (i * i % 7) - .25);
  const std::pair<std::size_t, double> goldens[] = {
      {1, -0.25},  {3, -0.08333333333333333},  {7, -0.049999999999999996},   // one after the other
      {8, -0.075}, {20, -0.04499999999999999}, {21, -0.04999999999999999}};  // in eight strands
  for (const auto& [count, expected] : goldens) EXPECT_EQ(mean(std::span(values).first(count)), expected) << count;
}

TEST(NumpyMath, NormsAndProductsAreNumpys) {
  const std::array<double, 3> vector = {.1, -.7, 1.3};
  EXPECT_EQ(norm(vector), 1.4798648586948742);
  EXPECT_EQ(norm(std::array{1.0 / 3, 2.0 / 7, -.9, 1e-3}), 1.0013714416600543);
  const std::array<double, 9> matrix = {.6, -.8, .01, .8, .6, .02, -.3, .1, .999};
  EXPECT_EQ(in_frame(vector, matrix.data()), (std::array{-0.8899999999999999, -0.37, 1.2857}));
}

TEST(NumpyMath, NormalizedVectorsHaveLengthOne) {
  std::array<double, 2> vector = {-3, 4};
  normalize(vector);
  EXPECT_EQ(vector, (std::array{-.6, .8}));
}

TEST(NumpyMath, SquaresAreTheCLibrarysPowersAndNotProducts) {
  double (*volatile const power)(double, double) = std::pow;  // which the compiler cannot look into
  Rng rng(1);
  int other_bits = 0;
  for (int i = 0; i < 50'000; ++i) {
    const double number = 20 * rng.uniform() - 10;
    ASSERT_EQ(squared_by_pow(number), power(number, 2)) << number;
    other_bits += squared_by_pow(number) != number * number ? 1 : 0;
  }
  EXPECT_GT(other_bits, 0);
  EXPECT_EQ(squared_by_pow(-3.0f), 9.0f);
}

}  // namespace
}  // namespace troupe::envs
