// A pendulum that is to be swung up and held there by a motor too weak to lift it directly.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <troupe/envs/classic/problem.hpp>
#include <troupe/envs/numpy_math.hpp>

namespace troupe::envs::classic {
namespace {

struct Pendulum {
  static constexpr double kStep = 0.05;  // seconds
  static constexpr float kMaxTorque = 2;
  static constexpr double kMaxTurn = 8;  // a second

  static Numbers start(NumpyGenerator& random) {
    const double angle = random.uniform(-std::numbers::pi, std::numbers::pi);
    return {angle, random.uniform(-1, 1)};
  }

  static Outcome step(const State& state, double action) {
    const double angle = state.numbers[0];
    const double turn = state.numbers[1];
    // The torque's share stays a float32 in gymnasium, as the action is.
    const float torque = std::clamp(static_cast<float>(action), -kMaxTorque, kMaxTorque);
    const double cost =
        squared_by_pow(from_upright(angle)) + 0.1 * squared_by_pow(turn) + 0.001f * squared_by_pow(torque);
    const double next_turn = std::clamp(turn + (15.0 * std::sin(angle) + 3.0f * torque) * kStep, -kMaxTurn, kMaxTurn);
    return {.numbers = {angle + next_turn * kStep, next_turn}, .reward = -cost};
  }

  static void observe(const State& state, std::span<float> observation) {
    observation[0] = static_cast<float>(std::cos(state.numbers[0]));
    observation[1] = static_cast<float>(std::sin(state.numbers[0]));
    observation[2] = static_cast<float>(state.numbers[1]);
  }

 private:
  /// The angle, which grows with every turn, from -pi to pi: Python's (angle + pi) % (2 * pi) - pi.
  static double from_upright(double angle) {
    constexpr double kWholeTurn = 2 * std::numbers::pi;
    double rest = std::fmod(angle + std::numbers::pi, kWholeTurn);
    if (rest < 0) rest += kWholeTurn;
    return rest - std::numbers::pi;
  }
};

}  // namespace

const Problem kPendulum = {.name = "Pendulum-v1",
                           .episode_steps = 200,
                           .control_dt = Pendulum::kStep,
                           .observation_size = 3,
                           .bound = Pendulum::kMaxTorque,
                           .limits = {100, Pendulum::kMaxTurn},  // 200 steps of 0.4 are 80
                           .start = Pendulum::start,
                           .step = Pendulum::step,
                           .observe = Pendulum::observe};

}  // namespace troupe::envs::classic
