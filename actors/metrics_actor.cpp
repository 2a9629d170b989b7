#include <troupe/actors/metrics_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>

namespace troupe::actors {
namespace {

constexpr const char* kSteps = "steps";
/// That the first row waits for env actors which may never come: nodes that are not there.
constexpr int kWaitPeriods = 3;
/// A run's instances have some dozens of names each and share them by role. Each is a column of the file for ever.
constexpr std::size_t kNamesMax = 4096;
constexpr std::size_t kInstancesMax = 65'536;

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Of each env actor the state has two counters, "steps/INDEX" of the newest incarnation and "steps_before/INDEX".
constexpr std::string_view kNewest = "steps/";
constexpr std::string_view kCarried = "steps_before/";

/// The number behind `prefix`, if that is all of the name.
std::optional<std::int64_t> index_behind(std::string_view prefix, std::string_view name) {
  std::int64_t index = 0;
  if (!name.starts_with(prefix)) return {};
  const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), index);
  return error == std::errc() && end == name.data() + name.size() ? std::optional(index) : std::nullopt;
}

}  // namespace

Evaluation summarize(std::span<const double> returns) {
  Evaluation evaluation;
  evaluation.episodes = static_cast<std::int64_t>(returns.size());
  if (returns.empty()) return evaluation;
  evaluation.mean = mean(returns);
  double squares = 0;
  for (double value : returns) squares += (value - evaluation.mean) * (value - evaluation.mean);
  evaluation.std = std::sqrt(squares / static_cast<double>(returns.size()));
  return evaluation;
}

MetricRow evaluation_row(const Evaluation& evaluation) {
  return {evaluation.wall_s,
          evaluation.env_steps,
          evaluation.learner_steps,
          {{"evaluator/return", evaluation.mean},
           {"evaluator/return_std", evaluation.std},
           {"evaluator/episodes", static_cast<double>(evaluation.episodes)}}};
}

std::int64_t total_env_steps(std::span<const messages::Counter> counters, const std::string& actor_role,
                             const std::string& metrics_role) {
  struct Steps {
    std::int64_t before = 0;    // of earlier incarnations
    std::int64_t reported = 0;  // the newest number that the metrics role has heard of
    std::int64_t counted = 0;   // by the instance itself
  };
  std::map<std::int64_t, Steps> actors;
  for (const messages::Counter& counter : counters) {
    const std::string_view name = counter.name;
    if (name == actor_role + "/env_steps") actors[0].counted = counter.value;
    if (name.ends_with("/env_steps")) {
      const auto instance = name.substr(0, name.size() - std::string_view("/env_steps").size());
      if (const auto index = index_behind(actor_role + "-", instance)) actors[*index].counted = counter.value;
    }
    const auto own = [&](std::string_view prefix) {
      return index_behind(fmt::format("{}/{}", metrics_role, prefix), name);
    };
    if (const auto index = own(kNewest)) actors[*index].reported = counter.value;
    if (const auto index = own(kCarried)) actors[*index].before = counter.value;
  }
  std::int64_t total = 0;
  for (const auto& [index, steps] : actors) {
    // Fewer than were reported: it began anew and has not reported since, or it has left the run.
    total += steps.before + steps.counted + (steps.counted < steps.reported ? steps.reported : 0);
  }
  return total;
}

RoleSpec MetricsActor::spec(std::string name, const MetricsActorOptions& options) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.inlets = {{.name = "reports", .type = "Metrics", .always_drained = true}};
  if (!options.actor_role.empty()) {
    spec.inlets.push_back({.name = "episodes", .type = "Episode", .always_drained = true});
  }
  spec.execution = Execution::kThread;  // sinks write files
  spec.make = [options](const RoleIdentity&) -> Result<std::unique_ptr<Role>> {
    return {std::make_unique<MetricsActor>(options)};
  };
  return spec;
}

