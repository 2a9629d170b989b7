#pragma once
// What a suite domain adds to the physics: start states, observations, rewards (dm_control's suite.base.Task). A task
// is immutable: all that changes lives in Physics and NumpyRandom, so that saving those two saves an environment.
#include <functional>
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

  /// The parts of the model that initialise_world() and initialise_episode() write.
  virtual std::vector<ModelPart> changes() const { return {}; }
  /// Draws what a world has besides its episodes: once for each seed, before its first episode.
  virtual void initialise_world(Physics&, NumpyRandom&) const {}
  /// Whether the task itself ends the episode here, with discount 0.
  virtual bool finished(const Physics&) const { return false; }
};

/// One entry of the list of environments.
struct TaskEntry {
  std::string_view name;    ///< "cartpole-swingup"
  std::string_view model;   ///< file in dm_control's suite folder: "cartpole.xml"
  double time_limit_s = 0;  ///< of an episode
  double control_dt_s = 0;  ///< a multiple of the model's time step
  ModelChanges change = {};
  std::unique_ptr<Task> (*make)(const mjModel&);
};

/// dm_control's randomize_limited_and_rotational_joints: limited hinges and slides are uniform in their range,
/// unlimited hinges uniform in [-pi, pi), the rotation of a free joint is four uniform numbers, normalised. Unlimited
/// slides and the position of a free joint stay as they are.
void randomize_joints(Physics& physics, NumpyRandom& random);

/// Writes start states by `randomize` until one has no contact. Errors: kInternal after 10,000 attempts, and those of
/// `randomize` and Physics::forward_without_actuation().
Status randomize_without_contact(Physics& physics, const std::function<Status()>& randomize);
/// The same of randomize_joints().
Status randomize_joints_without_contact(Physics& physics, NumpyRandom& random);

// The domains, one file each.
std::span<const TaskEntry> acrobot_tasks();
std::span<const TaskEntry> ball_in_cup_tasks();
std::span<const TaskEntry> cartpole_tasks();
std::span<const TaskEntry> cheetah_tasks();
std::span<const TaskEntry> dog_tasks();
std::span<const TaskEntry> finger_tasks();
std::span<const TaskEntry> fish_tasks();
std::span<const TaskEntry> hopper_tasks();
std::span<const TaskEntry> humanoid_cmu_tasks();
std::span<const TaskEntry> humanoid_tasks();
std::span<const TaskEntry> lqr_tasks();
std::span<const TaskEntry> manipulator_tasks();
std::span<const TaskEntry> pendulum_tasks();
std::span<const TaskEntry> point_mass_tasks();
std::span<const TaskEntry> quadruped_tasks();
std::span<const TaskEntry> reacher_tasks();
std::span<const TaskEntry> stacker_tasks();
std::span<const TaskEntry> swimmer_tasks();
std::span<const TaskEntry> walker_tasks();

}  // namespace troupe::envs
