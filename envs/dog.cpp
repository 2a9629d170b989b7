// dm_control/suite/dog.py: a dog of 73 joints and 38 muscles that stands, moves or fetches a ball.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numbers>
#include <string_view>
#include <vector>

#include <troupe/core/check.hpp>
#include <troupe/envs/model_source.hpp>
#include <troupe/envs/numpy_math.hpp>
#include <troupe/envs/rewards.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

constexpr double kEpisodeSeconds = 15;

/// Standing, which is part of all tasks.
class Dog : public Task {
 public:
  explicit Dog(const mjModel& model)
      : skull_(object_id(model, mjOBJ_BODY, "skull")),
        torso_(object_id(model, mjOBJ_BODY, "torso")),
        pelvis_(object_id(model, mjOBJ_BODY, "pelvis")),
        velocity_(sensor_address(model, "torso_linvel")),
        weight_(-model.opt.gravity[2] * model.body_subtreemass[torso_]) {
    TROUPE_CHECK(position_address(model, "root") == 0 && model.nu == model.na, "dog.xml has {} muscles", model.na);
    for (int joint = 0; joint < model.njnt; ++joint) {
      if (model.jnt_type[joint] == mjJNT_HINGE) hinges_.push_back(joint);
    }
    const auto add = [&](std::vector<int>& numbers, std::string_view sensor) {
      const int id = object_id(model, mjOBJ_SENSOR, sensor);
      for (int i = 0; i < model.sensor_dim[id]; ++i) numbers.push_back(model.sensor_adr[id] + i);
    };
    for (const char* name : {"accelerometer", "velocimeter", "gyro"}) add(inertial_, name);
    for (const char* name : {"foot_L", "foot_R", "hand_L", "hand_R"}) add(feet_, name);
    for (const char* name : {"palm_L", "palm_R", "sole_L", "sole_R"}) add(touches_, name);
    measure(model);
  }

  Signature observation_spec() const override {
    const auto hinges = static_cast<std::int64_t>(hinges_.size());
    return {{"joint_angles", DType::kF64, {hinges}},
            {"joint_velocites", DType::kF64, {hinges}},  // spelt as dm_control has it
            {"torso_pelvis_height", DType::kF64, {2}},
            {"z_projection", DType::kF64, {9}},
            {"torso_com_velocity", DType::kF64, {3}},
            {"inertial_sensors", DType::kF64, {static_cast<std::int64_t>(inertial_.size())}},
            {"foot_forces", DType::kF64, {static_cast<std::int64_t>(feet_.size())}},
            {"touch_sensors", DType::kF64, {static_cast<std::int64_t>(touches_.size())}},
            {"actuator_state", DType::kF64, {muscles_}}};
  }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    const mjModel& model = physics.model();
    mjData& data = physics.data();
    const double azimuth = random.uniform(0, 2 * std::numbers::pi);
    std::ranges::copy(std::array{std::cos(azimuth / 2), 0.0, 0.0, std::sin(azimuth / 2)}, data.qpos + 3);
    for (const int axis : {0, 1, 5}) data.qvel[axis] = 2 * random.randn();
    for (int muscle = 0; muscle < model.nu; ++muscle) {
      data.act[muscle] = random.uniform(model.actuator_ctrlrange[2 * muscle], model.actuator_ctrlrange[2 * muscle + 1]);
    }
    return {};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    observe_itself(physics, observation.begin());
  }

  double reward(const Physics& physics) const override { return standing_reward(physics); }

 protected:
  std::span<double>::iterator observe_itself(const Physics& physics, std::span<double>::iterator out) const {
    const mjModel& model = physics.model();
    const mjData& data = physics.data();
    for (const int hinge : hinges_) *out++ = data.qpos[model.jnt_qposadr[hinge]];
    for (const int hinge : hinges_) *out++ = data.qvel[model.jnt_dofadr[hinge]];
    for (const int body : {torso_, pelvis_}) *out++ = data.xpos[3 * body + 2];
    for (const int body : {skull_, torso_, pelvis_}) out = std::copy_n(physics.rotation(body) + 6, 3, out);
    out = std::ranges::copy(velocity_in_torso(physics), out).out;
    for (const auto* numbers : {&inertial_, &feet_, &touches_}) {
      for (const int number : *numbers) *out++ = data.sensordata[number];
    }
    return std::copy_n(data.act, muscles_, out);
  }

  double standing_reward(const Physics& physics) const {
    const double kUpright = std::cos(30 * (std::numbers::pi / 180));
    const mjData& data = physics.data();
    double reward = 1;
    for (const auto& [body, height] : {std::pair{torso_, torso_height_}, {pelvis_, pelvis_height_}}) {
      reward *= tolerance(data.xpos[3 * body + 2], {.lower = height, .upper = kInfinity, .margin = height});
    }
    for (const int body : {skull_, torso_, pelvis_}) {
      reward *= tolerance(physics.rotation(body)[8], {.lower = kUpright,
                                                      .upper = kInfinity,
                                                      .margin = kUpright + 1,
                                                      .sigmoid = Sigmoid::kLinear,
                                                      .value_at_margin = 0});
    }
    double touch = 0;
    for (const int number : touches_) touch += data.sensordata[number];
    return reward * tolerance(touch, {.lower = weight_,
                                      .upper = kInfinity,
                                      .margin = weight_,
                                      .sigmoid = Sigmoid::kLinear,
                                      .value_at_margin = .9});
  }

  /// Of the centre of mass.
  std::array<double, 3> velocity_in_torso(const Physics& physics) const {
    return in_frame(std::span<const double, 3>(physics.data().sensordata + velocity_, 3), physics.rotation(torso_));
  }

 private:
  /// The heights from which on it stands: nine tenths of those of the model's own pose.
  void measure(const mjModel& model) {
    const std::unique_ptr<mjData, void (*)(mjData*)> data(mj_makeData(&model), mj_deleteData);
    TROUPE_CHECK(data != nullptr, "MuJoCo makes no data of dog.xml");
    mj_kinematics(&model, data.get());
    torso_height_ = data->xpos[3 * torso_ + 2] * .9;
    pelvis_height_ = data->xpos[3 * pelvis_ + 2] * .9;
    muscles_ = static_cast<int>(model.na);
  }

  int skull_;
  int torso_;
  int pelvis_;
  int velocity_;  // in sensordata
  double weight_;
  double torso_height_ = 0;
  double pelvis_height_ = 0;
  int muscles_ = 0;
  std::vector<int> hinges_;                     // joints
  std::vector<int> inertial_, feet_, touches_;  // in sensordata
};

