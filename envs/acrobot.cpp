// dm_control/suite/acrobot.py: a pendulum of two links, driven at its elbow, to be swung up and balanced.
#include <algorithm>
#include <array>
#include <numbers>

#include <troupe/envs/numpy_math.hpp>
#include <troupe/envs/rewards.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

class Acrobot final : public Task {
 public:
  /// margin: metres from the target at which the reward has fallen to 0.1; 0 rewards the target alone.
  Acrobot(const mjModel& model, double margin)
      : margin_(margin),
        arms_{object_id(model, mjOBJ_BODY, "upper_arm"), object_id(model, mjOBJ_BODY, "lower_arm")},
        tip_(object_id(model, mjOBJ_SITE, "tip")),
        target_(object_id(model, mjOBJ_SITE, "target")) {}

  Signature observation_spec() const override {
    return {{"orientations", DType::kF64, {4}}, {"velocity", DType::kF64, {2}}};
  }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    for (int joint = 0; joint < 2; ++joint) {
      physics.data().qpos[joint] = random.uniform(-std::numbers::pi, std::numbers::pi);
    }
    return {};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    auto out = observation.begin();
    for (const int entry : {2, 8}) {  // 'xz', then 'zz'
      for (const int arm : arms_) *out++ = physics.rotation(arm)[entry];
    }
    std::copy_n(physics.data().qvel, 2, out);
  }

  double reward(const Physics& physics) const override {
    const double* sites = physics.data().site_xpos;
    const double distance = norm(difference(sites + 3 * target_, sites + 3 * tip_));
    return tolerance(distance, {.upper = physics.model().site_size[3 * target_], .margin = margin_});
  }

 private:
  double margin_;
  std::array<int, 2> arms_;
  int tip_;
  int target_;
};

template <int margin>
std::unique_ptr<Task> make_acrobot(const mjModel& model) {
  return std::make_unique<Acrobot>(model, margin);
}

constexpr TaskEntry acrobot_entry(std::string_view name, std::unique_ptr<Task> (*make)(const mjModel&)) {
  return {.name = name, .model = "acrobot.xml", .time_limit_s = 10, .control_dt_s = .01, .make = make};
}

constexpr std::array kAcrobotTasks = {acrobot_entry("acrobot-swingup", make_acrobot<1>),
                                      acrobot_entry("acrobot-swingup_sparse", make_acrobot<0>)};

}  // namespace

std::span<const TaskEntry> acrobot_tasks() { return kAcrobotTasks; }

}  // namespace troupe::envs
