// The golden numbers were printed by scipy 1.17.1's ndimage.zoom.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include <troupe/envs/spline_zoom.hpp>

namespace troupe::envs {
namespace {

TEST(SplineZoom, IsScipysToTheBit) {
  const std::array<double, 9> grid = {.5, 1, .25, .125, .75, .5, 1, 0, .375};
  const std::vector<double> expected = {0.5000000000000006,
                                        0.7734375000000004,
                                        1.0000000000000004,
                                        0.6015625,
                                        0.2500000000000003,
                                        0.26562499999999994,
                                        0.6080322265625002,
                                        0.9687500000000007,
                                        0.6751708984375002,
                                        0.36328125000000006,
                                        0.12499999999999993,
                                        0.40234375000000006,
                                        0.7500000000000004,
                                        0.6601562500000001,
                                        0.5,
                                        0.609375,
                                        0.46032714843750006,
                                        0.2812500000000001,
                                        0.3502197265625,
                                        0.44921875000000017,
                                        0.9999999999999999,
                                        0.5585937500000001,
                                        1.0408340855860846e-16,
                                        0.12890625000000003,
                                        0.3750000000000001};
  EXPECT_EQ(spline_zoom(grid, 5), expected);
}

TEST(SplineZoom, GoesThroughTheCornersAndKeepsWhatIsFlat) {
  const std::vector<double> corners = spline_zoom(std::array{1.0, 2.0, 3.0, 4.0}, 4);
  for (const auto& [at, value] : {std::pair<std::size_t, double>{0, 1}, {3, 2}, {12, 3}, {15, 4}}) {
    EXPECT_NEAR(corners[at], value, 1e-14) << at;  // a few roundings of numbers below ten
  }
  for (const double height : spline_zoom(std::vector<double>(25, .5), 9)) EXPECT_NEAR(height, .5, 1e-14);
}

}  // namespace
}  // namespace troupe::envs
