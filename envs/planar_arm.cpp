#include <troupe/envs/planar_arm.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include <troupe/envs/numpy_math.hpp>

namespace troupe::envs {
namespace {

constexpr std::array<std::string_view, 8> kArmJoints = {"arm_root", "arm_shoulder", "arm_elbow", "arm_wrist",
                                                        "finger",   "fingertip",    "thumb",     "thumbtip"};
constexpr std::size_t kFinger = 4;
constexpr std::size_t kThumb = 6;
constexpr std::array<std::string_view, 5> kTouches = {"palm_touch", "finger_touch", "thumb_touch", "fingertip_touch",
                                                      "thumbtip_touch"};

}  // namespace

PlanarArm::PlanarArm(const mjModel& model)
    : hand_(object_id(model, mjOBJ_BODY, "hand")), grasp_(object_id(model, mjOBJ_SITE, "grasp")) {
  for (std::size_t i = 0; i < joints_.size(); ++i) joints_[i] = object_id(model, mjOBJ_JOINT, kArmJoints[i]);
  for (std::size_t i = 0; i < touches_.size(); ++i) touches_[i] = sensor_address(model, kTouches[i]);
}

Signature PlanarArm::observation_spec() {
  return {{"arm_pos", DType::kF64, {8, 2}},
          {"arm_vel", DType::kF64, {8}},
          {"touch", DType::kF64, {5}},
          {"hand_pos", DType::kF64, {4}}};
}

std::span<double>::iterator PlanarArm::observe(const Physics& physics, std::span<double>::iterator out) const {
  const mjModel& model = physics.model();
  const mjData& data = physics.data();
  for (const int joint : joints_) {
    const double angle = data.qpos[model.jnt_qposadr[joint]];
    *out++ = std::sin(angle);
    *out++ = std::cos(angle);
  }
  for (const int joint : joints_) *out++ = data.qvel[model.jnt_dofadr[joint]];
  for (const int touch : touches_) *out++ = std::log1p(data.sensordata[touch]);
  return std::ranges::copy(planar_pose(physics, hand_), out).out;
}

void PlanarArm::randomize(Physics& physics, NumpyRandom& random) const {
  const mjModel& model = physics.model();
  double* qpos = physics.data().qpos;
  for (const int joint : joints_) {
    const bool limited = model.jnt_limited[joint] != 0;
    qpos[model.jnt_qposadr[joint]] = random.uniform(limited ? model.jnt_range[2 * joint] : -std::numbers::pi,
                                                    limited ? model.jnt_range[2 * joint + 1] : std::numbers::pi);
  }
  qpos[model.jnt_qposadr[joints_[kFinger]]] = qpos[model.jnt_qposadr[joints_[kThumb]]];
}

std::array<double, 4> planar_pose(const Physics& physics, int body) {
  const double* position = physics.data().xpos + 3 * body;
  const double* rotation = physics.data().xquat + 4 * body;
  return {position[0], position[2], rotation[0], rotation[2]};
}

void place_body(Physics& physics, int body, double x, double z) {
  const auto position = physics.part(ModelPart::kBodyPositions, body);
  position[0] = x;
  position[2] = z;
}

void turn_body(Physics& physics, int body, double angle) {
  const auto rotation = physics.part(ModelPart::kBodyRotations, body);
  rotation[0] = std::cos(angle / 2);
  rotation[2] = std::sin(angle / 2);
}

double site_distance(const Physics& physics, int a, int b) {
  const double* sites = physics.data().site_xpos;
  return norm(difference(sites + 3 * a, sites + 3 * b));
}

}  // namespace troupe::envs
