// dm_control/suite/swimmer.py: a chain of links in a viscous plane that is to bring its nose to a target.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include <troupe/envs/model_source.hpp>
#include <troupe/envs/numpy_math.hpp>
#include <troupe/envs/rewards.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

constexpr int kRootJoints = 3;    // of the head in the plane
constexpr int kHeadSensors = 12;  // numbers before the links' own in sensordata
constexpr int kLinkSensors = 6;   // of each link: velocimeter, gyro

class Swimmer final : public Task {
 public:
  explicit Swimmer(const mjModel& model)
      : links_(static_cast<int>(model.njnt) - kRootJoints + 1),
        head_(object_id(model, mjOBJ_BODY, "head")),
        nose_(object_id(model, mjOBJ_GEOM, "nose")),
        target_(object_id(model, mjOBJ_GEOM, "target")),
        target_light_(object_id(model, mjOBJ_LIGHT, "target_light")) {}

  Signature observation_spec() const override {
    return {{"joints", DType::kF64, {links_ - 1}},
            {"to_target", DType::kF64, {2}},
            {"body_velocities", DType::kF64, {3 * links_}}};
  }

  std::vector<ModelPart> changes() const override { return {ModelPart::kGeomPositions, ModelPart::kLightPositions}; }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    randomize_joints(physics, random);
    const bool close = random.random_sample() < .2;
    const double box = close ? .3 : 2;
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const double position = random.uniform(-box, box);
      physics.part(ModelPart::kGeomPositions, target_)[axis] = position;
      physics.part(ModelPart::kLightPositions, target_light_)[axis] = position;
    }
    return {};
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    const mjData& data = physics.data();
    auto out = std::copy_n(data.qpos + kRootJoints, links_ - 1, observation.begin());
    out = std::copy_n(nose_to_target(physics).begin(), 2, out);
    for (int link = 0; link < links_; ++link) {
      const double* sensors = data.sensordata + kHeadSensors + kLinkSensors * link;
      for (const int number : {0, 1, 5}) *out++ = sensors[number];  // x and y of the velocity, z of the rotation
    }
  }

  double reward(const Physics& physics) const override {
    const double size = physics.model().geom_size[3 * target_];
    const auto in_plane = nose_to_target(physics);
    return tolerance(norm(std::span(in_plane).first(2)),
                     {.upper = size, .margin = 5 * size, .sigmoid = Sigmoid::kLongTail});
  }

 private:
  /// In the frame of the head.
  std::array<double, 3> nose_to_target(const Physics& physics) const {
    const double* geoms = physics.data().geom_xpos;
    return in_frame(difference(geoms + 3 * target_, geoms + 3 * nose_), physics.rotation(head_));
  }

  int links_;  // with the head
  int head_;
  int nose_;
  int target_;
  int target_light_;
};

/// Hangs links with motors and sensors behind the head and moves the cameras back.
template <int links>
void add_links(mjSpec& source) {
  const mjsDefault* link_class = find_class(source, "swimmer");
  mjsBody* parent = &find_body(source, "head");
  for (int number = 0; number < links - 1; ++number) {
    const auto name = [number](const char* what) { return fmt::format("{}_{}", what, number); };
    mjsBody* body = mjs_addBody(parent, link_class);
    mjs_setName(body->element, name("segment").c_str());
    set_vector(body->pos, 0, .1, 0);
    for (const char* geom : {"visual", "inertial"}) {
      mjs_setName(mjs_addGeom(body, find_class(source, geom))->element, name(geom).c_str());
    }
    mjs_setName(mjs_addSite(body, link_class)->element, name("site").c_str());
    mjsJoint* joint = mjs_addJoint(body, link_class);
    mjs_setName(joint->element, name("joint").c_str());
    joint->range[0] = -360.0 / links;  // degrees
    joint->range[1] = 360.0 / links;

    mjsActuator* motor = mjs_addActuator(&source, mjs_getSpecDefault(&source));
    mjs_setToMotor(motor);
    mjs_setName(motor->element, name("motor").c_str());
    motor->trntype = mjTRN_JOINT;
    mjs_setString(motor->target, name("joint").c_str());
    for (const auto& [type, what] : {std::pair{mjSENS_VELOCIMETER, "velocimeter"}, {mjSENS_GYRO, "gyro"}}) {
      mjsSensor* sensor = mjs_addSensor(&source);
      mjs_setName(sensor->element, name(what).c_str());
      sensor->type = type;
      sensor->objtype = mjOBJ_SITE;
      mjs_setString(sensor->objname, name("site").c_str());
    }
    parent = body;
  }
  for (const char* camera : {"tracking1", "tracking2"}) {
    for (double& number : find_camera(source, camera).pos) number *= links / 6.0;
  }
}

template <int links>
constexpr TaskEntry swimmer_entry(std::string_view name) {
  return {.name = name,
          .model = "swimmer.xml",
          .time_limit_s = 30,
          .control_dt_s = .03,
          .change = {.source = add_links<links>},
          .make = [](const mjModel& model) -> std::unique_ptr<Task> { return std::make_unique<Swimmer>(model); }};
}

constexpr std::array kSwimmerTasks = {swimmer_entry<6>("swimmer-swimmer6"), swimmer_entry<15>("swimmer-swimmer15")};

}  // namespace

std::span<const TaskEntry> swimmer_tasks() { return kSwimmerTasks; }

}  // namespace troupe::envs
