// The list of where environments come from, and the other free functions of environment.hpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include <troupe/core/check.hpp>
#include <troupe/core/nearest.hpp>
#include <troupe/core/stacks.hpp>
#include <troupe/core/text.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/envs/shipped.hpp>

namespace troupe::envs {
namespace {

constexpr std::array kOrigins = {control_suite, classic_control};

Error unknown_name(const std::string& name) {
  const std::vector<std::string> known = environment_names();
  const std::vector<std::string> near = nearest(name, known);
  const std::string hint = near.empty() ? fmt::format("known are {}", fmt::join(known, ", "))
                                        : fmt::format("did you mean {}?", fmt::join(near, " or "));
  return Error{Code::kNotFound, fmt::format("no environment \"{}\"; {}", name, hint)};
}

bool has_action_type(const ActionSpec& action) {
  const DType dtype = action.tensor.dtype;
  return action.discrete() ? dtype == DType::kI32 : dtype == DType::kF64 || dtype == DType::kF32;
}

}  // namespace

std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  for (const auto& origin : kOrigins) std::ranges::move(origin().names(), std::back_inserter(names));
  std::sort(names.begin(), names.end());
  return names;
}

MakeEnvironment shared_environments(std::string name) {
  for (const auto& origin : kOrigins) {
    const std::vector<std::string> names = origin().names();
    if (std::ranges::find(names, name) != names.end()) return origin().shared(name);
  }
  return [name](std::uint64_t) -> Result<std::unique_ptr<Environment>> { return unknown_name(name); };
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
  if (const Status stacks = check_stacks(spec.observation, "an observation"); !stacks.ok()) {
    return mistake(stacks.error().message);
  }
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
