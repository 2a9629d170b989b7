// dm_control/suite/quadruped.py: a four-legged body that walks, runs, climbs out of a bowl or fetches a ball.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include <troupe/core/check.hpp>
#include <troupe/envs/model_source.hpp>
#include <troupe/envs/numpy_math.hpp>
#include <troupe/envs/rewards.hpp>
#include <troupe/envs/spline_zoom.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

constexpr std::array<std::string_view, 4> kWalls = {"wall_px", "wall_py", "wall_nx", "wall_ny"};

/// What all tasks see, and how their body is put upon the ground.
class Quadruped : public Task {
 public:
  explicit Quadruped(const mjModel& model)
      : torso_(object_id(model, mjOBJ_BODY, "torso")),
        velocimeter_(sensor_address(model, "velocimeter")),
        activations_(static_cast<int>(model.na)) {
    TROUPE_CHECK(position_address(model, "root") == 0, "the root of quadruped.xml is not its first joint");
    for (int joint = 0; joint < model.njnt; ++joint) {
      if (model.jnt_type[joint] == mjJNT_HINGE) hinges_.push_back(joint);
    }
    for (int sensor = 0; sensor < model.nsensor; ++sensor) {
      const int type = model.sensor_type[sensor];
      const bool feels_motion = type == mjSENS_ACCELEROMETER || type == mjSENS_GYRO;
      const bool feels_force = type == mjSENS_FORCE || type == mjSENS_TORQUE;
      if (!feels_motion && !feels_force) continue;
      for (int i = 0; i < model.sensor_dim[sensor]; ++i) {
        (feels_motion ? motions_ : forces_).push_back(model.sensor_adr[sensor] + i);
      }
    }
  }

  Signature observation_spec() const override {
    const auto state = static_cast<std::int64_t>(2 * hinges_.size()) + activations_;
    return {{"egocentric_state", DType::kF64, {state}},
            {"torso_velocity", DType::kF64, {3}},
            {"torso_upright", DType::kF64, {}},
            {"imu", DType::kF64, {static_cast<std::int64_t>(motions_.size())}},
            {"force_torque", DType::kF64, {static_cast<std::int64_t>(forces_.size())}}};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    observe_itself(physics, observation.begin());
  }

 protected:
  std::span<double>::iterator observe_itself(const Physics& physics, std::span<double>::iterator out) const {
    const mjModel& model = physics.model();
    const mjData& data = physics.data();
    for (const int hinge : hinges_) *out++ = data.qpos[model.jnt_qposadr[hinge]];
    for (const int hinge : hinges_) *out++ = data.qvel[model.jnt_dofadr[hinge]];
    out = std::copy_n(data.act, activations_, out);
    out = std::copy_n(data.sensordata + velocimeter_, 3, out);
    *out++ = physics.rotation(torso_)[8];
    for (const int motion : motions_) *out++ = data.sensordata[motion];
    for (const int force : forces_) *out++ = std::asinh(data.sensordata[force]);
    return out;
  }

  /// Raises the body from the ground, centimetre by centimetre, until it touches nothing.
  static Status find_height(Physics& physics, std::span<const double, 4> rotation, double x, double y) {
    constexpr int kMaxAttempts = 10000;
    double height = 0;
    for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
      physics.reset();
      double* root = physics.data().qpos;
      set_vector(root, x, y, height);
      std::ranges::copy(rotation, root + 3);
      // Deep in the ground there may be more contacts than MuJoCo has room for; dm_control too goes on higher up then.
      if (!physics.forward_without_actuation().ok() || physics.data().ncon > 0) {
        height += .01;
        continue;
      }
      return {};
    }
    return Error{Code::kInternal, fmt::format("no height without contact in {} attempts", kMaxAttempts)};
  }
  static Status find_height_of_random_rotation(Physics& physics, NumpyRandom& random) {
    std::array<double, 4> rotation{};
    for (double& number : rotation) number = random.randn();
    normalize(rotation);
    return find_height(physics, rotation, 0, 0);
  }

  /// 1 within so many degrees of upright, 0 upside down.
  double upright_reward(const Physics& physics, double degrees) const {
    const double deviation = std::cos(degrees * (std::numbers::pi / 180));
    return tolerance(physics.rotation(torso_)[8], {.lower = deviation,
                                                   .upper = kInfinity,
                                                   .margin = 1 + deviation,
                                                   .sigmoid = Sigmoid::kLinear,
                                                   .value_at_margin = 0});
  }
  double forward_speed(const Physics& physics) const { return physics.data().sensordata[velocimeter_]; }
  const double* torso_position(const Physics& physics) const { return physics.data().xpos + 3 * torso_; }
  std::array<double, 3> in_torso(const Physics& physics, std::span<const double, 3> vector) const {
    return in_frame(vector, physics.rotation(torso_));
  }

 private:
  int torso_;
  int velocimeter_;
  int activations_;
  std::vector<int> hinges_;            // joints
  std::vector<int> motions_, forces_;  // in sensordata
};