class DogMove final : public Dog {
 public:
  /// speed: m/s that give full reward, up to twice as much.
  DogMove(const mjModel& model, double speed) : Dog(model), speed_(speed) {}

  double reward(const Physics& physics) const override {
    const double forward = tolerance(velocity_in_torso(physics)[0], {.lower = speed_,
                                                                     .upper = 2 * speed_,
                                                                     .margin = std::max(1.0, speed_),
                                                                     .sigmoid = Sigmoid::kLinear,
                                                                     .value_at_margin = 0});
    return standing_reward(physics) * ((4 * forward + 1) / 5);
  }

 private:
  double speed_;
};

class DogFetch final : public Dog {
 public:
  explicit DogFetch(const mjModel& model)
      : Dog(model),
        head_(object_id(model, mjOBJ_SITE, "head")),
        bites_{object_id(model, mjOBJ_SITE, "upper_bite"), object_id(model, mjOBJ_SITE, "lower_bite")},
        ball_(object_id(model, mjOBJ_GEOM, "ball")),
        target_(object_id(model, mjOBJ_GEOM, "target")),
        floor_(object_id(model, mjOBJ_GEOM, "floor")),
        ball_position_(position_address(model, "ball_root")),
        ball_velocity_(velocity_address(model, "ball_root")) {}

  Signature observation_spec() const override {
    Signature signature = Dog::observation_spec();
    signature.push_back({"ball_state", DType::kF64, {6}});
    signature.push_back({"target_position", DType::kF64, {3}});
    return signature;
  }