Result<Progress> MetricsActor::step(RoleContext& context) {
  const Duration now = context.clock().now();
  const double wall_s = options_.wall_s + seconds(now);
  Inlet& reports = context.in("reports");
  while (!reports.empty()) {
    auto report = read_instance_report(reports.take());
    const Status good = report.ok() ? check_names(*report) : Status(report.error());
    good.ok() ? take_report(std::move(report).value()) : context.refuse("reports", good.error());
  }
  while (!options_.actor_role.empty() && !context.in("episodes").empty()) {
    const auto episode = messages::read_episode(context.in("episodes").take());
    episode.ok() ? take_episode(*episode, wall_s) : context.refuse("episodes", episode.error());
  }
  TROUPE_TRY(write_evaluations());
  if (next_row_ < Duration::zero()) next_row_ = now + options_.period;
  if (now >= next_row_) {
    TROUPE_TRY(write_row(wall_s));
    next_row_ = now + options_.period;
  }
  context.wake_after(next_row_ - now);
  return Progress::kIdle;
}

Status MetricsActor::check_names(const InstanceReport& report) {
  std::set<std::string> fresh;
  for (const auto* list : {&report.content.counters, &report.content.gauges, &report.content.sums}) {
    for (const Scalar& scalar : *list) {
      std::string name = report.role + "/" + scalar.name;
      if (!names_.contains(name)) fresh.insert(std::move(name));
    }
  }
  if (names_.size() + fresh.size() > kNamesMax) {
    return Error{Code::kInvalidArgument,
                 fmt::format("report of {}-{}: {} new names beside {}, expected at most {} in a run", report.role,
                             report.index, fresh.size(), names_.size(), kNamesMax)};
  }
  if (instances_.size() >= kInstancesMax && !instances_.contains({report.role, report.index})) {
    return Error{Code::kInvalidArgument, fmt::format("report of {}-{}: {} other instances have reported, expected no "
                                                     "more",
                                                     report.role, report.index, instances_.size())};
  }
  names_.merge(fresh);
  return {};
}

void MetricsActor::take_report(InstanceReport report) {
  Instance& instance = instances_[{report.role, report.index}];
  const bool kept = options_.kept_roles.contains(report.role);
  for (const Scalar& before : instance.newest.counters) {
    if (kept) break;
    for (const Scalar& scalar : report.content.counters) {
      if (scalar.name == before.name && scalar.value < before.value) instance.carried[scalar.name] += before.value;
    }
  }
  instance.newest = std::move(report.content);
  instance.reported = true;
}

void MetricsActor::take_episode(const messages::EpisodeReport& episode, double wall_s) {
  if (episode.role != options_.evaluator_role) {
    episode_returns_.push_back(episode.episode_return);
    return;
  }
  evaluation_.push_back(episode.episode_return);
  if (static_cast<std::int64_t>(evaluation_.size()) < options_.evaluation_episodes) return;
  Evaluation evaluation = summarize(evaluation_);
  evaluation_.clear();
  evaluation.wall_s = wall_s;
  evaluation.learner_steps = episode.parameters_version;
  evaluations_.push_back(evaluation);
}

bool MetricsActor::has_progress() const {
  auto reported = [this](const std::string& role) {
    return std::any_of(instances_.begin(), instances_.end(),
                       [&](const auto& entry) { return entry.first.first == role && entry.second.reported; });
  };
  if (options_.actor_role.empty())
    return std::all_of(options_.replica_roles.begin(), options_.replica_roles.end(), reported);
  return reported(options_.actor_role) && reported(options_.learner_role);
}

std::int64_t MetricsActor::versions_ahead() const {
  const auto value = [](const std::vector<Scalar>& scalars, std::string_view name) -> std::optional<double> {
    for (const Scalar& scalar : scalars) {
      if (scalar.name == name) return scalar.value;
    }
    return {};
  };
  std::int64_t ahead = 0;
  for (const auto& [key, instance] : instances_) {
    if (key.first != options_.learner_role) continue;
    const auto version = value(instance.newest.gauges, "version");
    const auto steps = value(instance.newest.counters, kSteps);
    if (version && steps) ahead = std::max(ahead, static_cast<std::int64_t>(*version - *steps));
  }
  return ahead;
}

Status MetricsActor::write_evaluations() {
  if (!has_progress()) return {};
  for (Evaluation& evaluation : evaluations_) {
    evaluation.env_steps = row_at(evaluation.wall_s).env_steps;
    // A smaller version is one of the learner's earlier incarnation.
    if (const auto ahead = versions_ahead(); evaluation.learner_steps >= ahead) evaluation.learner_steps -= ahead;
    TROUPE_TRY(options_.sink->write(evaluation_row(evaluation)));
  }
  evaluations_.clear();
  return {};
}

