#include <troupe/core/resize.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <troupe/core/rng.hpp>

namespace troupe {
namespace {

/// Every pixel and channel differs from its neighbours.
Surface picture(std::int64_t height, std::int64_t width, std::int64_t channels) {
  Surface made{height, width, channels, {}};
  Rng rng(1);
  for (std::int64_t i = 0; i < height * width * channels; ++i) {
    made.pixels.push_back(static_cast<std::uint8_t>(rng.below(256)));
  }
  return made;
}

std::vector<float> resized(const Surface& from, const Region& region, const Resizer::To& to) {
  std::vector<float> out(static_cast<std::size_t>(to.height * to.width * from.channels));
  Resizer().resize(from.view(), region, to, out);
  return out;
}

/// The definition, pixel by pixel: weights of a triangle as wide as the step, or of how much of a pixel's area lies in
/// it, over the pixels that the region touches.
double at(const Surface& from, const Region& region, const Resizer::To& to, std::int64_t y, std::int64_t x,
          std::int64_t c) {
  const auto weight = [&](double begin, double length, std::int64_t size, std::int64_t out, std::int64_t pixel) {
    const double scale = length / static_cast<double>(size);
    const double middle = begin + (static_cast<double>(out) + 0.5) * scale;
    if (static_cast<double>(pixel) + 1 <= begin || static_cast<double>(pixel) >= begin + length) return 0.0;
    if (to.shrink == Resizer::Shrink::kArea && scale > 1) {
      const double low = begin + static_cast<double>(out) * scale;
      return std::max(
          0.0, std::min(static_cast<double>(pixel) + 1, low + scale) - std::max(static_cast<double>(pixel), low));
    }
    return std::max(0.0, 1 - std::abs(static_cast<double>(pixel) + 0.5 - middle) / std::max(scale, 1.0));
  };
  double sum = 0, weights = 0;
  for (std::int64_t v = 0; v < from.height; ++v) {
    for (std::int64_t u = 0; u < from.width; ++u) {
      const double w = weight(region.top, region.height, to.height, y, v) *
                       weight(region.left, region.width, to.width, to.mirror ? to.width - 1 - x : x, u);
      sum += w * from.pixels[static_cast<std::size_t>((v * from.width + u) * from.channels + c)];
      weights += w;
    }
  }
  return sum / weights;
}

TEST(Resize, IsItsDefinition) {
  Rng rng(4);
  for (const std::int64_t channels : {1, 3, 9}) {
    const Surface from = picture(23, 31, channels);
    for (int trial = 0; trial < 40; ++trial) {
      Region region;
      region.height = 1 + 22 * rng.uniform();
      region.width = 1 + 30 * rng.uniform();
      region.top = (23 - region.height) * rng.uniform();
      region.left = (31 - region.width) * rng.uniform();
      const Resizer::To to{static_cast<std::int64_t>(1 + rng.below(40)), static_cast<std::int64_t>(1 + rng.below(40)),
                           trial % 2 == 1, trial % 4 < 2 ? Resizer::Shrink::kTriangle : Resizer::Shrink::kArea};
      const std::vector<float> got = resized(from, region, to);
      std::size_t i = 0;
      for (std::int64_t y = 0; y < to.height; ++y) {
        for (std::int64_t x = 0; x < to.width; ++x) {
          for (std::int64_t c = 0; c < channels; ++c, ++i) {
            ASSERT_NEAR(got[i], at(from, region, to, y, x, c), 1e-3) << trial;  // float32 of values up to 255
          }
        }
      }
    }
  }
}

TEST(Resize, DoublesAsPyTorchDoes) {
  // torch.nn.functional.interpolate(..., mode="bilinear", align_corners=False) of [[0, 100]].
  EXPECT_EQ(resized({1, 2, 1, {0, 100}}, {0, 0, 1, 2}, {1, 4}), (std::vector<float>{0, 25, 75, 100}));
}

TEST(Resize, HalvesWithEveryPixelCounted) {
  // Triangles of width 4 over pixels 0 .. 3, cut at the border: weights 3/4, 3/4, 1/4 of a sum of 7/4.
  const std::vector<float> got = resized({1, 4, 1, {70, 0, 0, 0}}, {0, 0, 1, 4}, {1, 2});
  EXPECT_FLOAT_EQ(got[0], 30);
  EXPECT_FLOAT_EQ(got[1], 0);
}

TEST(Resize, TakesTheMeanOfAnArea) {
  const auto area = [](const Surface& from, std::int64_t width) {
    const auto whole = static_cast<double>(from.width);
    return resized(from, {0, 0, 1, whole}, {.height = 1, .width = width, .shrink = Resizer::Shrink::kArea});
  };
  EXPECT_EQ(area({1, 4, 1, {10, 20, 30, 50}}, 2), (std::vector<float>{15, 40}));
  // cv2.resize([[0, 90, 180]], (2, 1), interpolation=cv2.INTER_AREA): a pixel and a half each.
  const std::vector<float> uneven = area({1, 3, 1, {0, 90, 180}}, 2);
  EXPECT_FLOAT_EQ(uneven[0], 30);
  EXPECT_FLOAT_EQ(uneven[1], 150);
  EXPECT_EQ(area({1, 2, 1, {0, 100}}, 4), (std::vector<float>{0, 25, 75, 100}));  // what grows has no area to average
}

TEST(Resize, LeavesAsItIsWhatHasTheSize) {
  const Surface from = picture(9, 5, 3);
  const std::vector<float> same = resized(from, {0, 0, 9, 5}, {9, 5});
  EXPECT_TRUE(std::equal(same.begin(), same.end(), from.pixels.begin()));
  const std::vector<float> mirrored = resized(from, {0, 0, 9, 5}, {9, 5, true});
  for (std::size_t x = 0; x < 5; ++x) EXPECT_EQ(mirrored[3 * x], from.pixels[3 * (4 - x)]);
}

}  // namespace
}  // namespace troupe
