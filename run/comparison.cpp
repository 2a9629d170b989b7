#include <troupe/run/comparison.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include <troupe/core/nearest.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/idle_keys.hpp>

namespace troupe::apps {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kNear = 0.05;  ///< of return_at()
constexpr int kCurvePoints = 60;

/// An agent of a run.
struct Member {
  const RecordedRun* run = nullptr;
  const RecordedAgent* agent = nullptr;
};

/// What every run of a comparison may have of its own.
bool tells_nothing(const std::string& key, const RecordedAgent& agent) {
  return key == "seed" || key == "name" || key == agent.env_key;
}

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (std::ranges::find(list, text) == list.end()) list.push_back(text);
}

/// The keys that a run makes use of, as far as its environments and algorithms say.
std::vector<std::string> used_keys(const RecordedRun& run) {
  const std::vector<UnusedSection> unused = unused_sections(run.config);
  std::vector<std::string> keys;
  for (const ConfigKey& key : run.config.schema()) {
    const auto has = [&](const UnusedSection& section) { return key.path.starts_with(section.begin); };
    if (std::ranges::none_of(unused, has)) keys.push_back(key.path);
  }
  return keys;
}

/// The keys that members of one task have different values of, in the order of the schema. A key that one of them lacks
/// or has no use for follows from another one that differs, such as the algorithm's.
std::vector<std::string> differing_keys(const std::map<std::string, std::vector<Member>>& tasks) {
  std::vector<std::string> differing;
  for (const auto& [task, members] : tasks) {
    std::map<std::string, const ConfigValue*> first;
    for (const Member& member : members) {
      for (const std::string& key : used_keys(*member.run)) {
        if (tells_nothing(key, *member.agent)) continue;
        const ConfigValue& value = member.run->config.value(key);
        if (const auto [seen, is_new] = first.emplace(key, &value); !is_new && *seen->second != value) {
          add_once(differing, key);
        }
      }
    }
  }
  return differing;
}

