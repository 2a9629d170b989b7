// dm_control/suite/cheetah.py: a planar two-legged runner.
#include <algorithm>
#include <array>

#include <troupe/core/check.hpp>
#include <troupe/envs/rewards.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

constexpr double kRunSpeed = 10;     // m/s, at which the reward is 1
constexpr int kSettlingSteps = 200;  // of the model, before an episode starts

class Cheetah final : public Task {
 public:
  explicit Cheetah(const mjModel& model) : velocity_(sensor_address(model, "torso_subtreelinvel")) {
    TROUPE_CHECK(model.nq == model.njnt && model.nq == 9 && model.nv == 9, "cheetah.xml has {} positions", model.nq);
  }

  Signature observation_spec() const override {
    return {{"position", DType::kF64, {8}}, {"velocity", DType::kF64, {9}}};
  }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    const mjModel& model = physics.model();
    for (int joint = 0; joint < model.njnt; ++joint) {
      if (!model.jnt_limited[joint]) continue;
      physics.data().qpos[joint] = random.uniform(model.jnt_range[2 * joint], model.jnt_range[2 * joint + 1]);
    }
    TROUPE_TRY(physics.step(kSettlingSteps));
    physics.data().time = 0;
    return {};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    // Without the horizontal position, so that the task is the same everywhere along the track.
    const mjData& data = physics.data();
    std::copy_n(data.qvel, 9, std::copy_n(data.qpos + 1, 8, observation.begin()));
  }

  double reward(const Physics& physics) const override {
    return tolerance(physics.data().sensordata[velocity_], {.lower = kRunSpeed,
                                                            .upper = kInfinity,
                                                            .margin = kRunSpeed,
                                                            .sigmoid = Sigmoid::kLinear,
                                                            .value_at_margin = 0});
  }

 private:
  int velocity_;  // of the torso's centre of mass, x, in sensordata
};

constexpr std::array kCheetahTasks = {
    TaskEntry{.name = "cheetah-run",
              .model = "cheetah.xml",
              .time_limit_s = 10,
              .control_dt_s = .01,
              .make = [](const mjModel& model) -> std::unique_ptr<Task> { return std::make_unique<Cheetah>(model); }}};

}  // namespace

std::span<const TaskEntry> cheetah_tasks() { return kCheetahTasks; }

}  // namespace troupe::envs
