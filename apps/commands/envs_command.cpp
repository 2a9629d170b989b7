// `troupe envs`: what can be trained on, with shapes and bounds.
#include <CLI/CLI.hpp>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <troupe/apps/commands/commands.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/run/say.hpp>

namespace troupe::apps {
namespace {

std::string numbers(std::int64_t count) { return fmt::format("{} number{}", count, count == 1 ? "" : "s"); }

std::string bounds(const envs::ActionSpec& action) {
  const auto same = [](const std::vector<double>& values) {
    return std::ranges::all_of(values, [&](double value) { return value == values.front(); });
  };
  if (action.low.size() > 1 && same(action.low) && same(action.high)) {
    return fmt::format("each from {} to {}", action.low.front(), action.high.front());
  }
  return fmt::format("from [{}] to [{}]", fmt::join(action.low, ", "), fmt::join(action.high, ", "));
}

/// Each by its name, or by its index where it has none.
std::vector<std::string> called(const std::vector<std::string>& cameras) {
  std::vector<std::string> names;
  for (const std::string& name : cameras) names.push_back(name.empty() ? std::to_string(names.size()) : name);
  return names;
}

void print_text(const std::vector<envs::EnvSpec>& specs) {
  for (const envs::EnvSpec& spec : specs) {
    std::vector<std::string> observation;
    for (const TensorSpec& tensor : spec.observation) {
      const bool one = tensor.shape.rank() == 0;
      observation.push_back(one ? tensor.name : fmt::format("{} {}", tensor.name, tensor.shape.to_string()));
    }
    say("{}\n  observation  {}: {}\n", spec.name, numbers(spec.observation_size()), fmt::join(observation, ", "));
    if (spec.action.discrete()) {
      say("  action       {}, each one of {} choices\n", numbers(spec.action_size()), spec.action.choices);
    } else {
      say("  action       {}, {}\n", numbers(spec.action_size()), bounds(spec.action));
    }
    say("  episode      {} steps of {:g} s\n", spec.episode_steps, spec.control_dt);
    if (!spec.cameras.empty()) say("  cameras      {}\n", fmt::join(called(spec.cameras), ", "));
  }
}

void print_json(const std::vector<envs::EnvSpec>& specs) {
  std::vector<std::string> entries;
  for (const envs::EnvSpec& spec : specs) {
    std::vector<std::string> observation;
    for (const TensorSpec& tensor : spec.observation) {
      observation.push_back(fmt::format("{{\"name\": \"{}\", \"dtype\": \"{}\", \"shape\": [{}]}}", tensor.name,
                                        to_string(tensor.dtype), fmt::join(tensor.shape.dims(), ", ")));
    }
    const std::string action = spec.action.discrete()
                                   ? fmt::format("\"choices\": {}", spec.action.choices)
                                   : fmt::format("\"low\": [{}], \"high\": [{}]", fmt::join(spec.action.low, ", "),
                                                 fmt::join(spec.action.high, ", "));
    std::vector<std::string> cameras;
    for (const std::string& camera : called(spec.cameras)) cameras.push_back(nlohmann::json(camera).dump());
    entries.push_back(
        fmt::format("  {{\"name\": \"{}\", \"observation\": [{}], \"action\": {{{}}}, "
                    "\"episode_steps\": {}, \"control_dt\": {}, \"cameras\": [{}]}}",
                    spec.name, fmt::join(observation, ", "), action, spec.episode_steps, spec.control_dt,
                    fmt::join(cameras, ", ")));
  }
  say("[\n{}\n]\n", fmt::join(entries, ",\n"));
}

/// The environments with the defaults of their keys, under the names that a configuration has for them.
Result<std::vector<envs::EnvSpec>> all_specs(const Registry& registry) {
  std::vector<envs::EnvSpec> specs;
  for (const auto& [name, kind] : registry.environments()) {
    std::map<std::string, ConfigValue, std::less<>> defaults;
    for (const ConfigKey& key : kind.keys) defaults.emplace(key.path, key.default_value);
    TROUPE_ASSIGN(const auto make, make_environment(registry, name, ConfigSection(name, std::move(defaults))));
    TROUPE_ASSIGN(const auto environment, make(0));
    specs.push_back(environment->spec());
    specs.back().name = name;
  }
  return specs;
}

int run(bool json, const Registry& registry) {
  const auto all = all_specs(registry);
  if (!all.ok()) return fail(all.error());
  const std::vector<envs::EnvSpec>& specs = *all;
  json ? print_json(specs) : print_text(specs);
  return kExitOk;
}

}  // namespace

void add_envs_command(CLI::App& app, const Registry& registry, Command* chosen) {
  CLI::App* command = app.add_subcommand("envs", "List the environments with their specs");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->callback([json, &registry, chosen] { *chosen = [json, &registry] { return run(*json, registry); }; });
}

}  // namespace troupe::apps
