// A car in a valley, too weak to climb out directly (Moore 1990), which is pushed to the left, not at all, or to the
// right.
#include <algorithm>
#include <cmath>

#include <troupe/envs/classic/problem.hpp>

namespace troupe::envs::classic {
namespace {

struct MountainCar {
  static Numbers start(NumpyGenerator& random) { return {random.uniform(-0.6, -0.4), 0}; }

  static Outcome step(const State& state, double action) {
    double position = state.numbers[0];
    double velocity = state.numbers[1];
    velocity += (action - 1) * 0.001 + std::cos(3 * position) * -0.0025;
    velocity = std::clamp(velocity, -0.07, 0.07);
    position = std::clamp(position + velocity, -1.2, 0.6);
    if (position == -1.2 && velocity < 0) velocity = 0;  // the wall
    return {.numbers = {position, velocity}, .reward = -1, .terminated = position >= 0.5 && velocity >= 0};
  }

  static void observe(const State& state, std::span<float> observation) {
    observation[0] = static_cast<float>(state.numbers[0]);
    observation[1] = static_cast<float>(state.numbers[1]);
  }
};

}  // namespace

const Problem kMountainCar = {.name = "MountainCar-v0",
                              .episode_steps = 200,
                              .control_dt = 1,  // the equations have no seconds
                              .observation_size = 2,
                              .choices = 3,
                              .limits = {2, 1},
                              .start = MountainCar::start,
                              .step = MountainCar::step,
                              .observe = MountainCar::observe};

}  // namespace troupe::envs::classic
