// dm_control/suite/stacker.py: a planar arm that stacks boxes up to a target.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numbers>
#include <vector>

#include <troupe/envs/model_source.hpp>
#include <troupe/envs/planar_arm.hpp>
#include <troupe/envs/rewards.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

constexpr int kModelBoxes = 4;  // in the file

class Stack final : public Task {
 public:
  Stack(const mjModel& model, int boxes)
      : arm_(model),
        target_body_(object_id(model, mjOBJ_BODY, "target")),
        target_site_(object_id(model, mjOBJ_SITE, "target")),
        target_geom_(object_id(model, mjOBJ_GEOM, "target")) {
    for (int number = 0; number < boxes; ++number) {
      const std::string name = fmt::format("box{}", number);
      boxes_.push_back({.body = object_id(model, mjOBJ_BODY, name),
                        .site = object_id(model, mjOBJ_SITE, name),
                        .x = object_id(model, mjOBJ_JOINT, name + "_x"),
                        .y = object_id(model, mjOBJ_JOINT, name + "_y"),
                        .z = object_id(model, mjOBJ_JOINT, name + "_z")});
    }
  }

  Signature observation_spec() const override {
    const auto boxes = static_cast<std::int64_t>(boxes_.size());
    Signature signature = PlanarArm::observation_spec();
    signature.push_back({"box_pos", DType::kF64, {boxes, 4}});
    signature.push_back({"box_vel", DType::kF64, {3 * boxes}});
    signature.push_back({"target_pos", DType::kF64, {2}});
    return signature;
  }

  std::vector<ModelPart> changes() const override { return {ModelPart::kBodyPositions}; }

  Status initialise_episode(Physics& physics, NumpyRandom& random) const override {
    const mjModel& model = physics.model();
    double* qpos = physics.data().qpos;
    return randomize_without_contact(physics, [&]() -> Status {
      arm_.randomize(physics, random);
      const double level = 2 * random.randint(static_cast<std::uint32_t>(boxes_.size())) + 1;
      const double z = box_size(physics) * level;
      place_body(physics, target_body_, random.uniform(-.37, .37), z);
      for (const Box& box : boxes_) {
        qpos[model.jnt_qposadr[box.x]] = random.uniform(.1, .3);
        qpos[model.jnt_qposadr[box.z]] = random.uniform(0, .7);
        qpos[model.jnt_qposadr[box.y]] = random.uniform(0, 2 * std::numbers::pi);
      }
      return {};
    });
  }

  void observe(const Physics& physics, std::span<double> observation) const override {
    const mjData& data = physics.data();
    auto out = arm_.observe(physics, observation.begin());
    for (const Box& box : boxes_) out = std::ranges::copy(planar_pose(physics, box.body), out).out;
    for (const Box& box : boxes_) {
      for (const int joint : {box.x, box.y, box.z}) *out++ = data.qvel[physics.model().jnt_dofadr[joint]];
    }
    std::copy_n(planar_pose(physics, target_body_).begin(), 2, out);
  }

  double reward(const Physics& physics) const override {
    double nearest = kInfinity;
    for (const Box& box : boxes_) nearest = std::min(nearest, site_distance(physics, box.site, target_site_));
    const double box_is_close = tolerance(nearest, {.margin = 2 * box_size(physics)});
    const double hand_is_far = tolerance(site_distance(physics, arm_.grasp_site(), target_site_),
                                         {.lower = .1, .upper = kInfinity, .margin = .01});
    return box_is_close * hand_is_far;
  }

 private:
  struct Box {
    int body;
    int site;
    int x, y, z;  // joints
  };

  double box_size(const Physics& physics) const { return physics.model().geom_size[3 * target_geom_]; }

  PlanarArm arm_;
  int target_body_;
  int target_site_;
  int target_geom_;
  std::vector<Box> boxes_;
};

template <int boxes>
void remove_other_boxes(mjSpec& source) {
  for (int number = boxes; number < kModelBoxes; ++number) {
    remove_element(source, find_body(source, fmt::format("box{}", number)).element);
  }
}

template <int boxes>
constexpr TaskEntry stacker_entry(std::string_view name) {
  return {.name = name,
          .model = "stacker.xml",
          .time_limit_s = 10,
          .control_dt_s = .01,
          .change = {.source = remove_other_boxes<boxes>},
          .make = [](const mjModel& model) -> std::unique_ptr<Task> { return std::make_unique<Stack>(model, boxes); }};
}

constexpr std::array kStackerTasks = {stacker_entry<2>("stacker-stack_2"), stacker_entry<4>("stacker-stack_4")};

}  // namespace

std::span<const TaskEntry> stacker_tasks() { return kStackerTasks; }

}  // namespace troupe::envs
