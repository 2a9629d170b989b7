// The car in the valley of mountain_car.cpp, whose engine pulls with any force up to a bound, and pays for it.
//
// In gymnasium, types come from what numpy 2 makes of mixed numbers, and bits follow from them. The numbers of a start
// are float64; a step stores float32, and what is made of those is float32 too. A force within the bounds is a float32,
// and one that was cut is a float64.
#include <algorithm>
#include <cmath>

#include <troupe/envs/classic/problem.hpp>

namespace troupe::envs::classic {
namespace {

struct MountainCarContinuous {
  static Numbers start(NumpyGenerator& random) { return {random.uniform(-0.6, -0.4), 0}; }

  static Outcome step(const State& state, double action) {
    return state.at_start ? step_of<double>(state, action) : step_of<float>(state, action);
  }

  static void observe(const State& state, std::span<float> observation) {
    observation[0] = static_cast<float>(state.numbers[0]);
    observation[1] = static_cast<float>(state.numbers[1]);
  }

 private:
  /// Number: the type of the present position and velocity.
  template <typename Number>
  static Outcome step_of(const State& state, double action) {
    auto position = static_cast<Number>(state.numbers[0]);
    auto velocity = static_cast<Number>(state.numbers[1]);
    const double slope = 0.0025 * std::cos(static_cast<double>(3 * position));
    const double force = std::clamp(action, -1.0, 1.0);
    if (force == action) {
      velocity += static_cast<Number>(static_cast<float>(force) * 0.0015f - static_cast<float>(slope));
    } else {
      velocity += static_cast<Number>(force * 0.0015 - slope);
    }
    velocity = std::clamp(velocity, Number{-0.07}, Number{0.07});
    position = std::clamp(position + velocity, Number{-1.2}, Number{0.6});
    if (position == Number{-1.2} && velocity < 0) velocity = 0;  // the wall
    const bool out = position >= Number{0.45} && velocity >= 0;
    // The square is exact: the action is a float32.
    return {.numbers = {static_cast<float>(position), static_cast<float>(velocity)},
            .reward = (out ? 100.0 : 0.0) - action * action * 0.1,
            .terminated = out};
  }
};

}  // namespace

const Problem kMountainCarContinuous = {.name = "MountainCarContinuous-v0",
                                        .episode_steps = 999,
                                        .control_dt = 1,  // the equations have no seconds
                                        .observation_size = 2,
                                        .bound = 1,
                                        .limits = {2, 1},
                                        .start = MountainCarContinuous::start,
                                        .step = MountainCarContinuous::step,
                                        .observe = MountainCarContinuous::observe};

}  // namespace troupe::envs::classic
