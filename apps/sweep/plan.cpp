#include <troupe/apps/sweep/plan.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include <troupe/core/config.hpp>
#include <troupe/core/text.hpp>
#include <troupe/core/toml.hpp>
#include <troupe/run/check_begin.hpp>
#include <troupe/run/find_config.hpp>
#include <troupe/run/train_schema.hpp>

namespace troupe::apps {
namespace {

constexpr std::size_t kNamed = 3;  ///< of a longer list, in a message

std::string some_of(const std::vector<std::string>& all) {
  const std::vector<std::string> first(all.begin(), all.begin() + static_cast<long>(std::min(all.size(), kNamed)));
  return fmt::format("{}{}", fmt::join(first, ", "),
                     all.size() > kNamed ? fmt::format(" and {} more", all.size() - kNamed) : "");
}

std::vector<std::string> overrides_of(const std::vector<Setting>& settings) {
  std::vector<std::string> overrides;
  for (const auto& [key, value] : settings) overrides.push_back(fmt::format("{}={}", key, value));
  return overrides;
}

/// A sweep waits for its runs, so none may go on for ever.
Status check_ends(const actors::TrainOptions& options, const std::string& file) {
  if (options.agents.empty()) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: no agent: a sweep compares the returns of agents ([agents.NAME], or env)", file)};
  }
  if (options.max_minutes > 0) return {};
  for (const actors::AgentOptions& agent : options.agents) {
    if (agent.max_env_steps == 0 && agent.max_learner_steps == 0) {
      const std::string prefix = actors::section_prefix(agent);
      return Error{
          Code::kInvalidArgument,
          fmt::format("the run would never end: set {0}max_env_steps, {0}max_learner_steps or max_minutes", prefix)};
    }
  }
  return {};
}

/// A combination with the values in the one form that equal ones have, and the seed of the configuration.
struct CheckedCombination {
  std::vector<Setting> settings;
  std::int64_t seed = 0;
};

Result<CheckedCombination> check_combination(const SweepConfig& config, const std::string& file,
                                             const std::vector<Setting>& settings, const Registry& registry) {
  const auto check = [&]() -> Result<CheckedCombination> {
    TROUPE_ASSIGN(const Config loaded, parse_config(config.text, file, overrides_of(settings), train_schema(registry)));
    TROUPE_ASSIGN(const actors::TrainOptions options, to_train_options(loaded, registry));
    TROUPE_TRY(check_begin(loaded, options, RunKind::kOneProcess));
    TROUPE_TRY(check_ends(options, file));
    CheckedCombination checked{.settings = {}, .seed = loaded.get_int("seed")};
    for (const auto& [key, value] : settings) checked.settings.emplace_back(key, to_toml(loaded.value(key)));
    return checked;
  };
  Result<CheckedCombination> checked = check();
  if (checked.ok()) return checked;
  const Error& error = checked.error();
  if (settings.empty()) return error;
  return Error{error.code, fmt::format("{} with {}:\n{}", config.name, in_words(settings), error.message)};
}

/// The keys that two configurations have different values of, with both: "d4pg.sigma was 0.2, is 0.3".
std::vector<std::string> differences(const Config& before, const Config& now) {
  std::vector<std::string> all;
  for (const ConfigKey& key : now.schema()) {
    if (!before.has(key.path)) {
      all.push_back(fmt::format("{} is new", key.path));
    } else if (before.value(key.path) != now.value(key.path)) {
      all.push_back(
          fmt::format("{} was {}, is {}", key.path, to_toml(before.value(key.path)), to_toml(now.value(key.path))));
    }
  }
  for (const ConfigKey& key : before.schema()) {
    if (!now.has(key.path)) all.push_back(fmt::format("{} is gone", key.path));
  }
  return all;
}

std::string name_of(const std::string& config, const std::vector<Setting>& settings, std::int64_t seed) {
  std::string name = fmt::format("{}-seed-{}", config, seed);
  for (const auto& [key, value] : settings) {
    const bool text = value.size() >= 2 && value.front() == '"' && value.back() == '"';
    name += fmt::format("-{}-{}", key, text ? std::string_view(value).substr(1, value.size() - 2) : value);
  }
  return safe_name(name);
}

}  // namespace

std::string in_words(const SweepRun& run) {
  const std::string settings = in_words(run.settings);
  return fmt::format("{}{}{}, seed {}", run.config, settings.empty() ? "" : ", ", settings, run.seed);
}

std::vector<std::string> overrides_of(const SweepRun& run) {
  std::vector<std::string> overrides = overrides_of(run.settings);
  overrides.push_back(fmt::format("seed={}", run.seed));
  return overrides;
}

