// dm_control/suite/manipulator.py: a planar arm that brings a ball or a peg to a target, or into a receptacle.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include <troupe/envs/model_source.hpp>
#include <troupe/envs/planar_arm.hpp>
#include <troupe/envs/rewards.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

constexpr double kClose = .01;  // m

/// The things of a task by their names in the model.
struct Props {
  std::string_view object;
  std::string_view target;
  std::string_view receptacle;  // empty: the target hangs in the air
};
constexpr std::array<std::string_view, 6> kAllProps = {"ball", "target_ball", "cup", "peg", "target_peg", "slot"};

class Bring : public Task {
 public:
  Bring(const mjModel& model, const Props& props)
      : arm_(model),
        object_(object_id(model, mjOBJ_BODY, props.object)),
        target_(object_id(model, mjOBJ_BODY, props.target)),
        receptacle_(props.receptacle.empty() ? -1 : object_id(model, mjOBJ_BODY, props.receptacle)) {
    // The object's joints are x, z and y, one after the other.
    position_ = model.jnt_qposadr[model.body_jntadr[object_]];
    velocity_ = model.jnt_dofadr[model.body_jntadr[object_]];
  }

  Signature observation_spec() const override {
    Signature signature = PlanarArm::observation_spec();
    signature.push_back({"object_pos", DType::kF64, {4}});
    signature.push_back({"object_vel", DType::kF64, {3}});
    signature.push_back({"target_pos", DType::kF64, {4}});
    return signature;
  }

  std::vector<ModelPart> changes() const override { return {ModelPart::kBodyPositions, ModelPart::kBodyRotations}; }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    return randomize_without_contact(physics, [&] { return randomize(physics, random); });
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    auto out = arm_.observe(physics, observation.begin());
    out = std::ranges::copy(planar_pose(physics, object_), out).out;
    out = std::copy_n(physics.data().qvel + velocity_, 3, out);
    std::ranges::copy(planar_pose(physics, target_), out);
  }

 protected:
  const PlanarArm& arm() const { return arm_; }
  static double is_close(double distance) { return tolerance(distance, {.upper = kClose, .margin = 2 * kClose}); }

 private:
  Status randomize(Physics& physics, NumpyRandom& random) const {
    constexpr double kPi = std::numbers::pi;
    arm_.randomize(physics, random);
    const double target_x = random.uniform(-.4, .4);
    const double target_z = random.uniform(.1, .4);
    const double steepest = receptacle_ < 0 ? kPi : kPi / 3;
    const double target_angle = random.uniform(-steepest, steepest);
    for (const int body : {receptacle_, target_}) {
      if (body < 0) continue;
      place_body(physics, body, target_x, target_z);
      turn_body(physics, body, target_angle);
    }

    mjData& data = physics.data();
    double* const object = data.qpos + position_;
    constexpr double kInHand = .1;
    constexpr double kInTarget = .1;
    switch (random.choice(std::array{kInHand, kInTarget, 1 - kInHand - kInTarget})) {
      case 0: {
        TROUPE_TRY(physics.forward_without_actuation());  // which moves the hand
        const double* grasp = data.site_xpos + 3 * arm_.grasp_site();
        const double* direction = data.site_xmat + 9 * arm_.grasp_site();
        set_vector(object, grasp[0], grasp[2], kPi - std::atan2(direction[6], direction[0]));
        break;
      }
      case 1:
        set_vector(object, target_x, target_z, target_angle);
        break;
      default: {
        const double x = random.uniform(-.5, .5);
        const double z = random.uniform(0, .7);
        const double angle = random.uniform(0, 2 * kPi);
        data.qvel[velocity_] = random.uniform(-5, 5);
        set_vector(object, x, z, angle);
      }
    }
    return {};
  }

  PlanarArm arm_;
  int object_;
  int target_;
  int receptacle_;  // -1: none
  int position_;    // of the object, in qpos
  int velocity_;    // of the object, in qvel
};

class BringBall final : public Bring {
 public:
  BringBall(const mjModel& model, const Props& props)
      : Bring(model, props),
        ball_(object_id(model, mjOBJ_SITE, "ball")),
        target_(object_id(model, mjOBJ_SITE, "target_ball")) {}

  double reward(const Physics& physics) const override { return is_close(site_distance(physics, ball_, target_)); }

 private:
  int ball_;
  int target_;
};

class BringPeg final : public Bring {
 public:
  BringPeg(const mjModel& model, const Props& props)
      : Bring(model, props),
        pinch_(object_id(model, mjOBJ_SITE, "pinch")),
        peg_(object_id(model, mjOBJ_SITE, "peg")),
        peg_grasp_(object_id(model, mjOBJ_SITE, "peg_grasp")),
        peg_pinch_(object_id(model, mjOBJ_SITE, "peg_pinch")),
        peg_tip_(object_id(model, mjOBJ_SITE, "peg_tip")),
        target_(object_id(model, mjOBJ_SITE, "target_peg")),
        target_tip_(object_id(model, mjOBJ_SITE, "target_peg_tip")) {}

  double reward(const Physics& physics) const override {
    const auto close = [&](int a, int b) { return is_close(site_distance(physics, a, b)); };
    const double grasping = (close(peg_grasp_, arm().grasp_site()) + close(peg_pinch_, pinch_)) / 2;
    const double bringing = (close(peg_, target_) + close(target_tip_, peg_tip_)) / 2;
    return std::max(bringing, grasping / 3);
  }

 private:
  int pinch_;
  int peg_;
  int peg_grasp_;
  int peg_pinch_;
  int peg_tip_;
  int target_;
  int target_tip_;
};

constexpr Props kBall = {.object = "ball", .target = "target_ball", .receptacle = ""};
constexpr Props kBallIntoCup = {.object = "ball", .target = "target_ball", .receptacle = "cup"};
constexpr Props kPeg = {.object = "peg", .target = "target_peg", .receptacle = ""};
constexpr Props kPegIntoSlot = {.object = "peg", .target = "target_peg", .receptacle = "slot"};

template <const Props& props>
void remove_other_props(mjSpec& source) {
  for (const std::string_view name : kAllProps) {
    if (name == props.object || name == props.target || name == props.receptacle) continue;
    remove_element(source, find_body(source, name).element);
  }
}

template <typename T, const Props& props>
constexpr TaskEntry manipulator_entry(std::string_view name) {
  return {.name = name,
          .model = "manipulator.xml",
          .time_limit_s = 10,
          .control_dt_s = .01,
          .change = {.source = remove_other_props<props>},
          .make = [](const mjModel& model) -> std::unique_ptr<Task> { return std::make_unique<T>(model, props); }};
}

constexpr std::array kManipulatorTasks = {manipulator_entry<BringBall, kBall>("manipulator-bring_ball"),
                                          manipulator_entry<BringPeg, kPeg>("manipulator-bring_peg"),
                                          manipulator_entry<BringBall, kBallIntoCup>("manipulator-insert_ball"),
                                          manipulator_entry<BringPeg, kPegIntoSlot>("manipulator-insert_peg")};

}  // namespace

std::span<const TaskEntry> manipulator_tasks() { return kManipulatorTasks; }

}  // namespace troupe::envs