/// by: the user has named the keys, and a task's own environment may be among them.
std::string setting_of(const Member& member, const std::vector<std::string>& keys, bool by) {
  const Config& config = member.run->config;
  const std::vector<std::string> used = used_keys(*member.run);
  std::vector<std::string> parts;
  for (const std::string& key : keys) {
    if (std::ranges::find(used, key) == used.end() || (!by && tells_nothing(key, *member.agent))) continue;
    parts.push_back(fmt::format("{}={}", key, to_toml(config.value(key))));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

Status check(std::span<const RecordedRun> runs, const ComparisonOptions& options) {
  if (runs.empty()) return Error{Code::kInvalidArgument, "there is no run to compare"};
  std::set<std::filesystem::path> seen;
  for (const RecordedRun& run : runs) {
    std::error_code ignored;
    if (!seen.insert(std::filesystem::weakly_canonical(run.directory.path, ignored)).second) {
      return Error{Code::kInvalidArgument, fmt::format("{}: the run is named twice", run.directory.shown())};
    }
  }
  for (const std::string& key : options.by) {
    const auto has = [&](const RecordedRun& run) { return run.config.has(key); };
    if (std::ranges::any_of(runs, has)) continue;
    std::vector<std::string> known;
    for (const ConfigKey& one : runs.front().config.schema()) known.push_back(one.path);
    const auto near = nearest(key, known, 1);
    return Error{Code::kInvalidArgument,
                 fmt::format("--by {}: no run has this key{}", printable(key),
                             near.empty() ? "" : fmt::format(" (did you mean {}?)", near.front()))};
  }
  return {};
}

/// What is summed up of one run.
struct Numbers {
  double final_return = 0, env_steps = 0, wall_s = 0, env_steps_per_s = 0, learner_steps_per_s = 0;
};

Numbers numbers_of(const Member& member) {
  const double wall_s = member.run->wall_s;
  return {.final_return = member.agent->returns.back().value,
          .env_steps = member.agent->env_steps,
          .wall_s = wall_s,
          .env_steps_per_s = wall_s > 0 ? member.agent->env_steps / wall_s : kNone,
          .learner_steps_per_s = wall_s > 0 ? member.agent->learner_steps / wall_s : kNone};
}

/// strata: the members by task.
ComparedGroup sum_up(std::string task, std::string setting, const std::vector<std::vector<Member>>& strata,
                     const ComparisonOptions& options) {
  ComparedGroup group{.task = std::move(task), .setting = std::move(setting)};
  std::vector<std::vector<double>> finals;
  std::vector<double> all, env_steps, wall_s, env_rates, learner_rates;
  for (const std::vector<Member>& stratum : strata) {
    finals.emplace_back();
    group.returns.emplace_back();
    for (const Member& member : stratum) {
      const Numbers numbers = numbers_of(member);
      finals.back().push_back(numbers.final_return);
      all.push_back(numbers.final_return);
      env_steps.push_back(numbers.env_steps);
      wall_s.push_back(numbers.wall_s);
      env_rates.push_back(numbers.env_steps_per_s);
      learner_rates.push_back(numbers.learner_steps_per_s);
      group.returns.back().push_back(member.agent->returns);
      group.seeds.push_back(member.run->seed);
    }
  }
  group.mean = mean(all);
  group.std = strata.size() == 1 ? sample_std(all) : kNone;  // over tasks it would say how they differ
  group.min = *std::ranges::min_element(all);
  group.max = *std::ranges::max_element(all);
  group.iqm = interquartile_mean(all);
  group.mean_interval = bootstrap_interval(finals, mean);
  group.iqm_interval = bootstrap_interval(finals, interquartile_mean);
  group.env_steps = mean(env_steps);
  group.wall_s = mean(wall_s);
  group.env_steps_per_s = mean(env_rates);
  group.learner_steps_per_s = mean(learner_rates);
  for (const std::int64_t at : options.at) {
    std::vector<double> returns;
    for (const auto& stratum : group.returns) {
      for (const auto& run : stratum) {
        returns.push_back(return_at(run, &ReturnPoint::env_steps, static_cast<double>(at)));
      }
    }
    group.at.push_back(mean(returns));  // NaN when one is
  }
  return group;
}

/// thresholds: of each task of the group.
void find_threshold(ComparedGroup& group, const std::vector<double>& thresholds) {
  std::vector<double> env_steps, wall_s;
  for (std::size_t i = 0; i < group.returns.size(); ++i) {
    for (const std::vector<ReturnPoint>& returns : group.returns[i]) {
      const auto first =
          std::ranges::find_if(returns, [&](const ReturnPoint& point) { return point.value >= thresholds[i]; });
      const bool came = first != returns.end();
      group.reached += came ? 1 : 0;
      env_steps.push_back(came ? first->env_steps : kNever);
      wall_s.push_back(came ? first->wall_s : kNever);
    }
  }
  group.threshold = thresholds.size() == 1 ? thresholds.front() : kNone;
  group.threshold_env_steps = median(env_steps);
  group.threshold_wall_s = median(wall_s);
}

/// Of each task. A share of a return below 0 would be above it, so there is none then.
std::map<std::string, double> thresholds_of(const Comparison& comparison) {
  const Threshold& threshold = comparison.options.threshold;
  std::map<std::string, double> best, all;
  for (const ComparedGroup& group : comparison.groups) {
    const auto [known, is_new] = best.emplace(group.task, group.mean);
    if (!is_new) known->second = std::max(known->second, group.mean);
  }
  for (const auto& [task, value] : best) {
    all[task] = !threshold.is_share ? threshold.value : value > 0 ? threshold.value * value : kNone;
  }
  return all;
}

}  // namespace

Result<Threshold> parse_threshold(const std::string& text) {
  Threshold threshold{.value = 0, .is_share = text.ends_with('%')};
  const char* const end = text.data() + text.size() - (threshold.is_share ? 1 : 0);
  const auto parsed = std::from_chars(text.data(), end, threshold.value);
  const bool good = parsed.ec == std::errc() && parsed.ptr == end && std::isfinite(threshold.value);
  if (!good || (threshold.is_share && (threshold.value <= 0 || threshold.value > 100))) {
    return Error{Code::kInvalidArgument, fmt::format("got {}, expected a return, or a share of the best one from above "
                                                     "0 to 100%",
                                                     printable(text))};
  }
  if (threshold.is_share) threshold.value /= 100;
  return threshold;
}

std::string to_string(const Threshold& threshold) {
  return threshold.is_share ? fmt::format("{:g}%", threshold.value * 100) : fmt::format("{}", threshold.value);
}

Result<Comparison> compare(std::span<const RecordedRun> runs, const ComparisonOptions& options) {
  TROUPE_TRY(check(runs, options));
  Comparison comparison{.options = options};
  std::map<std::string, std::vector<Member>> tasks;
  for (const RecordedRun& run : runs) {
    for (const RecordedAgent& agent : run.agents) {
      add_once(comparison.tasks, agent.task);
      tasks[agent.task].push_back({&run, &agent});
    }
    if (!met_its_limits(run.stop_reason)) comparison.unfinished.push_back(run.directory.shown());
    if (!run.version.empty()) add_once(comparison.versions, run.version);
    if (!run.machine.empty()) add_once(comparison.machines, run.machine);
  }
  const std::vector<std::string> differing = differing_keys(tasks);
  comparison.keys = options.by.empty() ? options.also : options.by;
  for (const std::string& key : differing) {
    if (std::ranges::find(comparison.keys, key) != comparison.keys.end()) continue;
    (options.by.empty() ? comparison.keys : comparison.pooled).push_back(key);
  }
  std::map<std::string, std::vector<std::vector<Member>>> by_setting;  // of each: by task
  std::map<std::string, std::vector<std::string>> tasks_of;            // a setting's tasks, in that order
  for (const std::string& task : comparison.tasks) {
    std::vector<std::string> settings;
    std::map<std::string, std::vector<Member>> members;
    for (const Member& member : tasks[task]) {
      const std::string setting = setting_of(member, comparison.keys, !options.by.empty());
      add_once(settings, setting);
      add_once(comparison.settings, setting);
      members[setting].push_back(member);
    }
    for (const std::string& setting : settings) {
      comparison.groups.push_back(sum_up(task, setting, {members[setting]}, options));
      by_setting[setting].push_back(members[setting]);
      tasks_of[setting].push_back(task);
    }
  }
  const std::map<std::string, double> thresholds = thresholds_of(comparison);
  for (ComparedGroup& group : comparison.groups) find_threshold(group, {thresholds.at(group.task)});
  if (comparison.tasks.size() == 1) return comparison;
  for (const std::string& setting : comparison.settings) {
    const std::size_t has = tasks_of[setting].size(), all = comparison.tasks.size();
    comparison.totals.push_back(
        sum_up(has == all ? fmt::format("all {} tasks", all) : fmt::format("{} of {} tasks", has, all), setting,
               by_setting[setting], options));
    std::vector<double> each;
    for (const std::string& task : tasks_of[setting]) each.push_back(thresholds.at(task));
    find_threshold(comparison.totals.back(), each);
    comparison.totals.back().threshold = kNone;
  }
  return comparison;
}

double return_at(std::span<const ReturnPoint> returns, double ReturnPoint::*axis, double x) {
  if (returns.empty()) return kNone;
  const double first = returns.front().*axis, last = returns.back().*axis;
  if (x < first) return first <= x * (1 + kNear) ? returns.front().value : kNone;
  if (x > last) return last >= x * (1 - kNear) ? returns.back().value : kNone;
  const auto after = std::ranges::find_if(returns, [&](const ReturnPoint& point) { return point.*axis > x; });
  const ReturnPoint& before = *(after - 1);  // the newest of several at one place
  if (after == returns.end() || before.*axis == x) return before.value;
  const double share = (x - before.*axis) / ((*after).*axis - before.*axis);
  return before.value + share * (after->value - before.value);
}

MeanCurve mean_curve(const ComparedGroup& group, double ReturnPoint::*axis) {
  double low = -kNever, high = kNever;  // the part that all runs have
  for (const auto& stratum : group.returns) {
    for (const auto& run : stratum) {
      low = std::max(low, run.front().*axis);
      high = std::min(high, run.back().*axis);
    }
  }
  MeanCurve curve;
  if (!(low <= high)) return curve;
  const int points = low == high ? 1 : kCurvePoints;
  for (int i = 0; i < points; ++i) {
    const double x = points == 1 ? low : low + (high - low) * i / (points - 1);
    std::vector<std::vector<double>> strata;
    std::vector<double> all;
    for (const auto& stratum : group.returns) {
      strata.emplace_back();
      for (const auto& run : stratum) strata.back().push_back(return_at(run, axis, x));
      all.insert(all.end(), strata.back().begin(), strata.back().end());
    }
    curve.points.push_back({x, mean(all), interquartile_mean(all), bootstrap_interval(strata, interquartile_mean)});
  }
  return curve;
}

}  // namespace troupe::apps
