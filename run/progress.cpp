#include <troupe/run/progress.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/run/evaluations.hpp>
#include <troupe/run/units.hpp>

namespace troupe::apps {
namespace {

constexpr double kUnknown = -1;

/// What the names of an agent's roles, or of its own numbers, begin with.
std::string prefix_of(const AgentLimits& agent, const char* between) {
  return agent.name.empty() ? "" : agent.name + between;
}

}  // namespace

RunLimits limits_of(const actors::TrainOptions& options) {
  RunLimits limits = {.max_minutes = options.max_minutes, .agents = {}};
  for (const actors::AgentOptions& agent : options.agents) {
    limits.agents.push_back({agent.name, agent.max_env_steps, agent.max_learner_steps});
  }
  for (const actors::ReplicaRun& group : options.replicas)
    limits.replicas[group.group.name] = {
        .steps = group.group.steps, .batch_size = group.group.batch_size, .replicas = group.group.count};
  return limits;
}

void ProgressState::update(const MetricRow& row) {
  for (const Scalar& scalar : row.scalars) values_[scalar.name] = scalar.value;
  last_ = {row.wall_s, row.env_steps, row.learner_steps, {}};
}

double ProgressState::value(const std::string& name, double otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second;
}

double ProgressState::env_steps(const AgentLimits& agent) const {
  return agent.name.empty() ? static_cast<double>(last_.env_steps) : value(prefix_of(agent, "/") + "env_steps", 0);
}

double ProgressState::learner_steps(const AgentLimits& agent) const {
  return agent.name.empty() ? static_cast<double>(last_.learner_steps)
                            : value(prefix_of(agent, "/") + "learner_steps", 0);
}

double ProgressState::left_s(const AgentLimits& agent) const {
  double left = std::numeric_limits<double>::infinity();
  const auto limit = [&](std::int64_t most, double steps, const char* rate_of) {
    const double rate = value(prefix_of(agent, "-") + rate_of, 0);
    if (most > 0 && rate > 0) left = std::min(left, std::max(static_cast<double>(most) - steps, 0.0) / rate);
  };
  limit(agent.max_env_steps, env_steps(agent), "actor/steps_per_s");
  limit(agent.max_learner_steps, learner_steps(agent), "learner/steps_per_s");
  return left;
}

double ProgressState::left_s() const {
  // Whatever the run trains must end, the groups as well as the agents.
  double left = limits_.agents.empty() ? std::numeric_limits<double>::infinity() : 0;
  for (const AgentLimits& agent : limits_.agents) left = std::max(left, left_s(agent));
  double groups = 0;
  for (const auto& [name, group] : limits_.replicas) {
    const double rate = value(name + "/steps_per_s", 0);
    const double still = std::max(static_cast<double>(group.steps) - value(name + "/step", 0), 0.0);
    if (still > 0) groups = std::max(groups, rate > 0 ? still / rate : std::numeric_limits<double>::infinity());
  }
  if (!limits_.replicas.empty()) left = limits_.agents.empty() ? groups : std::max(left, groups);
  if (limits_.max_minutes > 0) left = std::min(left, std::max(limits_.max_minutes * 60 - last_.wall_s, 0.0));
  return left;
}

std::optional<double> ProgressState::share_done() const {
  double share = 1;
  bool limited = false;
  // Each goes on to the first of its own limits, and the run until all are done.
  const auto part = [&](std::initializer_list<std::pair<double, std::int64_t>> limits) {
    double done = 0;
    for (const auto& [steps, most] : limits) {
      if (most > 0) done = std::max(done, std::min(steps / static_cast<double>(most), 1.0)), limited = true;
    }
    share = std::min(share, done);
  };
  for (const AgentLimits& agent : limits_.agents) {
    part({{env_steps(agent), agent.max_env_steps}, {learner_steps(agent), agent.max_learner_steps}});
  }
  for (const auto& [name, group] : limits_.replicas) part({{value(name + "/step", 0), group.steps}});
  const double time = limits_.max_minutes > 0 ? std::min(last_.wall_s / (limits_.max_minutes * 60), 1.0) : 0;
  if (time > 0) share = limited ? std::max(share, time) : time;
  return limited || time > 0 ? std::optional(share) : std::nullopt;
}

std::optional<double> ProgressState::mean_return(const AgentLimits& agent) const {
  const auto found = evaluated_.find(prefix_of(agent, "-") + "evaluator");
  return found == evaluated_.end() ? std::nullopt : find_scalar(found->second, kReturn);
}

std::optional<double> ProgressState::mean_return() const {
  for (const AgentLimits& agent : limits_.agents) {
    if (const auto mean = mean_return(agent)) return mean;
  }
  return std::nullopt;
}

std::string ProgressState::replica_part(const std::string& name, const GroupLimits& limits) const {
  std::string part = fmt::format("{} {}/{}", name, format_count(value(name + "/step", 0)),
                                 format_count(static_cast<double>(limits.steps)));
  if (const double rate = value(name + "/steps_per_s", kUnknown); rate != kUnknown) {
    part += fmt::format(" ({}/s", format_count(rate));
    if (limits.batch_size > 0)
      part += fmt::format(", {} images/s", format_count(rate * static_cast<double>(limits.batch_size)));
    if (const double input = value(name + "/input_images_per_second", kUnknown); input != kUnknown)
      part += fmt::format(", input {}", format_count(input * static_cast<double>(limits.replicas)));
    part += ')';
  }
  const std::string prefix = name + "/";
  for (auto at = values_.lower_bound(prefix); at != values_.end() && at->first.starts_with(prefix); ++at) {
    if (at->first.ends_with("loss"))
      part += fmt::format(" {} {:.3g}", std::string_view(at->first).substr(prefix.size()), at->second);
  }
  if (const auto found = evaluated_.find(name + "-evaluator"); found != evaluated_.end()) {
    for (const Scalar& value : found->second) {
      if (!value.name.starts_with("judge_")) part += fmt::format(" {} {:.3g}", value.name, value.value);
    }
  }
  return part;
}

std::string ProgressState::line(std::size_t columns_max) const {
  std::vector<std::string> parts;  // most wanted first
  const auto counted = [&](std::string_view name, double count, double rate) {
    std::string part = fmt::format("{} {}", name, format_count(count));
    if (rate != kUnknown) part += fmt::format(" ({}/s)", format_count(rate));
    parts.push_back(std::move(part));
  };
  const bool limited = std::isfinite(left_s());
  parts.push_back(format_duration(last_.wall_s) +
                  (limited ? fmt::format(" ({} left)", format_duration(left_s())) : ""));
  for (const AgentLimits& agent : limits_.agents) {
    const std::string of = prefix_of(agent, " "), role = prefix_of(agent, "-");
    if (const auto mean = mean_return(agent)) parts.push_back(fmt::format("{}return {:.1f}", of, *mean));
    counted(of + "env", env_steps(agent), value(role + "actor/steps_per_s", kUnknown));
    counted(of + "learner", learner_steps(agent), value(role + "learner/steps_per_s", kUnknown));
  }
  for (const auto& [name, group] : limits_.replicas) parts.push_back(replica_part(name, group));
  for (const AgentLimits& agent : limits_.agents) {
    const std::string of = prefix_of(agent, " "), role = prefix_of(agent, "-");
    if (const double items = value(role + "replay/items", kUnknown); items != kUnknown) {
      parts.push_back(fmt::format("{}replay {}", of, format_count(items)));
    }
    if (const double staleness = value(role + "parameters/staleness_mean", kUnknown); staleness != kUnknown) {
      parts.push_back(fmt::format("{}staleness {:.1f}", of, staleness));
    }
  }
  std::string text = parts[0];
  for (std::size_t i = 1; i < parts.size() && text.size() + 2 + parts[i].size() <= columns_max; ++i) {
    text += fmt::format("  {}", parts[i]);
  }
  return text;
}

Status ProgressSink::write(const MetricRow& row) {
  state_.update(row);
  if (!std::exchange(began_, true) || line_.is_due()) draw();
  return {};
}

Status ProgressSink::record(const Evaluation& evaluation) {
  state_.update(evaluation);
  if (began_) draw();
  return {};
}

void ProgressSink::draw() {
  line_.draw([this](std::size_t columns_max) { return state_.line(columns_max); });
}

}  // namespace troupe::apps
