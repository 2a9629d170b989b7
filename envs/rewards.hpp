#pragma once
// dm_control's soft indicator, from which the suite's rewards are made (dm_control/utils/rewards.py).
#include <limits>
#include <span>

namespace troupe::envs {

/// How tolerance() falls off outside of its bounds.
enum class Sigmoid {
  kGaussian,    ///< exp(-d^2 / 2), scaled; value_at_margin in (0, 1)
  kLinear,      ///< 1 - d, scaled, then 0; value_at_margin in [0, 1)
  kQuadratic,   ///< 1 - d^2, scaled, then 0; value_at_margin in [0, 1)
  kLongTail,    ///< 1 / (1 + d^2), scaled; value_at_margin in (0, 1)
  kReciprocal,  ///< 1 / (1 + d), scaled; value_at_margin in (0, 1)
};

struct Tolerance {
  double lower = 0;   ///< inclusive; may be infinite
  double upper = 0;   ///< inclusive, >= lower; may be infinite
  double margin = 0;  ///< distance from the bounds at which the value is value_at_margin; 0: a hard edge
  Sigmoid sigmoid = Sigmoid::kGaussian;
  double value_at_margin = 0.1;
};

/// 1 inside of the bounds, between 0 and 1 outside. Agrees with dm_control to the last bit or two: numpy's exp is not
/// the C library's.
double tolerance(double x, const Tolerance& options);

/// The mean over 1 to 128 controls of 1 - control^2, none below 0: what several domains reward small actions by.
double small_controls(std::span<const double> controls);

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace troupe::envs