Result<actors::TrainOptions> options_of(const SweepPlan& plan, const SweepRun& run, const Registry& registry) {
  const auto config = std::ranges::find(plan.configs, run.config, &SweepConfig::name);
  if (config == plan.configs.end()) return Error{Code::kNotFound, fmt::format("no configuration {}", run.config)};
  TROUPE_ASSIGN(const Config loaded, parse_config(config->text, run.config, overrides_of(run), train_schema(registry)));
  return to_train_options(loaded, registry);
}

Result<SweepPlan> plan_sweep(const SweepRequest& request, const Registry& registry) {
  SweepPlan plan;
  std::map<std::string, std::string> files;  // by name
  for (const std::string& given : request.configs) {
    TROUPE_ASSIGN(const std::vector<std::filesystem::path> found, find_configs(given));
    for (const std::filesystem::path& file : found) {
      TROUPE_ASSIGN(std::string text, read_config_text(file));
      std::string name = file.stem().string();
      if (const auto [other, is_new] = files.emplace(name, file.string()); !is_new) {
        return Error{Code::kInvalidArgument,
                     fmt::format("{}: a configuration is called {} already, {}, and runs have its name",
                                 printable(file.string()), printable(name), printable(other->second))};
      }
      plan.configs.push_back({std::move(name), std::move(text)});
    }
  }
  for (const SweptKey& swept : request.keys) plan.keys.push_back(swept.key);
  const std::size_t each = count_combinations(request.keys) * (request.seeds ? request.seeds->size() : 1);
  if (each * plan.configs.size() > kSweepRunsMax) {
    return Error{Code::kInvalidArgument, fmt::format("the sweep has more than {} runs", kSweepRunsMax)};
  }
  const std::vector<std::vector<Setting>> all = combinations(request.keys);
  std::map<std::string, std::string> names;
  for (const SweepConfig& config : plan.configs) {
    for (const std::vector<Setting>& settings : all) {
      TROUPE_ASSIGN(const CheckedCombination checked,
                    check_combination(config, files[config.name], settings, registry));
      for (const std::int64_t seed : request.seeds.value_or(std::vector{checked.seed})) {
        SweepRun run{name_of(config.name, checked.settings, seed), config.name, checked.settings, seed};
        if (!names.emplace(run.name, in_words(run)).second) {
          return Error{Code::kInvalidArgument, fmt::format("--set: {} stands for one run twice ({})",
                                                           printable(in_words(settings)), names[run.name])};
        }
        plan.runs.push_back(std::move(run));
      }
    }
  }
  if (plan.runs.empty()) return Error{Code::kInvalidArgument, "the sweep has no run"};
  return plan;
}

Result<SweepPlan> grown(const SweepPlan& before, const SweepPlan& now, const Registry& registry) {
  if (before.keys != now.keys) {
    const auto said = [](const std::vector<std::string>& keys) {
      return keys.empty() ? std::string("no --set") : fmt::format("--set {}", fmt::join(keys, ", --set "));
    };
    return Error{Code::kInvalidArgument,
                 fmt::format("it was begun with {}, and not with {}", said(before.keys), said(now.keys))};
  }
  std::vector<std::string> missing;
  for (const SweepRun& run : before.runs) {
    if (std::ranges::find(now.runs, run) == now.runs.end()) missing.push_back(in_words(run));
  }
  if (!missing.empty()) {
    return Error{Code::kInvalidArgument, fmt::format("it has {} that this grid lacks: {}",
                                                     missing.size() == 1 ? "a run" : "runs", some_of(missing))};
  }
  SweepPlan all = before;
  for (const SweepConfig& config : now.configs) {
    const auto old = std::ranges::find(before.configs, config.name, &SweepConfig::name);
    if (old == before.configs.end()) {
      all.configs.push_back(config);
      continue;
    }
    if (old->text == config.text) continue;
    const std::string file = config.name + ".toml";
    TROUPE_ASSIGN(const Config was, parse_config(old->text, file, {}, train_schema(registry)));
    TROUPE_ASSIGN(const Config is, parse_config(config.text, file, {}, train_schema(registry)));
    if (const auto changed = differences(was, is); !changed.empty()) {
      return Error{Code::kInvalidArgument, fmt::format("{} has changed since: {}", config.name, some_of(changed))};
    }
  }
  for (const SweepRun& run : now.runs) {
    if (std::ranges::find(before.runs, run) == before.runs.end()) all.runs.push_back(run);
  }
  return all;
}

}  // namespace troupe::apps
