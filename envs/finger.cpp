// dm_control/suite/finger.py: a two-joint finger that spins a free body, or turns it to a target.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <troupe/envs/numpy_math.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

constexpr double kSpinVelocity = 15;  // rad/s

/// What both tasks see, and how their episodes start.
class Finger : public Task {
 public:
  explicit Finger(const mjModel& model)
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
    return randomize_joints_without_contact(physics, random);
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    const double* sensors = physics.data().sensordata;
    auto out = observation.begin();
    *out++ = sensors[proximal_];
    *out++ = sensors[distal_];
    out = std::ranges::copy(from_spinner(physics, tip_), out).out;
    for (const int velocity : velocities_) *out++ = sensors[velocity];
    for (const int touch : touches_) *out++ = std::log1p(sensors[touch]);
  }

 protected:
  double hinge_velocity(const Physics& physics) const { return physics.data().sensordata[velocities_[2]]; }
  std::array<double, 2> tip_position(const Physics& physics) const { return from_spinner(physics, tip_); }
  /// The x and z of a position sensor, seen from the hinge of the body.
  std::array<double, 2> from_spinner(const Physics& physics, int sensor) const {
    const double* sensors = physics.data().sensordata;
    return {sensors[sensor] - sensors[spinner_], sensors[sensor + 2] - sensors[spinner_ + 2]};
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

class FingerSpin final : public Finger {
 public:
  using Finger::Finger;
  double reward(const Physics& physics) const override { return hinge_velocity(physics) <= -kSpinVelocity ? 1 : 0; }
};

class FingerTurn final : public Finger {
 public:
  explicit FingerTurn(const mjModel& model)
      : Finger(model),
        hinge_(object_id(model, mjOBJ_JOINT, "hinge")),
        cap_(object_id(model, mjOBJ_GEOM, "cap1")),
        target_(object_id(model, mjOBJ_SITE, "target")),
        target_sensor_(sensor_address(model, "target")) {}

  Signature observation_spec() const override {
    Signature signature = Finger::observation_spec();
    signature.push_back({"target_position", DType::kF64, {2}});
    signature.push_back({"dist_to_target", DType::kF64, {}});
    return signature;
  }

  std::vector<ModelPart> changes() const override { return {ModelPart::kSitePositions}; }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    const double angle = random.uniform(-std::numbers::pi, std::numbers::pi);
    const double* hinge = physics.data().xanchor + 3 * hinge_;
    const double* sizes = physics.model().geom_size + 3 * cap_;
    const double radius = sizes[0] + sizes[1] + sizes[2];
    const auto target = physics.part(ModelPart::kSitePositions, target_);
    target[0] = hinge[0] + radius * std::sin(angle);
    target[2] = hinge[2] + radius * std::cos(angle);
    return Finger::initialise_episode(physics, random);
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    Finger::observe(physics, observation);
    const auto out = std::ranges::copy(from_spinner(physics, target_sensor_), observation.end() - 3).out;
    *out = distance(physics);
  }

  double reward(const Physics& physics) const override { return distance(physics) <= 0 ? 1 : 0; }

 private:
  /// From the tip to the surface of the target; negative inside of it.
  double distance(const Physics& physics) const {
    const auto target = from_spinner(physics, target_sensor_);
    const auto tip = tip_position(physics);
    return norm(std::array{target[0] - tip[0], target[1] - tip[1]}) - physics.model().site_size[3 * target_];
  }

  int hinge_;
  int cap_;
  int target_;
  int target_sensor_;
};

void prepare_spin(mjModel& model) {
  // The target is not part of this task, so it is not drawn either.
  model.site_rgba[4 * object_id(model, mjOBJ_SITE, "target") + 3] = 0;
  model.site_rgba[4 * object_id(model, mjOBJ_SITE, "tip") + 3] = 0;
  model.dof_damping[velocity_address(model, "hinge")] = .03;
}

/// percent: radius of the target, in hundredths of a metre.
template <int percent>
void prepare_turn(mjModel& model) {
  model.site_size[3 * object_id(model, mjOBJ_SITE, "target")] = percent / 100.0;
}

template <typename T>
std::unique_ptr<Task> make_finger(const mjModel& model) {
  return std::make_unique<T>(model);
}

constexpr TaskEntry finger_entry(std::string_view name, std::unique_ptr<Task> (*make)(const mjModel&),
                                 void (*change)(mjModel&)) {
  return {.name = name,
          .model = "finger.xml",
          .time_limit_s = 20,
          .control_dt_s = .02,
          .change = {.compiled = change},
          .make = make};
}

constexpr std::array kFingerTasks = {finger_entry("finger-spin", make_finger<FingerSpin>, prepare_spin),
                                     finger_entry("finger-turn_easy", make_finger<FingerTurn>, prepare_turn<7>),
                                     finger_entry("finger-turn_hard", make_finger<FingerTurn>, prepare_turn<3>)};

}  // namespace

std::span<const TaskEntry> finger_tasks() { return kFingerTasks; }

}  // namespace troupe::envs
