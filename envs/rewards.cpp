#include <troupe/envs/rewards.hpp>

#include <cmath>

#include <troupe/core/check.hpp>

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
  }
  TROUPE_CHECK(false, "sigmoid {} is none of the three", static_cast<int>(options.sigmoid));
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

}  // namespace troupe::envs
