// dm_control/suite/hopper.py: a planar one-legged hopper that stands or hops.
#include <algorithm>
#include <array>
#include <cmath>

#include <troupe/core/check.hpp>
#include <troupe/envs/rewards.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

class Hopper final : public Task {
 public:
  Hopper(const mjModel& model, bool hopping)
      : hopping_(hopping),
        torso_(object_id(model, mjOBJ_BODY, "torso")),
        foot_(object_id(model, mjOBJ_BODY, "foot")),
        velocity_(sensor_address(model, "torso_subtreelinvel")),
        touches_{sensor_address(model, "touch_toe"), sensor_address(model, "touch_heel")} {
    TROUPE_CHECK(model.nq == 7 && model.nv == 7 && model.nu == 4, "hopper.xml has {} positions", model.nq);
  }

  Signature observation_spec() const override {
    return {{"position", DType::kF64, {6}}, {"velocity", DType::kF64, {7}}, {"touch", DType::kF64, {2}}};
  }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    randomize_joints(physics, random);
    return {};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    const mjData& data = physics.data();
    // Without the horizontal position, so that the task is the same everywhere along the track.
    auto out = std::copy_n(data.qvel, 7, std::copy_n(data.qpos + 1, 6, observation.begin()));
    for (const int touch : touches_) *out++ = std::log1p(data.sensordata[touch]);
  }

  double reward(const Physics& physics) const override {
    const mjData& data = physics.data();
    const double height = data.xipos[3 * torso_ + 2] - data.xipos[3 * foot_ + 2];
    const double standing = tolerance(height, {.lower = .6, .upper = 2});
    if (!hopping_) return standing * ((small_controls({data.ctrl, 4}) + 4) / 5);
    return standing *
           tolerance(data.sensordata[velocity_],
                     {.lower = 2, .upper = kInfinity, .margin = 1, .sigmoid = Sigmoid::kLinear, .value_at_margin = .5});
  }

 private:
  bool hopping_;
  int torso_;
  int foot_;
  int velocity_;                // of the torso's centre of mass, x, in sensordata
  std::array<int, 2> touches_;  // toe, heel, in sensordata
};

template <bool hopping>
std::unique_ptr<Task> make_hopper(const mjModel& model) {
  return std::make_unique<Hopper>(model, hopping);
}

constexpr TaskEntry hopper_entry(std::string_view name, std::unique_ptr<Task> (*make)(const mjModel&)) {
  return {.name = name, .model = "hopper.xml", .time_limit_s = 20, .control_dt_s = .02, .make = make};
}

constexpr std::array kHopperTasks = {hopper_entry("hopper-stand", make_hopper<false>),
                                     hopper_entry("hopper-hop", make_hopper<true>)};

}  // namespace

std::span<const TaskEntry> hopper_tasks() { return kHopperTasks; }

}  // namespace troupe::envs
