// dm_control/suite/walker.py: a planar walker that stands, walks or runs.
#include <algorithm>
#include <array>

#include <troupe/core/check.hpp>
#include <troupe/envs/rewards.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

constexpr double kStandHeight = 1.2;  // m, of the torso
constexpr int kBodies = 7;            // the world not counted

class Walker final : public Task {
 public:
  /// move_speed: m/s that give full reward; 0 rewards standing alone.
  Walker(const mjModel& model, double move_speed)
      : move_speed_(move_speed),
        torso_(object_id(model, mjOBJ_BODY, "torso")),
        velocity_(sensor_address(model, "torso_subtreelinvel")) {
    TROUPE_CHECK(model.nbody == kBodies + 1 && model.nv == 9, "walker.xml has {} bodies", model.nbody);
  }

  Signature observation_spec() const override {
    return {{"orientations", DType::kF64, {2 * kBodies}}, {"height", DType::kF64, {}}, {"velocity", DType::kF64, {9}}};
  }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    randomize_joints(physics, random);
    return {};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    auto out = observation.begin();
    for (int body = 1; body <= kBodies; ++body) {
      *out++ = physics.rotation(body)[0];
      *out++ = physics.rotation(body)[2];
    }
    *out++ = physics.data().xpos[3 * torso_ + 2];
    std::copy_n(physics.data().qvel, 9, out);
  }

  double reward(const Physics& physics) const override {
    const double standing = tolerance(physics.data().xpos[3 * torso_ + 2],
                                      {.lower = kStandHeight, .upper = kInfinity, .margin = kStandHeight / 2});
    const double upright = (1 + physics.rotation(torso_)[8]) / 2;
    const double stand_reward = (3 * standing + upright) / 4;
    if (move_speed_ == 0) return stand_reward;
    const double move_reward = tolerance(physics.data().sensordata[velocity_], {.lower = move_speed_,
                                                                                .upper = kInfinity,
                                                                                .margin = move_speed_ / 2,
                                                                                .sigmoid = Sigmoid::kLinear,
                                                                                .value_at_margin = 0.5});
    return stand_reward * (5 * move_reward + 1) / 6;
  }

 private:
  double move_speed_;
  int torso_;
  int velocity_;  // of the torso's centre of mass, x, in sensordata
};

template <int move_speed>
std::unique_ptr<Task> make(const mjModel& model) {
  return std::make_unique<Walker>(model, move_speed);
}

constexpr TaskEntry walker_entry(std::string_view name, std::unique_ptr<Task> (*make)(const mjModel&)) {
  return {.name = name, .model = "walker.xml", .time_limit_s = 25, .control_dt_s = .025, .make = make};
}

constexpr std::array kWalkerTasks = {walker_entry("walker-stand", make<0>), walker_entry("walker-walk", make<1>),
                                     walker_entry("walker-run", make<8>)};

}  // namespace

std::span<const TaskEntry> walker_tasks() { return kWalkerTasks; }

}  // namespace troupe::envs
