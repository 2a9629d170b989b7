#pragma once
// What the domains humanoid and humanoid_CMU share: a body that is to stand, walk or run, told from its head, its trunk
// and its four extremities.
#include <array>
#include <string_view>

#include <troupe/envs/task.hpp>

namespace troupe::envs {

/// The names and places by which the two models differ.
struct HumanoidBody {
  std::string_view trunk;                       ///< body
  int upright;                                  ///< entry of the trunk's rotation matrix that is 1 when it is upright
  std::string_view velocity;                    ///< sensor of the trunk's centre of mass
  std::array<std::string_view, 4> extremities;  ///< bodies
};

class HumanoidTask final : public Task {
 public:
  struct Options {
    double move_speed;  ///< m/s that give full reward; 0 rewards standing still
    bool pure_state;    ///< the observation is position and velocity alone
  };
  HumanoidTask(const mjModel& model, const HumanoidBody& body, Options options);

  Signature observation_spec() const override;
  Status initialise_episode(Physics& physics, NumpyRandom& random) const override;
  void observe(const Physics& physics, std::span<double> observation) const override;
  double reward(const Physics& physics) const override;

 private:
  Options options_;
  int upright_;
  int trunk_;
  int head_;
  int velocity_;  // in sensordata
  std::array<int, 4> extremities_{};
  int positions_;
  int velocities_;
  int controls_;
};

}  // namespace troupe::envs
