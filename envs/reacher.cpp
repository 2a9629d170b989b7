// dm_control/suite/reacher.py: a two-link arm whose finger is to touch a target; the target moves between episodes.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <troupe/envs/rewards.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

class Reacher final : public Task {
 public:
  explicit Reacher(const mjModel& model)
      : target_(object_id(model, mjOBJ_GEOM, "target")), finger_(object_id(model, mjOBJ_GEOM, "finger")) {}

  Signature observation_spec() const override {
    return {{"position", DType::kF64, {2}}, {"to_target", DType::kF64, {2}}, {"velocity", DType::kF64, {2}}};
  }

  std::vector<ModelPart> changes() const override { return {ModelPart::kGeomPositions}; }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    randomize_joints(physics, random);
    const double angle = random.uniform(0, 2 * std::numbers::pi);
    const double radius = random.uniform(.05, .20);
    const auto position = physics.part(ModelPart::kGeomPositions, target_);
    position[0] = radius * std::sin(angle);
    position[1] = radius * std::cos(angle);
    return {};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    std::copy_n(physics.data().qpos, 2, observation.begin());
    const auto to_target = finger_to_target(physics);
    std::copy_n(to_target.begin(), 2, observation.begin() + 2);
    std::copy_n(physics.data().qvel, 2, observation.begin() + 4);
  }

  double reward(const Physics& physics) const override {
    const auto [x, y] = finger_to_target(physics);
    const double radii = physics.model().geom_size[3 * target_] + physics.model().geom_size[3 * finger_];
    return tolerance(std::sqrt(x * x + y * y), {.lower = 0, .upper = radii});
  }

 private:
  std::array<double, 2> finger_to_target(const Physics& physics) const {
    const double* target = physics.data().geom_xpos + 3 * target_;
    const double* finger = physics.data().geom_xpos + 3 * finger_;
    return {target[0] - finger[0], target[1] - finger[1]};
  }

  int target_;
  int finger_;
};

void set_target_radius(mjModel& model, double radius) {
  model.geom_size[3 * object_id(model, mjOBJ_GEOM, "target")] = radius;
}

constexpr TaskEntry reacher_entry(std::string_view name, void (*change)(mjModel&)) {
  return {.name = name,
          .model = "reacher.xml",
          .time_limit_s = 20,
          .control_dt_s = .02,
          .change = {.compiled = change},
          .make = [](const mjModel& model) -> std::unique_ptr<Task> { return std::make_unique<Reacher>(model); }};
}

constexpr std::array kReacherTasks = {
    reacher_entry("reacher-easy", [](mjModel& model) { set_target_radius(model, .05); }),
    reacher_entry("reacher-hard", [](mjModel& model) { set_target_radius(model, .015); })};

}  // namespace

std::span<const TaskEntry> reacher_tasks() { return kReacherTasks; }

}  // namespace troupe::envs
