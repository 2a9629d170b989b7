#include <troupe/actors/metrics_actor.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace troupe::actors {
namespace {

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
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

RoleSpec MetricsActor::spec(std::string name, const MetricsActorOptions& options) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.inlets = {{.name = "reports", .type = "Metrics", .always_drained = true},
                 {.name = "episodes", .type = "Episode", .always_drained = true}};
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
    TROUPE_ASSIGN(InstanceReport report, read_instance_report(reports.take()));
    take_report(std::move(report));
  }
  Inlet& episodes = context.in("episodes");
  while (!episodes.empty()) {
    TROUPE_ASSIGN(const auto episode, messages::read_episode(episodes.take()));
    take_episode(episode, wall_s);
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

void MetricsActor::take_report(InstanceReport report) {
  Instance& instance = instances_[{report.role, report.index}];
  for (const Scalar& before : instance.newest.counters) {
    for (const Scalar& scalar : report.content.counters) {
      if (scalar.name == before.name && scalar.value < before.value) instance.carried[scalar.name] += before.value;
    }
  }
  instance.newest = std::move(report.content);
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
                       [&](const auto& entry) { return entry.first.first == role; });
  };
  return reported(options_.actor_role) && reported(options_.learner_role);
}

Status MetricsActor::write_evaluations() {
  if (!has_progress()) return {};
  for (Evaluation& evaluation : evaluations_) {
    evaluation.env_steps = row_at(evaluation.wall_s).env_steps;
    TROUPE_TRY(options_.sink->write(evaluation_row(evaluation)));
  }
  evaluations_.clear();
  return {};
}

std::map<std::string, double> MetricsActor::totals() const {
  std::map<std::string, double> totals;
  for (const auto& [key, instance] : instances_) {
    for (const Scalar& scalar : instance.newest.counters) totals[key.first + "/" + scalar.name] += scalar.value;
    for (const auto& [name, value] : instance.carried) totals[key.first + "/" + name] += value;
  }
  return totals;
}

MetricRow MetricsActor::row_at(double wall_s) const {
  const auto sums = totals();
  auto steps = [&](const std::string& role) {
    const auto found = sums.find(role + "/steps");
    return found == sums.end() ? 0 : static_cast<std::int64_t>(found->second);
  };
  return {wall_s, steps(options_.actor_role), steps(options_.learner_role), {}};
}

Status MetricsActor::write_row(double wall_s) {
  if (!has_progress()) return {};
  std::map<std::string, double> sums = totals();
  MetricRow row = row_at(wall_s);
  const double elapsed = wall_s - previous_wall_s_;
  for (const auto& [name, value] : sums) {
    const auto before = previous_totals_.find(name);
    if (before == previous_totals_.end() || elapsed <= 0) continue;  // no rate without a row before
    row.scalars.push_back({name + "_per_s", (value - before->second) / elapsed});
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

}  // namespace troupe::actors
