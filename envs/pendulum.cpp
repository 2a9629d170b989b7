// dm_control/suite/pendulum.py: swing a pendulum up with too little torque to lift it at once.
#include <array>
#include <cmath>
#include <numbers>

#include <troupe/envs/rewards.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

class Pendulum final : public Task {
 public:
  explicit Pendulum(const mjModel& model) : pole_(object_id(model, mjOBJ_BODY, "pole")) {}

  Signature observation_spec() const override {
    return {{"orientation", DType::kF64, {2}}, {"velocity", DType::kF64, {1}}};
  }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    physics.data().qpos[0] = random.uniform(-std::numbers::pi, std::numbers::pi);
    return {};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    observation[0] = physics.rotation(pole_)[8];
    observation[1] = physics.rotation(pole_)[2];
    observation[2] = physics.data().qvel[0];
  }

  double reward(const Physics& physics) const override {
    static const double kCosineBound = std::cos(8 * (std::numbers::pi / 180));  // within 8 degrees of upright
    return tolerance(physics.rotation(pole_)[8], {.lower = kCosineBound, .upper = 1});
  }

 private:
  int pole_;
};

constexpr std::array kPendulumTasks = {
    TaskEntry{.name = "pendulum-swingup",
              .model = "pendulum.xml",
              .time_limit_s = 20,
              .control_dt_s = .02,
              .make = [](const mjModel& model) -> std::unique_ptr<Task> { return std::make_unique<Pendulum>(model); }}};

}  // namespace

std::span<const TaskEntry> pendulum_tasks() { return kPendulumTasks; }

}  // namespace troupe::envs
