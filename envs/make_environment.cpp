// The list of environments, and the other free functions of environment.hpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <utility>

#include <troupe/core/check.hpp>
#include <troupe/core/installation.hpp>
#include <troupe/core/nearest.hpp>
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

bool has_action_type(const ActionSpec& action) {
  const DType dtype = action.tensor.dtype;
  return action.discrete() ? dtype == DType::kI32 : dtype == DType::kF64 || dtype == DType::kF32;
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

Status check_action(const EnvSpec& spec, std::span<const std::byte> action) {
  const TensorSpec& tensor = spec.action.tensor;
  TROUPE_CHECK(has_action_type(spec.action), "{}: an action is {}", spec.name, tensor.to_string());
  if (action.size() != tensor.bytes()) {
    return Error{Code::kInvalidArgument, fmt::format("{}: action has {} bytes, expected {} of {}", spec.name,
                                                     action.size(), tensor.bytes(), tensor.to_string())};
  }
  const auto mistake = [&](std::int64_t index, const auto& got, const std::string& expected) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: action[{}] is {}, expected {}", spec.name, index, got, expected)};
  };
  const auto number = [&]<typename T>(std::int64_t index, T value) {
    std::memcpy(&value, action.data() + static_cast<std::size_t>(index) * sizeof(value), sizeof(value));
    return value;
  };
  for (std::int64_t i = 0; i < tensor.shape.elements(); ++i) {
    if (spec.action.discrete()) {
      const auto choice = number(i, std::int32_t{});
      if (choice >= 0 && choice < spec.action.choices) continue;
      return mistake(i, choice, fmt::format("one of 0 .. {}", spec.action.choices - 1));
    }
    const double value = tensor.dtype == DType::kF32 ? number(i, float{}) : number(i, double{});
    if (!std::isfinite(value)) return mistake(i, value, "a finite number");
  }
  return {};
}

Status check_spec(const EnvSpec& spec) {
  const auto mistake = [&](const std::string& what) {
    return Error{Code::kInvalidArgument, fmt::format("environment {}: {}", spec.name, what)};
  };
  if (spec.observation_size() < 1) return mistake("an observation has no numbers, expected at least one");
  const ActionSpec& action = spec.action;
  if (spec.action_size() < 1) return mistake("an action has no numbers, expected at least one");
  if (!has_action_type(action)) {
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