class QuadrupedMove final : public Quadruped {
 public:
  /// speed: m/s that give full reward.
  QuadrupedMove(const mjModel& model, double speed) : Quadruped(model), speed_(speed) {}

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    return find_height_of_random_rotation(physics, random);
  }

  double reward(const Physics& physics) const override {
    return upright_reward(physics, 0) * tolerance(forward_speed(physics), {.lower = speed_,
                                                                           .upper = kInfinity,
                                                                           .margin = speed_,
                                                                           .sigmoid = Sigmoid::kLinear,
                                                                           .value_at_margin = .5});
  }

 private:
  double speed_;
};

class QuadrupedEscape final : public Quadruped {
 public:
  explicit QuadrupedEscape(const mjModel& model)
      : Quadruped(model), workspace_(object_id(model, mjOBJ_SITE, "workspace")) {
    TROUPE_CHECK(model.nhfield == 1 && model.hfield_nrow[0] == model.hfield_ncol[0], "quadruped.xml's terrain");
    for (int sensor = 0; sensor < model.nsensor; ++sensor) {
      if (model.sensor_type[sensor] == mjSENS_RANGEFINDER) rangefinders_.push_back(model.sensor_adr[sensor]);
    }
  }

  Signature observation_spec() const override {
    Signature signature = Quadruped::observation_spec();
    signature.push_back({"origin", DType::kF64, {3}});
    signature.push_back({"rangefinder", DType::kF64, {static_cast<std::int64_t>(rangefinders_.size())}});
    return signature;
  }

  std::vector<ModelPart> changes() const override { return {ModelPart::kHeights}; }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    make_terrain(physics, random);
    return find_height_of_random_rotation(physics, random);
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    auto out = observe_itself(physics, observation.begin());
    const double* torso = torso_position(physics);
    out = std::ranges::copy(in_torso(physics, std::array{-torso[0], -torso[1], -torso[2]}), out).out;
    for (const int finder : rangefinders_) {
      const double distance = physics.data().sensordata[finder];
      *out++ = distance == -1 ? 1 : std::tanh(distance);  // -1: it finds nothing
    }
  }

  double reward(const Physics& physics) const override {
    const double size = physics.model().hfield_size[0];
    const double distance = norm({physics.data().site_xpos + 3 * workspace_, 3});
    return upright_reward(physics, 20) *
           tolerance(
               distance,
               {.lower = size, .upper = kInfinity, .margin = size, .sigmoid = Sigmoid::kLinear, .value_at_margin = 0});
  }

 private:
  /// A bowl with random bumps, 2 m wide.
  static void make_terrain(Physics& physics, NumpyRandom& random) {
    const auto points = static_cast<std::size_t>(physics.model().hfield_nrow[0]);
    const auto bumps_a_side = static_cast<std::size_t>(2 * physics.model().hfield_size[0] / 2);
    std::vector<double> bumps(bumps_a_side * bumps_a_side);
    for (double& bump : bumps) bump = random.uniform(.15, 1);
    bumps = spline_zoom(bumps, points);
    const double step = 2 / static_cast<double>(points - 1);
    const std::span<float> heights = physics.heights();
    for (std::size_t row = 0; row < points; ++row) {
      for (std::size_t column = 0; column < points; ++column) {
        const double x = static_cast<double>(column) * step - 1;
        const double y = static_cast<double>(row) * step - 1;
        const double radius = std::clamp(std::sqrt(x * x + y * y), .04, 1.0);
        const double bowl = .5 - std::cos(2 * std::numbers::pi * radius) / 2;
        heights[row * points + column] = static_cast<float>(bowl * bumps[row * points + column]);
      }
    }
  }

  int workspace_;
  std::vector<int> rangefinders_;  // in sensordata
};

class QuadrupedFetch final : public Quadruped {
 public:
  explicit QuadrupedFetch(const mjModel& model)
      : Quadruped(model),
        ball_(object_id(model, mjOBJ_BODY, "ball")),
        ball_geom_(object_id(model, mjOBJ_GEOM, "ball")),
        ball_position_(position_address(model, "ball_root")),
        ball_velocity_(velocity_address(model, "ball_root")),
        target_(object_id(model, mjOBJ_SITE, "target")),
        workspace_(object_id(model, mjOBJ_SITE, "workspace")),
        floor_(object_id(model, mjOBJ_GEOM, "floor")) {}

