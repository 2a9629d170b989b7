// The list of environments, and the other free functions of environment.hpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <utility>

#include <troupe/core/check.hpp>
#include <troupe/core/installation.hpp>
#include <troupe/core/nearest.hpp>
#include <troupe/core/text.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/envs/mujoco_environment.hpp>
#include <troupe/envs/task.hpp>

namespace troupe::envs {
namespace {

constexpr std::array kDomains = {acrobot_tasks, ball_in_cup_tasks, cartpole_tasks, cheetah_tasks,    dog_tasks,
                                 finger_tasks,  fish_tasks,        hopper_tasks,   humanoid_tasks,   humanoid_cmu_tasks,
                                 lqr_tasks,     manipulator_tasks, pendulum_tasks, point_mass_tasks, quadruped_tasks,
                                 reacher_tasks, stacker_tasks,     swimmer_tasks,  walker_tasks};

const TaskEntry* find_entry(std::string_view name) {
  for (const auto& tasks : kDomains) {
    for (const TaskEntry& entry : tasks()) {
      if (entry.name == name) return &entry;
    }
  }
  return nullptr;
}

Error unknown_name(const std::string& name) {
  const std::vector<std::string> known = environment_names();
  const std::vector<std::string> near = nearest(name, known);
  const std::string hint = near.empty() ? fmt::format("known are {}", fmt::join(known, ", "))
                                        : fmt::format("did you mean {}?", fmt::join(near, " or "));
  return Error{Code::kNotFound, fmt::format("no environment \"{}\"; {}", name, hint)};
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

struct LoadedTask {
  const TaskEntry* entry = nullptr;
  SharedModel model;
};

Result<LoadedTask> load_task(const std::string& name) {
  const TaskEntry* entry = find_entry(name);
  if (entry == nullptr) return unknown_name(name);
  TROUPE_ASSIGN(const std::filesystem::path file, model_file(*entry));
  TROUPE_ASSIGN(SharedModel model, load_model(file, entry->change));
  return LoadedTask{entry, std::move(model)};
}

}  // namespace

std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  for (const auto& tasks : kDomains) {
    for (const TaskEntry& entry : tasks()) names.emplace_back(entry.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

MakeEnvironment shared_environments(std::string name) {
  struct Shared {
    std::mutex mutex;
    LoadedTask task;  // until the first call: without a model
  };
  return [name = std::move(name),
          shared = std::make_shared<Shared>()](std::uint64_t seed) -> Result<std::unique_ptr<Environment>> {
    const std::lock_guard lock(shared->mutex);
    if (shared->task.model == nullptr) {
      TROUPE_ASSIGN(shared->task, load_task(name));
    }
    return {std::make_unique<MujocoEnvironment>(*shared->task.entry, shared->task.model, seed)};
  };
}

Result<std::unique_ptr<Environment>> make_environment(const std::string& name, std::uint64_t seed) {
  return shared_environments(name)(seed);
}

Status Environment::render(const RenderOptions&, std::span<std::uint8_t>) {
  return Error{Code::kUnavailable, fmt::format("{}: this environment has no picture of itself", spec().name)};
}

Result<std::size_t> camera_index(const EnvSpec& spec, const std::string& camera) {
  const std::vector<std::string>& all = spec.cameras;
  if (const auto found = std::ranges::find(all, camera); found != all.end() && !camera.empty()) {
    return static_cast<std::size_t>(found - all.begin());
  }
  std::size_t index = 0;
  const char* const end = camera.data() + camera.size();
  const auto [parsed, error] = std::from_chars(camera.data(), end, index);
  if (error == std::errc() && parsed == end && index < all.size()) return index;
  if (all.empty()) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{} has no picture of itself: its spec names no camera", spec.name)};
  }
  std::vector<std::string> named;
  std::ranges::copy_if(all, std::back_inserter(named), [](const std::string& name) { return !name.empty(); });
  const std::vector<std::string> near = nearest(camera, named, 1);
  return Error{Code::kInvalidArgument,
               fmt::format("{} has no camera \"{}\"{}, expected 0 .. {} or one of {}", spec.name, printable(camera),
                           near.empty() ? "" : fmt::format(" (did you mean {}?)", near[0]), all.size() - 1,
                           fmt::join(named, ", "))};
}

Status check_spec(const EnvSpec& spec) {
  const auto mistake = [&](const std::string& what) {
    return Error{Code::kInvalidArgument, fmt::format("environment {}: {}", spec.name, what)};
  };
  if (spec.observation_size() < 1) return mistake("an observation has no numbers, expected at least one");
  const ActionSpec& action = spec.action;
  if (spec.action_size() < 1) return mistake("an action has no numbers, expected at least one");
  const DType dtype = action.tensor.dtype;
  if (action.discrete() ? dtype != DType::kI32 : dtype != DType::kF64 && dtype != DType::kF32) {
    return mistake(fmt::format("an action is {} with {} choices, expected int32 with choices, or float64 or float32",
                               action.tensor.to_string(), action.choices));
  }
  const std::size_t bounds = action.discrete() ? 0 : static_cast<std::size_t>(spec.action_size());
  if (action.low.size() != bounds || action.high.size() != bounds) {
    return mistake(fmt::format("an action has {} lower and {} upper bounds, expected {} of each", action.low.size(),
                               action.high.size(), bounds));
  }
  for (std::size_t i = 0; i < bounds; ++i) {
    if (std::isfinite(action.low[i]) && std::isfinite(action.high[i]) && action.low[i] < action.high[i]) continue;
    return mistake(fmt::format("number {} of an action is from {} to {}, expected finite bounds, the lower one first",
                               i, action.low[i], action.high[i]));
  }
  if (spec.episode_steps < 1) {
    return mistake(fmt::format("an episode has at most {} steps, expected 1 or more", spec.episode_steps));
  }
  return {};
}

std::int64_t EnvSpec::observation_size() const {
  std::int64_t size = 0;
  for (const TensorSpec& column : observation) size += column.shape.elements();
  return size;
}

ActionSpec ActionSpec::continuous(std::vector<double> low, std::vector<double> high, DType dtype) {
  TROUPE_CHECK(low.size() == high.size(), "action: {} lower and {} upper bounds", low.size(), high.size());
  const auto size = static_cast<std::int64_t>(low.size());
  return {{"action", dtype, Shape{size}}, std::move(low), std::move(high), 0};
}

ActionSpec ActionSpec::discrete(std::int64_t choices) {
  TROUPE_CHECK(choices > 0, "action: {} choices", choices);
  return {{"action", DType::kI32, Shape{}}, {}, {}, choices};
}

}  // namespace troupe::envs
