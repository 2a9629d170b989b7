#pragma once
// The arm of the domains manipulator and stacker: eight joints in a plane, a hand with a finger and a thumb, five touch
// sensors.
#include <array>
#include <span>

#include <troupe/envs/task.hpp>

namespace troupe::envs {

class PlanarArm {
 public:
  explicit PlanarArm(const mjModel& model);

  /// Columns of the observation: arm_pos, arm_vel, touch, hand_pos.
  static Signature observation_spec();
  /// Writes them and returns where they end.
  std::span<double>::iterator observe(const Physics& physics, std::span<double>::iterator out) const;

  /// Random angles, the finger as far open as the thumb.
  void randomize(Physics& physics, NumpyRandom& random) const;
  /// Where the hand would hold a thing.
  int grasp_site() const { return grasp_; }

 private:
  std::array<int, 8> joints_{};
  std::array<int, 5> touches_{};  // in sensordata
  int hand_;
  int grasp_;
};

/// x and z of a body, then w and y of its quaternion.
std::array<double, 4> planar_pose(const Physics& physics, int body);

/// Put a body of the model to x and z, and turn it around y. Its positions and rotations are parts that the task
/// changes.
void place_body(Physics& physics, int body, double x, double z);
void turn_body(Physics& physics, int body, double angle);

/// Between two sites.
double site_distance(const Physics& physics, int a, int b);

}  // namespace troupe::envs