  /// The ball is thrown roughly at the middle of the floor.
  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    TROUPE_TRY(Dog::initialise_episode(physics, random));
    const mjModel& model = physics.model();
    const double radius = .75 * model.geom_size[3 * floor_];
    const double azimuth = random.uniform(0, 2 * std::numbers::pi);
    set_vector(physics.data().qpos + ball_position_, radius * std::sin(azimuth), radius * std::cos(azimuth), .05);
    const double height = random.uniform(0, 3);
    const double upwards = std::sqrt(2 * -model.opt.gravity[2] * height);  // as fast as it takes to come so high
    const double speed = random.uniform(0, 5);
    const double x = -std::sin(azimuth) + .05 * random.randn();
    const double y = -std::cos(azimuth) + .05 * random.randn();
    set_vector(physics.data().qvel + ball_velocity_, speed * x, speed * y, upwards);
    return {};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    const mjData& data = physics.data();
    const double* head = data.site_xpos + 3 * head_;
    const auto head_velocity = velocity_of(physics, mjOBJ_SITE, head_);
    const auto ball_velocity = velocity_of(physics, mjOBJ_GEOM, ball_);
    auto out = observe_itself(physics, observation.begin());
    for (const auto& vector :
         {difference(data.geom_xpos + 3 * ball_, head), difference(ball_velocity.data(), head_velocity.data()),
          difference(data.geom_xpos + 3 * target_, head)}) {
      out = std::ranges::copy(in_frame(vector, data.site_xmat + 9 * head_), out).out;
    }
  }

  double reward(const Physics& physics) const override {
    const mjModel& model = physics.model();
    const mjData& data = physics.data();
    const double* ball = data.geom_xpos + 3 * ball_;
    double to_bites = 0;
    for (const int bite : bites_) to_bites += norm(difference(ball, data.site_xpos + 3 * bite));
    const auto near = [](double distance, double radius, double margin) {
      return tolerance(distance, {.upper = radius, .margin = margin, .sigmoid = Sigmoid::kReciprocal});
    };
    const double target_radius = model.geom_size[3 * target_];
    const double to_target = norm(difference(ball, data.geom_xpos + 3 * target_));
    // A ball that has been fetched may be let go.
    const bool fetched = to_target < 2 * target_radius;
    const double reach = fetched ? 1 : (6 * near(.5 * to_bites, model.site_size[3 * bites_[0]], 2) + 1) / 7;
    const double fetch = (near(to_target, target_radius, model.geom_size[3 * floor_]) + 1) / 2;
    return standing_reward(physics) * reach * fetch;
  }

 private:
  /// The linear one, in the world.
  static std::array<double, 3> velocity_of(const Physics& physics, mjtObj type, int object) {
    std::array<double, 6> velocity{};  // rotation, then translation
    mj_objectVelocity(&physics.model(), &physics.data(), type, object, velocity.data(), 0);
    return {velocity[3], velocity[4], velocity[5]};
  }

  int head_;
  std::array<int, 2> bites_;  // sites, the upper one first
  int ball_;                  // geoms
  int target_;
  int floor_;
  int ball_position_;  // in qpos
  int ball_velocity_;  // in qvel
};

/// Leaves the dog alone on a floor that is as large as it comes in an episode, at `speed` m/s.
template <int speed>
void remove_ball(mjSpec& source) {
  double* size = find_geom(source, "floor").size;
  size[0] = size[1] = speed * kEpisodeSeconds;
  for (const char* camera : {"ball", "head"}) remove_element(source, find_element(source, mjOBJ_CAMERA, camera));
  for (const char* geom : {"target", "wall_px", "wall_nx", "wall_py", "wall_ny"}) {
    remove_element(source, find_element(source, mjOBJ_GEOM, geom));
  }
  remove_element(source, find_element(source, mjOBJ_BODY, "ball"));
}

template <typename T, int... arguments>
std::unique_ptr<Task> make_dog(const mjModel& model) {
  return std::make_unique<T>(model, arguments...);
}

constexpr TaskEntry dog_entry(std::string_view name, std::unique_ptr<Task> (*make)(const mjModel&),
                              void (*change)(mjSpec&)) {
  return {.name = name,
          .model = "dog.xml",
          .time_limit_s = kEpisodeSeconds,
          .control_dt_s = .015,
          .change = {.source = change},
          .make = make};
}

constexpr std::array kDogTasks = {
    dog_entry("dog-stand", make_dog<Dog>, remove_ball<1>), dog_entry("dog-walk", make_dog<DogMove, 1>, remove_ball<1>),
    dog_entry("dog-trot", make_dog<DogMove, 3>, remove_ball<3>),
    dog_entry("dog-run", make_dog<DogMove, 9>, remove_ball<9>), dog_entry("dog-fetch", make_dog<DogFetch>, nullptr)};

}  // namespace

std::span<const TaskEntry> dog_tasks() { return kDogTasks; }

}  // namespace troupe::envs