std::map<std::string, double> MetricsActor::totals() const {
  std::map<std::string, double> totals;
  for (const auto& [key, instance] : instances_) {
    const bool together = options_.group_roles.contains(key.first);
    for (const Scalar& scalar : instance.newest.counters) {
      double& total = totals[key.first + "/" + scalar.name];
      total = together ? std::max(total, scalar.value) : total + scalar.value;
    }
    for (const auto& [name, value] : instance.carried) totals[key.first + "/" + name] += value;
  }
  return totals;
}

MetricRow MetricsActor::row_at(double wall_s) const {
  const auto sums = totals();
  auto steps = [&](const std::string& role) {
    const auto found = sums.find(role + "/" + kSteps);
    return found == sums.end() ? 0 : static_cast<std::int64_t>(found->second);
  };
  MetricRow row{wall_s, steps(options_.actor_role), steps(options_.learner_role), {}};
  if (options_.actor_role.empty()) {
    for (const std::string& role : options_.replica_roles) row.learner_steps += steps(role);
  }
  return row;
}

Status MetricsActor::write_row(double wall_s) {
  if (!has_progress()) return {};
  const auto acts = [this](const auto& entry) {
    return entry.first.first == options_.actor_role && entry.second.reported;
  };
  const bool all_act = options_.actor_role.empty() || std::ranges::count_if(instances_, acts) >= options_.actors;
  if (goes_on_ && previous_totals_.empty() && !all_act && ++waited_periods_ <= kWaitPeriods) return {};
  std::map<std::string, double> sums = totals();
  MetricRow row = row_at(wall_s);
  const double elapsed = wall_s - previous_wall_s_;
  for (const auto& [name, value] : sums) {
    const auto before = previous_totals_.find(name);
    if (before == previous_totals_.end() || elapsed <= 0) continue;  // no rate without a row before
    // A role that went back to a checkpoint has counted less than before.
    row.scalars.push_back({name + "_per_s", std::max(value - before->second, 0.0) / elapsed});
  }
  std::map<std::string, std::vector<double>> gauges;
  std::map<std::string, double> sums_of_now;
  for (const auto& [key, instance] : instances_) {
    for (const Scalar& scalar : instance.newest.gauges) gauges[key.first + "/" + scalar.name].push_back(scalar.value);
    for (const Scalar& scalar : instance.newest.sums) sums_of_now[key.first + "/" + scalar.name] += scalar.value;
  }
  for (const auto& [name, values] : gauges) row.scalars.push_back({name, mean(values)});
  for (const auto& [name, value] : sums_of_now) row.scalars.push_back({name, value});
  if (!episode_returns_.empty()) {
    row.scalars.push_back({options_.actor_role + "/episode_return", mean(episode_returns_)});
    episode_returns_.clear();
  }
  previous_totals_ = std::move(sums);
  previous_wall_s_ = wall_s;
  return options_.sink->write(row);
}

Result<RoleState> MetricsActor::save() const {
  RoleState state;
  for (const auto& [key, instance] : instances_) {
    if (key.first != options_.actor_role) continue;
    for (const Scalar& scalar : instance.newest.counters) {
      if (scalar.name != kSteps) continue;
      const auto carried = instance.carried.find(kSteps);
      const double before = carried == instance.carried.end() ? 0 : carried->second;
      state.counters.push_back({fmt::format("{}{}", kNewest, key.second), static_cast<std::int64_t>(scalar.value)});
      state.counters.push_back({fmt::format("{}{}", kCarried, key.second), static_cast<std::int64_t>(before)});
    }
  }
  return state;
}

Status MetricsActor::restore(const RoleState& state) {
  for (const messages::Counter& counter : state.counters) {
    const auto value = static_cast<double>(counter.value);
    if (const auto index = index_behind(kNewest, counter.name)) {
      instances_[{options_.actor_role, *index}].newest.counters = {{kSteps, value}};
    } else if (const auto index = index_behind(kCarried, counter.name)) {
      instances_[{options_.actor_role, *index}].carried[kSteps] = value;
    }
  }
  goes_on_ = !instances_.empty();
  return {};
}

}  // namespace troupe::actors
