#pragma once
// What a problem of classic control is: gymnasium's equations, with the bits that gymnasium's Python has. A problem is
// a value, numbers and three functions without any state of their own; classic_environment.hpp makes an Environment of
// it.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include <troupe/envs/numpy_generator.hpp>

namespace troupe::envs::classic {

/// Positions and velocities, as many as the problem has; the others are 0.
using Numbers = std::array<double, 4>;

struct State {
  Numbers numbers{};
  bool at_start =
      true;  ///< no step was taken in this episode: gymnasium may hold its numbers in another precision then
};

/// What a step leads to.
struct Outcome {
  Numbers numbers{};
  double reward = 0;
  bool terminated = false;  ///< the task is over; the time limit is the environment's
};

struct Problem {
  std::string_view name;  ///< gymnasium's: "CartPole-v1"
  std::int64_t episode_steps = 0;
  double control_dt = 0;
  std::int64_t observation_size = 0;
  std::int64_t choices = 0;  ///< that an action has; 0: an action is a float32
  double bound = 0;          ///< of an action without choices, which is from -bound to bound
  /// No step leads beyond these, in either direction. Saved states are held against them, since an equation may never
  /// come to an end for numbers out of this world.
  Numbers limits{};

  Numbers (*start)(NumpyGenerator& random) = nullptr;
  /// action: the choice, or the float32, which may be beyond its bounds.
  Outcome (*step)(const State& state, double action) = nullptr;
  void (*observe)(const State& state, std::span<float> observation) = nullptr;
};

// The problems, one file each.
extern const Problem kAcrobot;
extern const Problem kCartPole;
extern const Problem kMountainCar;
extern const Problem kMountainCarContinuous;
extern const Problem kPendulum;

}  // namespace troupe::envs::classic
