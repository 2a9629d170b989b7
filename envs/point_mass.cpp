// dm_control/suite/point_mass.py: a point that is pushed through a plane to its middle. In the hard task each control
// pushes in a direction of its own, which changes between episodes.
#include <algorithm>
#include <array>
#include <cmath>

#include <troupe/envs/numpy_math.hpp>
#include <troupe/envs/rewards.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

class PointMass final : public Task {
 public:
  PointMass(const mjModel& model, bool random_directions)
      : random_directions_(random_directions),
        mass_(object_id(model, mjOBJ_GEOM, "pointmass")),
        target_(object_id(model, mjOBJ_GEOM, "target")) {}

  Signature observation_spec() const override {
    return {{"position", DType::kF64, {2}}, {"velocity", DType::kF64, {2}}};
  }

  std::vector<ModelPart> changes() const override {
    return random_directions_ ? std::vector{ModelPart::kTendonCoefficients} : std::vector<ModelPart>{};
  }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    randomize_joints(physics, random);
    if (!random_directions_) return {};
    const auto draw = [&] {
      std::array<double, 2> direction{};
      for (double& number : direction) number = random.randn();
      normalize(direction);
      return direction;
    };
    const std::array<double, 2> first = draw();
    std::array<double, 2> second = draw();
    while (std::abs(dot(first, second)) > 0.9) second = draw();  // too parallel
    int at = 0;
    for (const double number : {first[0], first[1], second[0], second[1]}) {
      physics.part(ModelPart::kTendonCoefficients, at++)[0] = number;
    }
    return {};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    std::copy_n(physics.data().qvel, 2, std::copy_n(physics.data().qpos, 2, observation.begin()));
  }

  double reward(const Physics& physics) const override {
    const mjData& data = physics.data();
    const double size = physics.model().geom_size[3 * target_];
    const double distance = norm(difference(data.geom_xpos + 3 * target_, data.geom_xpos + 3 * mass_));
    const double near = tolerance(distance, {.upper = size, .margin = size});
    return near * ((small_controls({data.ctrl, 2}) + 4) / 5);
  }

 private:
  bool random_directions_;
  int mass_;
  int target_;
};

template <bool random_directions>
std::unique_ptr<Task> make_point_mass(const mjModel& model) {
  return std::make_unique<PointMass>(model, random_directions);
}

constexpr TaskEntry point_mass_entry(std::string_view name, std::unique_ptr<Task> (*make)(const mjModel&)) {
  return {.name = name, .model = "point_mass.xml", .time_limit_s = 20, .control_dt_s = .02, .make = make};
}

constexpr std::array kPointMassTasks = {point_mass_entry("point_mass-easy", make_point_mass<false>),
                                        point_mass_entry("point_mass-hard", make_point_mass<true>)};

}  // namespace

std::span<const TaskEntry> point_mass_tasks() { return kPointMassTasks; }

}  // namespace troupe::envs
