// A pole on a cart that is pushed to the left or to the right (Barto, Sutton & Anderson 1983).
#include <cmath>
#include <numbers>

#include <troupe/envs/classic/problem.hpp>

namespace troupe::envs::classic {
namespace {

constexpr double kStep = 0.02;  // seconds
constexpr double kGravity = 9.8;
constexpr double kPoleMass = 0.1;
constexpr double kMass = kPoleMass + 1.0;
constexpr double kHalfLength = 0.5;
constexpr double kForce = 10;
constexpr double kFarthest = 2.4;
constexpr double kFallen = 12 * 2 * std::numbers::pi / 360;

struct CartPole {
  static Numbers start(NumpyGenerator& random) {
    Numbers numbers;
    for (double& number : numbers) number = random.uniform(-0.05, 0.05);
    return numbers;
  }

  static Outcome step(const State& state, double action) {
    const auto [x, speed, angle, turn] = state.numbers;
    const double cosine = std::cos(angle);
    const double sine = std::sin(angle);
    const double moment = kPoleMass * kHalfLength;
    const double push = ((action == 1 ? kForce : -kForce) + moment * (turn * turn) * sine) / kMass;
    const double turn_change =
        (kGravity * sine - cosine * push) / (kHalfLength * (4.0 / 3.0 - kPoleMass * (cosine * cosine) / kMass));
    const double speed_change = push - moment * turn_change * cosine / kMass;

    Outcome outcome;
    outcome.numbers = {x + kStep * speed, speed + kStep * speed_change, angle + kStep * turn,
                       turn + kStep * turn_change};
    outcome.reward = 1;  // also for the step with which the pole falls
    outcome.terminated = std::abs(outcome.numbers[0]) > kFarthest || std::abs(outcome.numbers[2]) > kFallen;
    return outcome;
  }

  static void observe(const State& state, std::span<float> observation) {
    for (std::size_t i = 0; i < 4; ++i) observation[i] = static_cast<float>(state.numbers[i]);
  }
};

}  // namespace

const Problem kCartPole = {.name = "CartPole-v1",
                           .episode_steps = 500,
                           .control_dt = kStep,
                           .observation_size = 4,
                           .choices = 2,
                           .limits = {10, 1000, 10, 1000},
                           .start = CartPole::start,
                           .step = CartPole::step,
                           .observe = CartPole::observe};

}  // namespace troupe::envs::classic
