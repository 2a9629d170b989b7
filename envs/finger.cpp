// dm_control/suite/finger.py: a two-joint finger that spins a free body.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

constexpr double kSpinVelocity = 15;  // rad/s
constexpr int kMaxStartAttempts = 1000;

class FingerSpin final : public Task {
 public:
  explicit FingerSpin(const mjModel& model)
      : proximal_(sensor_address(model, "proximal")),
        distal_(sensor_address(model, "distal")),
        velocities_{sensor_address(model, "proximal_velocity"), sensor_address(model, "distal_velocity"),
                    sensor_address(model, "hinge_velocity")},
        tip_(sensor_address(model, "tip")),
        spinner_(sensor_address(model, "spinner")),
        touches_{sensor_address(model, "touchtop"), sensor_address(model, "touchbottom")} {}

  Signature observation_spec() const override {
    return {{"position", DType::kF64, {4}}, {"velocity", DType::kF64, {3}}, {"touch", DType::kF64, {2}}};
  }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    for (int attempt = 0; attempt < kMaxStartAttempts; ++attempt) {
      randomize_joints(physics, random);
      TROUPE_TRY(physics.forward_without_actuation());
      if (physics.data().ncon == 0) return {};
    }
    return Error{Code::kInternal, fmt::format("no collision-free start state in {} attempts", kMaxStartAttempts)};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    const double* sensors = physics.data().sensordata;
    auto out = observation.begin();
    *out++ = sensors[proximal_];
    *out++ = sensors[distal_];
    *out++ = sensors[tip_] - sensors[spinner_];
    *out++ = sensors[tip_ + 2] - sensors[spinner_ + 2];
    for (int velocity : velocities_) *out++ = sensors[velocity];
    // numpy's log1p is its own where the CPU has wide vectors, so these two may differ from dm_control in the last bit.
    for (int touch : touches_) *out++ = std::log1p(sensors[touch]);
  }

  double reward(const Physics& physics) const override {
    return physics.data().sensordata[velocities_[2]] <= -kSpinVelocity ? 1 : 0;
  }

 private:
  // Where the sensors' values start in sensordata.
  int proximal_;
  int distal_;
  std::array<int, 3> velocities_;  // proximal, distal, hinge
  int tip_;
  int spinner_;
  std::array<int, 2> touches_;  // top, bottom
};

void prepare_spin(mjModel& model) {
  // The target is not part of this task, so it is not drawn either.
  model.site_rgba[4 * object_id(model, mjOBJ_SITE, "target") + 3] = 0;
  model.site_rgba[4 * object_id(model, mjOBJ_SITE, "tip") + 3] = 0;
  model.dof_damping[model.jnt_dofadr[object_id(model, mjOBJ_JOINT, "hinge")]] = .03;
}

constexpr std::array kFingerTasks = {TaskEntry{
    .name = "finger-spin",
    .model = "finger.xml",
    .time_limit_s = 20,
    .control_dt_s = .02,
    .prepare = prepare_spin,
    .make = [](const mjModel& model) -> std::unique_ptr<Task> { return std::make_unique<FingerSpin>(model); }}};

}  // namespace

std::span<const TaskEntry> finger_tasks() { return kFingerTasks; }

}  // namespace troupe::envs
