// dm_control/suite/ball_in_cup.py: a cup that moves in a plane and is to catch the ball that hangs from it on a string.
#include <algorithm>
#include <array>
#include <cmath>

#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

class BallInCup final : public Task {
 public:
  explicit BallInCup(const mjModel& model)
      : ball_(object_id(model, mjOBJ_BODY, "ball")),
        ball_geom_(object_id(model, mjOBJ_GEOM, "ball")),
        target_(object_id(model, mjOBJ_SITE, "target")),
        ball_x_(position_address(model, "ball_x")),
        ball_z_(position_address(model, "ball_z")) {}

  Signature observation_spec() const override {
    return {{"position", DType::kF64, {4}}, {"velocity", DType::kF64, {4}}};
  }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    return randomize_without_contact(physics, [&]() -> Status {
      physics.data().qpos[ball_x_] = random.uniform(-.2, .2);
      physics.data().qpos[ball_z_] = random.uniform(.2, .5);
      return {};
    });
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    std::copy_n(physics.data().qvel, 4, std::copy_n(physics.data().qpos, 4, observation.begin()));
  }

  double reward(const Physics& physics) const override {
    const double ball_size = physics.model().geom_size[3 * ball_geom_];
    const auto inside = [&](int axis) {
      const double distance = physics.data().site_xpos[3 * target_ + axis] - physics.data().xpos[3 * ball_ + axis];
      return std::abs(distance) < physics.model().site_size[3 * target_ + axis] - ball_size;
    };
    return inside(0) && inside(2) ? 1 : 0;
  }

 private:
  int ball_;
  int ball_geom_;
  int target_;
  // Where the ball's joints have their positions in qpos.
  int ball_x_;
  int ball_z_;
};

constexpr std::array kBallInCupTasks = {TaskEntry{
    .name = "ball_in_cup-catch",
    .model = "ball_in_cup.xml",
    .time_limit_s = 20,
    .control_dt_s = .02,
    .make = [](const mjModel& model) -> std::unique_ptr<Task> { return std::make_unique<BallInCup>(model); }}};

}  // namespace

std::span<const TaskEntry> ball_in_cup_tasks() { return kBallInCupTasks; }

}  // namespace troupe::envs
