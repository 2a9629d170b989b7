#include <troupe/envs/rewards.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#include <troupe/core/check.hpp>
#include <troupe/envs/numpy_math.hpp>

namespace troupe::envs {
namespace {

// distance in margins, > 0. The expressions keep dm_control's order of operations, for the sake of the last bit.
double fall_off(double distance, const Tolerance& options) {
  switch (options.sigmoid) {
    case Sigmoid::kGaussian: {
      const double scaled = distance * std::sqrt(-2 * std::log(options.value_at_margin));
      return std::exp(-0.5 * (scaled * scaled));
    }
    case Sigmoid::kLinear: {
      const double scaled = distance * (1 - options.value_at_margin);
      return std::abs(scaled) < 1 ? 1 - scaled : 0;
    }
    case Sigmoid::kQuadratic: {
      const double scaled = distance * std::sqrt(1 - options.value_at_margin);
      return std::abs(scaled) < 1 ? 1 - scaled * scaled : 0;
    }
    case Sigmoid::kLongTail: {
      const double scaled = distance * std::sqrt(1 / options.value_at_margin - 1);
      return 1 / (scaled * scaled + 1);
    }
    case Sigmoid::kReciprocal: {
      const double scale = 1 / options.value_at_margin - 1;
      return 1 / (distance * scale + 1);
    }
  }
  TROUPE_CHECK(false, "sigmoid {} is none of the five", static_cast<int>(options.sigmoid));
}

}  // namespace

double tolerance(double x, const Tolerance& options) {
  TROUPE_CHECK(options.lower <= options.upper && options.margin >= 0, "bounds [{}, {}], margin {}", options.lower,
               options.upper, options.margin);
  if (options.lower <= x && x <= options.upper) return 1;
  if (options.margin == 0) return 0;
  const double distance = (x < options.lower ? options.lower - x : x - options.upper) / options.margin;
  return fall_off(distance, options);
}

double small_controls(std::span<const double> controls) {
  std::array<double, 128> values;
  TROUPE_CHECK(controls.size() <= values.size(), "{} controls", controls.size());
  const auto end = std::ranges::transform(controls, values.begin(), [](double control) {
                     return tolerance(control, {.margin = 1, .sigmoid = Sigmoid::kQuadratic, .value_at_margin = 0});
                   }).out;
  return mean(std::span(values.begin(), end));
}

}  // namespace troupe::envs