  Signature observation_spec() const override {
    Signature signature = Quadruped::observation_spec();
    signature.push_back({"ball_state", DType::kF64, {9}});
    signature.push_back({"target_position", DType::kF64, {3}});
    return signature;
  }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    const double azimuth = random.uniform(0, 2 * std::numbers::pi);
    const double radius = .9 * physics.model().geom_size[3 * floor_];
    const double x = random.uniform(-radius, radius);
    const double y = random.uniform(-radius, radius);
    TROUPE_TRY(find_height(physics, std::array{std::cos(azimuth / 2), 0.0, 0.0, std::sin(azimuth / 2)}, x, y));
    double* position = physics.data().qpos + ball_position_;
    double* velocity = physics.data().qvel + ball_velocity_;
    for (int axis = 0; axis < 2; ++axis) position[axis] = random.uniform(-radius, radius);
    position[2] = 2;
    for (int axis = 0; axis < 2; ++axis) velocity[axis] = 5 * random.randn();
    return {};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    const mjData& data = physics.data();
    const double* torso = torso_position(physics);
    const double* ball_velocity = data.qvel + ball_velocity_;
    auto out = observe_itself(physics, observation.begin());
    for (const auto& vector : {difference(data.xpos + 3 * ball_, torso), difference(ball_velocity, data.qvel),
                               std::array{ball_velocity[3], ball_velocity[4], ball_velocity[5]},
                               difference(data.site_xpos + 3 * target_, torso)}) {
      out = std::ranges::copy(in_torso(physics, vector), out).out;
    }
  }

  double reward(const Physics& physics) const override {
    const mjModel& model = physics.model();
    const mjData& data = physics.data();
    const double arena = model.geom_size[3 * floor_] * std::sqrt(2);
    const auto near_ball = [&](int site, double radius) {
      const auto to_ball = difference(data.site_xpos + 3 * site, data.xpos + 3 * ball_);
      return tolerance(norm(std::span(to_ball).first(2)),
                       {.upper = radius, .margin = arena, .sigmoid = Sigmoid::kLinear, .value_at_margin = 0});
    };
    const double reach = near_ball(workspace_, model.site_size[3 * workspace_] + model.geom_size[3 * ball_geom_]);
    const double fetch = near_ball(target_, model.site_size[3 * target_]);
    return upright_reward(physics, 0) * (reach * (0.5 + 0.5 * fetch));
  }

 private:
  int ball_;
  int ball_geom_;
  int ball_position_;  // in qpos
  int ball_velocity_;  // in qvel
  int target_;
  int workspace_;
  int floor_;
};

/// What the model keeps of its file for a task.
struct World {
  double floor_size = 0;  ///< half a side in m; 0: as it is
  bool terrain = false;
  bool rangefinders = false;
  bool walls_and_ball = false;
};

template <World world>
void furnish(mjSpec& source) {
  if (world.floor_size > 0) {
    double* size = find_geom(source, "floor").size;
    size[0] = size[1] = world.floor_size;
  }
  if (!world.walls_and_ball) {
    for (const std::string_view wall : kWalls) remove_element(source, find_element(source, mjOBJ_GEOM, wall));
    remove_element(source, find_element(source, mjOBJ_BODY, "ball"));
    remove_element(source, find_element(source, mjOBJ_SITE, "target"));
  }
  if (!world.terrain) remove_element(source, find_element(source, mjOBJ_GEOM, "terrain"));
  if (!world.rangefinders) {
    std::vector<mjsElement*> finders;
    for (mjsElement* at = mjs_firstElement(&source, mjOBJ_SENSOR); at != nullptr; at = mjs_nextElement(&source, at)) {
      if (mjs_asSensor(at)->type == mjSENS_RANGEFINDER) finders.push_back(at);
    }
    for (mjsElement* finder : finders) remove_element(source, finder);
  }
}

template <World world>
constexpr TaskEntry quadruped_entry(std::string_view name, std::unique_ptr<Task> (*make)(const mjModel&)) {
  return {.name = name,
          .model = "quadruped.xml",
          .time_limit_s = 20,
          .control_dt_s = .02,
          .change = {.source = furnish<world>},
          .make = make};
}

template <typename T>
std::unique_ptr<Task> make_quadruped(const mjModel& model) {
  return std::make_unique<T>(model);
}
std::unique_ptr<Task> make_walking(const mjModel& model) { return std::make_unique<QuadrupedMove>(model, .5); }
std::unique_ptr<Task> make_running(const mjModel& model) { return std::make_unique<QuadrupedMove>(model, 5.0); }

constexpr std::array kQuadrupedTasks = {
    // The floor is as far as one comes in an episode.
    quadruped_entry<World{.floor_size = 10}>("quadruped-walk", make_walking),
    quadruped_entry<World{.floor_size = 100}>("quadruped-run", make_running),
    quadruped_entry<World{.floor_size = 40, .terrain = true, .rangefinders = true}>("quadruped-escape",
                                                                                    make_quadruped<QuadrupedEscape>),
    quadruped_entry<World{.walls_and_ball = true}>("quadruped-fetch", make_quadruped<QuadrupedFetch>)};

}  // namespace

std::span<const TaskEntry> quadruped_tasks() { return kQuadrupedTasks; }

}  // namespace troupe::envs
