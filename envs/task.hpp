#pragma once
// What a suite domain adds to the physics: start states, observations, rewards (dm_control's suite.base.Task). A task
// is immutable: all that changes lives in Physics and NumpyRandom, so that saving those two saves an environment.
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/envs/numpy_random.hpp>
#include <troupe/envs/physics.hpp>

namespace troupe::envs {

class Task {
 public:
  virtual ~Task() = default;

  /// Columns of the observation, names and order as dm_control's OrderedDict. All are float64.
  virtual Signature observation_spec() const = 0;
  /// Writes a start state after Physics::reset(); the caller runs forward_without_actuation() afterwards. Draws from
  /// `random` in dm_control's order. Errors: kInternal when no start state can be found or the simulation diverges.
  virtual Status initialise_episode(Physics& physics, NumpyRandom& random) const = 0;
  /// Writes all columns of observation_spec(), one after the other.
  virtual void observe(const Physics& physics, std::span<double> observation) const = 0;
  virtual double reward(const Physics& physics) const = 0;
};

/// One entry of the list of environments.
struct TaskEntry {
  std::string_view name;      ///< "cartpole-swingup"
  std::string_view model;     ///< file in dm_control's suite folder: "cartpole.xml"
  double time_limit_s = 0;    ///< of an episode
  double control_dt_s = 0;    ///< a multiple of the model's time step
  void (*prepare)(mjModel&);  ///< changes that hold for all episodes; may be null
  std::unique_ptr<Task> (*make)(const mjModel&);
};

/// dm_control's randomize_limited_and_rotational_joints for models of hinges and slides: limited joints are uniform in
/// their range, unlimited hinges uniform in [-pi, pi), unlimited slides untouched.
void randomize_joints(Physics& physics, NumpyRandom& random);

// The domains, one file each.
std::span<const TaskEntry> cartpole_tasks();
std::span<const TaskEntry> cheetah_tasks();
std::span<const TaskEntry> finger_tasks();
std::span<const TaskEntry> pendulum_tasks();
std::span<const TaskEntry> reacher_tasks();
std::span<const TaskEntry> walker_tasks();

}  // namespace troupe::envs
