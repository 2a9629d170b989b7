// dm_control/suite/humanoid.py: a humanoid of 21 joints that stands, walks or runs.
#include <array>

#include <troupe/envs/humanoid_task.hpp>

namespace troupe::envs {
namespace {

constexpr HumanoidBody kHumanoid = {.trunk = "torso",
                                    .upright = 8,
                                    .velocity = "torso_subtreelinvel",
                                    .extremities = {"left_hand", "left_foot", "right_hand", "right_foot"}};

template <int move_speed, bool pure_state = false>
std::unique_ptr<Task> make_humanoid(const mjModel& model) {
  return std::make_unique<HumanoidTask>(model, kHumanoid,
                                        HumanoidTask::Options{.move_speed = move_speed, .pure_state = pure_state});
}

constexpr TaskEntry humanoid_entry(std::string_view name, std::unique_ptr<Task> (*make)(const mjModel&)) {
  return {.name = name, .model = "humanoid.xml", .time_limit_s = 25, .control_dt_s = .025, .make = make};
}

constexpr std::array kHumanoidTasks = {humanoid_entry("humanoid-stand", make_humanoid<0>),
                                       humanoid_entry("humanoid-walk", make_humanoid<1>),
                                       humanoid_entry("humanoid-run", make_humanoid<10>),
                                       humanoid_entry("humanoid-run_pure_state", make_humanoid<10, true>)};

}  // namespace

std::span<const TaskEntry> humanoid_tasks() { return kHumanoidTasks; }

}  // namespace troupe::envs
