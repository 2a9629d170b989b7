#include <troupe/envs/humanoid_task.hpp>

#include <algorithm>

#include <troupe/envs/numpy_math.hpp>
#include <troupe/envs/rewards.hpp>

namespace troupe::envs {
namespace {

constexpr double kHeadHeight = 1.4;  // m, of one who stands
constexpr int kRootPositions = 7;    // of the free joint

}  // namespace

HumanoidTask::HumanoidTask(const mjModel& model, const HumanoidBody& body, Options options)
    : options_(options),
      upright_(body.upright),
      trunk_(object_id(model, mjOBJ_BODY, body.trunk)),
      head_(object_id(model, mjOBJ_BODY, "head")),
      velocity_(sensor_address(model, body.velocity)),
      positions_(static_cast<int>(model.nq)),
      velocities_(static_cast<int>(model.nv)),
      controls_(static_cast<int>(model.nu)) {
  for (std::size_t i = 0; i < 4; ++i) extremities_[i] = object_id(model, mjOBJ_BODY, body.extremities[i]);
}

Signature HumanoidTask::observation_spec() const {
  if (options_.pure_state) return {{"position", DType::kF64, {positions_}}, {"velocity", DType::kF64, {velocities_}}};
  return {{"joint_angles", DType::kF64, {positions_ - kRootPositions}},
          {"head_height", DType::kF64, {}},
          {"extremities", DType::kF64, {12}},
          {"torso_vertical", DType::kF64, {3}},
          {"com_velocity", DType::kF64, {3}},
          {"velocity", DType::kF64, {velocities_}}};
}

Status HumanoidTask::initialise_episode(Physics& physics, NumpyRandom& random) const {
  return randomize_joints_without_contact(physics, random);
}

void HumanoidTask::observe(const Physics& physics, std::span<double> observation) const {
  const mjData& data = physics.data();
  auto out = observation.begin();
  if (options_.pure_state) {
    out = std::copy_n(data.qpos, positions_, out);
  } else {
    out = std::copy_n(data.qpos + kRootPositions, positions_ - kRootPositions, out);
    *out++ = data.xpos[3 * head_ + 2];
    for (const int limb : extremities_) {
      const auto position =
          in_frame(difference(data.xpos + 3 * limb, data.xpos + 3 * trunk_), physics.rotation(trunk_));
      out = std::copy_n(position.begin(), 3, out);
    }
    out = std::copy_n(physics.rotation(trunk_) + 6, 3, out);  // 'zx', 'zy', 'zz'
    out = std::copy_n(data.sensordata + velocity_, 3, out);
  }
  std::copy_n(data.qvel, velocities_, out);
}

double HumanoidTask::reward(const Physics& physics) const {
  const mjData& data = physics.data();
  const double standing =
      tolerance(data.xpos[3 * head_ + 2], {.lower = kHeadHeight, .upper = kInfinity, .margin = kHeadHeight / 4});
  const double upright =
      tolerance(physics.rotation(trunk_)[upright_],
                {.lower = .9, .upper = kInfinity, .margin = 1.9, .sigmoid = Sigmoid::kLinear, .value_at_margin = 0});
  const double stand_reward = standing * upright;
  const double small_control = (4 + small_controls({data.ctrl, static_cast<std::size_t>(controls_)})) / 5;
  const std::span<const double> horizontal(data.sensordata + velocity_, 2);
  if (options_.move_speed == 0) {
    const double still = (tolerance(horizontal[0], {.margin = 2}) + tolerance(horizontal[1], {.margin = 2})) / 2;
    return small_control * stand_reward * still;
  }
  const double move = tolerance(norm(horizontal), {.lower = options_.move_speed,
                                                   .upper = kInfinity,
                                                   .margin = options_.move_speed,
                                                   .sigmoid = Sigmoid::kLinear,
                                                   .value_at_margin = 0});
  return small_control * stand_reward * ((5 * move + 1) / 6);
}

}  // namespace troupe::envs
