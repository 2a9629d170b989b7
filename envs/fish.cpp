// dm_control/suite/fish.py: a fish in water that turns upright or swims to a target.
#include <algorithm>
#include <array>
#include <string_view>

#include <troupe/core/check.hpp>
#include <troupe/envs/numpy_math.hpp>
#include <troupe/envs/rewards.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

constexpr std::array<std::string_view, 7> kJoints = {"tail1",          "tail_twist",   "tail2",        "finright_roll",
                                                     "finright_pitch", "finleft_roll", "finleft_pitch"};

class Fish final : public Task {
 public:
  Fish(const mjModel& model, bool swimming)
      : swimming_(swimming),
        torso_(object_id(model, mjOBJ_BODY, "torso")),
        mouth_(object_id(model, mjOBJ_GEOM, "mouth")),
        target_(object_id(model, mjOBJ_GEOM, "target")) {
    TROUPE_CHECK(model.nv == 13 && position_address(model, "root") == 0, "fish.xml has {} velocities", model.nv);
    for (std::size_t i = 0; i < kJoints.size(); ++i) joints_[i] = position_address(model, kJoints[i]);
  }

  Signature observation_spec() const override {
    Signature signature = {{"joint_angles", DType::kF64, {7}}, {"upright", DType::kF64, {}}};
    if (swimming_) signature.push_back({"target", DType::kF64, {3}});
    signature.push_back({"velocity", DType::kF64, {13}});
    return signature;
  }

  std::vector<ModelPart> changes() const override {
    return swimming_ ? std::vector{ModelPart::kGeomPositions} : std::vector<ModelPart>{};
  }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    double* qpos = physics.data().qpos;
    const std::span<double> rotation(qpos + 3, 4);
    for (double& number : rotation) number = random.randn();
    normalize(rotation);
    for (const int joint : joints_) qpos[joint] = random.uniform(-.2, .2);
    if (!swimming_) return {};
    const auto target = physics.part(ModelPart::kGeomPositions, target_);
    target[0] = random.uniform(-.4, .4);
    target[1] = random.uniform(-.4, .4);
    target[2] = random.uniform(.1, .3);
    return {};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    auto out = observation.begin();
    for (const int joint : joints_) *out++ = physics.data().qpos[joint];
    *out++ = physics.rotation(torso_)[8];
    if (swimming_) out = std::ranges::copy(mouth_to_target(physics), out).out;
    std::copy_n(physics.data().qvel, 13, out);
  }

  double reward(const Physics& physics) const override {
    const double upright = physics.rotation(torso_)[8];
    if (!swimming_) return tolerance(upright, {.lower = 1, .upper = 1, .margin = 1});
    const double* sizes = physics.model().geom_size;
    const double radii = sizes[3 * mouth_] + sizes[3 * target_];
    const double in_target = tolerance(norm(mouth_to_target(physics)), {.upper = radii, .margin = 2 * radii});
    return (7 * in_target + 0.5 * (upright + 1)) / 8;
  }

 private:
  /// In the frame of the mouth.
  std::array<double, 3> mouth_to_target(const Physics& physics) const {
    const mjData& data = physics.data();
    return in_frame(difference(data.geom_xpos + 3 * target_, data.geom_xpos + 3 * mouth_), data.geom_xmat + 9 * mouth_);
  }

  bool swimming_;
  int torso_;
  int mouth_;
  int target_;
  std::array<int, kJoints.size()> joints_{};  // in qpos
};

template <bool swimming>
std::unique_ptr<Task> make_fish(const mjModel& model) {
  return std::make_unique<Fish>(model, swimming);
}

void hide_target(mjModel& model) { model.geom_rgba[4 * object_id(model, mjOBJ_GEOM, "target") + 3] = 0; }

constexpr TaskEntry fish_entry(std::string_view name, std::unique_ptr<Task> (*make)(const mjModel&),
                               ModelChanges change = {}) {
  return {.name = name, .model = "fish.xml", .time_limit_s = 40, .control_dt_s = .04, .change = change, .make = make};
}

constexpr std::array kFishTasks = {fish_entry("fish-upright", make_fish<false>, {.compiled = hide_target}),
                                   fish_entry("fish-swim", make_fish<true>)};

}  // namespace

std::span<const TaskEntry> fish_tasks() { return kFishTasks; }

}  // namespace troupe::envs
