// The list of the suite's domains, and their tasks as environments.
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

#include <troupe/core/check.hpp>
#include <troupe/core/installation.hpp>
#include <troupe/envs/mujoco_environment.hpp>
#include <troupe/envs/shipped.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

constexpr std::array kDomains = {acrobot_tasks, ball_in_cup_tasks, cartpole_tasks, cheetah_tasks,    dog_tasks,
                                 finger_tasks,  fish_tasks,        hopper_tasks,   humanoid_tasks,   humanoid_cmu_tasks,
                                 lqr_tasks,     manipulator_tasks, pendulum_tasks, point_mass_tasks, quadruped_tasks,
                                 reacher_tasks, stacker_tasks,     swimmer_tasks,  walker_tasks};

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const auto& tasks : kDomains) {
    for (const TaskEntry& entry : tasks()) names.emplace_back(entry.name);
  }
  return names;
}

const TaskEntry& find_entry(const std::string& name) {
  const TaskEntry* found = nullptr;
  for (const auto& tasks : kDomains) {
    for (const TaskEntry& entry : tasks()) {
      if (entry.name == name) found = &entry;
    }
  }
  TROUPE_CHECK(found != nullptr, "the suite has no {}", name);
  return *found;
}

Result<std::filesystem::path> model_file(const TaskEntry& entry) {
  const char* chosen = std::getenv("TROUPE_DM_CONTROL_DIR");
  const std::filesystem::path folder = chosen != nullptr ? chosen : installation().shared / "dm_control";
  std::filesystem::path file = folder / "suite" / entry.model;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) {
    return Error{Code::kIo, fmt::format("{}: model file {} is missing; `./troupe` fetches it, or TROUPE_DM_CONTROL_DIR "
                                        "names an unpacked dm_control 1.0.50",
                                        entry.name, file.string())};
  }
  return file;
}

MakeEnvironment shared_tasks(const std::string& name) {
  struct Shared {
    std::mutex mutex;
    SharedModel simulated, drawn;  // none until it is first wanted
  };
  const TaskEntry& entry = find_entry(name);
  const auto models = [&entry, shared = std::make_shared<Shared>()](Textures textures) -> Result<SharedModel> {
    const std::lock_guard lock(shared->mutex);
    SharedModel& model = textures == Textures::kAll ? shared->drawn : shared->simulated;
    if (model == nullptr) {
      TROUPE_ASSIGN(const std::filesystem::path file, model_file(entry));
      TROUPE_ASSIGN(model, load_model(file, entry.change, textures));
    }
    return model;
  };
  return [&entry, models](std::uint64_t seed) { return MujocoEnvironment::make(entry, models, seed); };
}

}  // namespace

Origin control_suite() { return {task_names, shared_tasks}; }

}  // namespace troupe::envs
