// dm_control/suite/humanoid_CMU.py: the humanoid of 56 joints onto which the CMU's motion captures fit. Its names are
// lower-case here, as all names of the suite are.
#include <array>

#include <troupe/envs/humanoid_task.hpp>

namespace troupe::envs {
namespace {

constexpr HumanoidBody kHumanoidCmu = {.trunk = "thorax",
                                       .upright = 7,  // its y axis is the one that points up
                                       .velocity = "thorax_subtreelinvel",
                                       .extremities = {"lhand", "lfoot", "rhand", "rfoot"}};

template <int move_speed>
std::unique_ptr<Task> make_humanoid_cmu(const mjModel& model) {
  return std::make_unique<HumanoidTask>(model, kHumanoidCmu,
                                        HumanoidTask::Options{.move_speed = move_speed, .pure_state = false});
}

constexpr TaskEntry humanoid_cmu_entry(std::string_view name, std::unique_ptr<Task> (*make)(const mjModel&)) {
  return {.name = name, .model = "humanoid_CMU.xml", .time_limit_s = 20, .control_dt_s = .02, .make = make};
}

constexpr std::array kHumanoidCmuTasks = {humanoid_cmu_entry("humanoid_cmu-stand", make_humanoid_cmu<0>),
                                          humanoid_cmu_entry("humanoid_cmu-walk", make_humanoid_cmu<1>),
                                          humanoid_cmu_entry("humanoid_cmu-run", make_humanoid_cmu<10>)};

}  // namespace

std::span<const TaskEntry> humanoid_cmu_tasks() { return kHumanoidCmuTasks; }

}  // namespace troupe::envs
