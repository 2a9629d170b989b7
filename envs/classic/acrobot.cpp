// Two links that hang, with a motor between them, whose lower end is to be swung up (Sutton 1996). The equations are
// those of Sutton & Barto's book, as gymnasium has them.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <troupe/envs/classic/problem.hpp>
#include <troupe/envs/numpy_math.hpp>

namespace troupe::envs::classic {
namespace {

constexpr double kPi = std::numbers::pi;

/// The change of each number in a second. Masses, lengths and moments of inertia are all 1, and a link's centre of mass
/// is in its middle.
Numbers acrobot_change(const Numbers& numbers, double torque) {
  const auto [angle1, angle2, turn1, turn2] = numbers;
  const double cosine2 = std::cos(angle2);
  const double sine2 = std::sin(angle2);
  const double d1 = 0.25 + (1.25 + cosine2) + 1 + 1;
  const double d2 = (0.25 + 0.5 * cosine2) + 1;
  const double phi2 = 0.5 * 9.8 * std::cos(angle1 + angle2 - kPi / 2);
  const double phi1 =
      -0.5 * squared_by_pow(turn2) * sine2 - turn2 * turn1 * sine2 + 1.5 * 9.8 * std::cos(angle1 - kPi / 2) + phi2;
  const double change2 =
      (torque + d2 / d1 * phi1 - 0.5 * squared_by_pow(turn1) * sine2 - phi2) / (1.25 - squared_by_pow(d2) / d1);
  const double change1 = -(d2 * change2 + phi1) / d1;
  return {turn1, turn2, change1, change2};
}

/// numbers + seconds * change.
Numbers acrobot_after(const Numbers& numbers, double seconds, const Numbers& change) {
  Numbers result;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = numbers[i] + seconds * change[i];
  return result;
}

/// The same angle from -pi to pi, by whole turns.
double acrobot_wrapped(double angle) {
  while (angle > kPi) angle -= 2 * kPi;
  while (angle < -kPi) angle += 2 * kPi;
  return angle;
}

struct Acrobot {
  static constexpr double kStep = 0.2;  // seconds

  static Numbers start(NumpyGenerator& random) {
    Numbers numbers;
    for (double& number : numbers) number = static_cast<float>(random.uniform(-0.1, 0.1));
    return numbers;
  }

  /// One step of the classic fourth-order Runge-Kutta method.
  static Outcome step(const State& state, double action) {
    const Numbers& from = state.numbers;
    const double torque = action - 1;
    const Numbers k1 = acrobot_change(from, torque);
    const Numbers k2 = acrobot_change(acrobot_after(from, kStep / 2, k1), torque);
    const Numbers k3 = acrobot_change(acrobot_after(from, kStep / 2, k2), torque);
    const Numbers k4 = acrobot_change(acrobot_after(from, kStep, k3), torque);
    Numbers sum;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i];
    Numbers to = acrobot_after(from, kStep / 6, sum);
    to[0] = acrobot_wrapped(to[0]);
    to[1] = acrobot_wrapped(to[1]);
    to[2] = std::clamp(to[2], -4 * kPi, 4 * kPi);
    to[3] = std::clamp(to[3], -9 * kPi, 9 * kPi);
    const bool up = -std::cos(to[0]) - std::cos(to[1] + to[0]) > 1;
    return {.numbers = to, .reward = up ? 0.0 : -1.0, .terminated = up};
  }

  static void observe(const State& state, std::span<float> observation) {
    const auto [angle1, angle2, turn1, turn2] = state.numbers;
    // gymnasium's numbers are float32 until the first step, and so are their sines then.
    const auto sine = [&](double angle) {
      return state.at_start ? std::sin(static_cast<float>(angle)) : static_cast<float>(std::sin(angle));
    };
    const auto cosine = [&](double angle) {
      return state.at_start ? std::cos(static_cast<float>(angle)) : static_cast<float>(std::cos(angle));
    };
    observation[0] = cosine(angle1);
    observation[1] = sine(angle1);
    observation[2] = cosine(angle2);
    observation[3] = sine(angle2);
    observation[4] = static_cast<float>(turn1);
    observation[5] = static_cast<float>(turn2);
  }
};

}  // namespace

const Problem kAcrobot = {.name = "Acrobot-v1",
                          .episode_steps = 500,
                          .control_dt = Acrobot::kStep,
                          .observation_size = 6,
                          .choices = 3,
                          .limits = {4, 4, 13, 29},
                          .start = Acrobot::start,
                          .step = Acrobot::step,
                          .observe = Acrobot::observe};

}  // namespace troupe::envs::classic
