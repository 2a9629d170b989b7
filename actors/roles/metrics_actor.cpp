#include <troupe/actors/roles/metrics_actor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>

#include <troupe/actors/roles/evaluation.hpp>
#include <troupe/actors/roles/step_budget.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/worth_a_line.hpp>

namespace troupe::actors {
namespace {

constexpr const char* kSteps = "steps";
/// That the first row waits for env actors which may never come: nodes that are not there.
constexpr int kWaitPeriods = 3;
/// A run's instances have some dozens of names each and share them by role. Each is a column of the file for ever.
constexpr std::size_t kNamesMax = 4096;
constexpr std::size_t kInstancesMax = 65'536;

/// Names of an evaluation's values: columns of a file, like those above.
constexpr std::size_t kValueNamesMax = 1024;

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// "actor/frames/trajectories" in its parts: what a role's shell says of a port. Empty for what a role itself says.
struct OfPort {
  std::string role, kind, port;
};
std::optional<OfPort> of_port(const std::string& name) {
  const auto slash = name.find('/');
  for (const std::string* const kind : {&kPortFrames, &kPortBytes, &kPortWaitedS, &kPortRefused, &kPortDepth}) {
    if (slash == name.npos || name.compare(slash + 1, kind->size(), *kind) != 0) continue;
    return OfPort{name.substr(0, slash), *kind, name.substr(slash + 1 + kind->size())};
  }
  return {};
}

PortTraffic& traffic_of(MetricRow& row, const OfPort& at) {
  const auto found = std::ranges::find_if(
      row.ports, [&](const PortTraffic& traffic) { return traffic.role == at.role && traffic.port == at.port; });
  if (found != row.ports.end()) return *found;
  return row.ports.emplace_back(PortTraffic{.role = at.role, .port = at.port, .depth = {}});
}

}  // namespace

RoleSpec MetricsActor::spec(std::string name, const MetricsActorOptions& options) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.inlets = {{.name = "reports", .type = "Metrics", .always_drained = true}};
  for (const MeasuredAgent& agent : options.agents) {
    spec.inlets.push_back({.name = agent.episodes_port, .type = "Episode", .always_drained = true});
    spec.inlets.push_back(StepBudget::port());
    spec.inlets.back().name = agent.steps_port;
  }
  if (!options.evaluators.empty()) spec.inlets.push_back({kEvaluationsPort, "Evaluation"});
  spec.execution = Execution::kThread;  // sinks write files
  spec.make = [options](const RoleIdentity&) -> Result<std::unique_ptr<Role>> {
    return {std::make_unique<MetricsActor>(options)};
  };
  return spec;
}

MetricsActor::MetricsActor(MetricsActorOptions options)
    : options_(std::move(options)), newest_wall_s_(options_.wall_s) {
  for (const MeasuredAgent& agent : options_.agents)
    agents_.push_back({agent, StepAccount(agent.max_env_steps, agent.actors)});
}

Result<Progress> MetricsActor::step(RoleContext& context) {
  const Duration now = context.clock().now();
  const double wall_s = options_.wall_s + seconds(now);
  for (Measured& of : agents_) TROUPE_TRY(grant_steps(context, of));
  Inlet& reports = context.in("reports");
  while (!reports.empty()) {
    auto report = read_instance_report(reports.take());
    const Status good = report.ok() ? check_names(*report) : Status(report.error());
    good.ok() ? take_report(std::move(report).value()) : context.refuse("reports", good.error());
  }
  for (Measured& of : agents_) {
    for (Inlet& episodes = context.in(of.agent.episodes_port); !episodes.empty();) {
      const auto episode = messages::read_episode(episodes.take());
      episode.ok() ? of.returns.push_back(episode->episode_return)
                   : context.refuse(of.agent.episodes_port, episode.error());
    }
  }
  TROUPE_TRY(record_evaluations(context, wall_s));
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

Status MetricsActor::grant_steps(RoleContext& context, Measured& of) {
  for (Server& server = context.server(of.agent.steps_port); !server.empty();) {
    const auto [frame, answer] = server.take();
    const auto request = messages::read_steps_request(frame);
    const auto alive = [&](std::int64_t index) { return server.alive(static_cast<std::size_t>(index)); };
    const auto grant = request.ok() ? of.account.grant(*request, alive, context.clock().now()) : request.error();
    if (!grant.ok()) {
      // Whoever sends this again and again must not take the run's numbers down with it.
      if (log::worth_a_line(++bad_requests_)) {
        log::warn("TRP-S706 {}: dropped ({} so far)", grant.error().message, bad_requests_);
      }
      continue;
    }
    TROUPE_ASSIGN(Frame told, messages::make_steps_grant(context.pool(), *grant));
    answer(std::move(told));
  }
  return {};
}

void MetricsActor::take_report(InstanceReport report) {
  Instance& instance = instances_[{report.role, report.index}];
  if (Measured* const of = agent_of(report.role)) {
    // Its env steps are in the account, where those of its earlier incarnations are too.
    std::erase_if(report.content.counters, [&](const Scalar& scalar) {
      if (scalar.name == kSteps) of->account.heard(report.index, static_cast<std::int64_t>(scalar.value));
      return scalar.name == kSteps;
    });
  }
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

MetricsActor::Measured* MetricsActor::agent_of(const std::string& actor_role) {
  const auto found =
      std::ranges::find_if(agents_, [&](const Measured& of) { return of.agent.actor_role == actor_role; });
  return found == agents_.end() ? nullptr : &*found;
}

bool MetricsActor::has_progress() const {
  auto reported = [this](const std::string& role) {
    return std::any_of(instances_.begin(), instances_.end(),
                       [&](const auto& entry) { return entry.first.first == role && entry.second.reported; });
  };
  if (agents_.empty()) return std::ranges::all_of(options_.replica_roles, reported);
  return std::ranges::all_of(
      agents_, [&](const Measured& of) { return reported(of.agent.actor_role) && reported(of.agent.learner_role); });
}

std::int64_t MetricsActor::versions_ahead(const std::string& role) const {
  std::int64_t ahead = 0;
  for (const auto& [key, instance] : instances_) {
    if (key.first != role) continue;
    const auto version = find_scalar(instance.newest.gauges, "version");
    const auto steps = find_scalar(instance.newest.counters, kSteps);
    if (version && steps) ahead = std::max(ahead, static_cast<std::int64_t>(*version - *steps));
  }
  return ahead;
}

Status MetricsActor::record_evaluations(RoleContext& context, double wall_s) {
  if (options_.evaluators.empty()) return {};
  const bool is_new_run = options_.wall_s == 0 && !goes_on_;
  if (!is_new_run && !agents_.empty() && !has_progress()) return {};
  for (Inlet& inlet = context.in(kEvaluationsPort); !inlet.empty(); inlet.release_held(1)) {
    auto report = messages::read_evaluation(inlet.take_held());
    const Status good = report.ok() ? check(*report) : Status(report.error());
    if (good.ok()) {
      TROUPE_TRY(record(std::move(report).value(), wall_s));
    } else {
      context.refuse(kEvaluationsPort, good.error());
    }
  }
  return {};
}

Status MetricsActor::check(const messages::EvaluationReport& report) {
  if (!options_.evaluators.contains(report.source)) {
    return Error{Code::kInvalidArgument, fmt::format("evaluation: no role named \"{}\" evaluates", report.source)};
  }
  std::set<std::string> fresh;
  for (const Scalar& value : report.values) {
    if (!value_names_.contains(value.name)) fresh.insert(value.name);
  }
  if (value_names_.size() + fresh.size() > kValueNamesMax) {
    return Error{Code::kInvalidArgument,
                 fmt::format("evaluation of {}: {} new names beside {}, expected at most {} in a run", report.source,
                             fresh.size(), value_names_.size(), kValueNamesMax)};
  }
  value_names_.merge(fresh);
  return {};
}

Status MetricsActor::record(messages::EvaluationReport report, double wall_s) {
  Evaluation evaluation{
      .wall_s = wall_s, .source = std::move(report.source), .step = report.version, .values = std::move(report.values)};
  const std::string& trainer = options_.evaluators.at(evaluation.source);
  for (const Measured& of : agents_) {
    if (of.agent.learner_role == trainer) evaluation.env_steps = of.account.taken();
  }
  // A smaller version is one of the trainer's earlier incarnation.
  const std::int64_t ahead = versions_ahead(trainer);
  if (evaluation.step >= ahead) evaluation.step -= ahead;
  newest_wall_s_ = std::max(newest_wall_s_, wall_s);
  return options_.sink->record(evaluation);
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
  for (const Measured& of : agents_) {
    totals[fmt::format("{}/{}", of.agent.actor_role, kSteps)] = static_cast<double>(of.account.taken());
  }
  return totals;
}

std::int64_t MetricsActor::steps(const std::map<std::string, double>& totals, const std::string& role) const {
  const auto found = totals.find(fmt::format("{}/{}", role, kSteps));
  return found == totals.end() ? 0 : static_cast<std::int64_t>(found->second);
}

MetricRow MetricsActor::row_at(double wall_s) const {
  const auto sums = totals();
  MetricRow row{.wall_s = wall_s};
  for (const Measured& of : agents_) {
    const std::int64_t env_steps = steps(sums, of.agent.actor_role), learnt = steps(sums, of.agent.learner_role);
    row.env_steps += env_steps;
    row.learner_steps += learnt;
    if (of.agent.name.empty()) continue;  // it is alone
    row.scalars.push_back({of.agent.name + "/env_steps", static_cast<double>(env_steps)});
    row.scalars.push_back({of.agent.name + "/learner_steps", static_cast<double>(learnt)});
  }
  if (agents_.empty()) {
    for (const std::string& role : options_.replica_roles) row.learner_steps += steps(sums, role);
  }
  return row;
}

Status MetricsActor::write_row(double wall_s) {
  if (!has_progress()) return {};
  const bool all_act = std::ranges::all_of(agents_, [this](const Measured& of) {
    return std::ranges::count_if(instances_, [&](const auto& entry) {
             return entry.first.first == of.agent.actor_role && entry.second.reported;
           }) >= of.agent.actors;
  });
  if (goes_on_ && previous_totals_.empty() && !all_act && ++waited_periods_ <= kWaitPeriods) return {};
  MetricRow row = row_at(wall_s);
  std::map<std::string, double> sums = totals();
  add_rates(sums, row);
  add_values_of_now(row);
  for (Measured& of : agents_) {
    if (of.returns.empty()) continue;
    row.scalars.push_back({of.agent.actor_role + "/episode_return", mean(of.returns)});
    of.returns.clear();
  }
  previous_totals_ = std::move(sums);
  previous_wall_s_ = wall_s;
  newest_wall_s_ = std::max(newest_wall_s_, wall_s);
  return options_.sink->write(row);
}

void MetricsActor::add_rates(const std::map<std::string, double>& totals, MetricRow& row) const {
  const double elapsed = row.wall_s - previous_wall_s_;
  for (const auto& [name, value] : totals) {
    const auto before = previous_totals_.find(name);
    if (before == previous_totals_.end() || elapsed <= 0) continue;  // no rate without a row before
    // A role that went back to a checkpoint has counted less than before.
    const double rate = std::max(value - before->second, 0.0) / elapsed;
    const auto port = of_port(name);
    if (!port) {
      row.scalars.push_back({name + "_per_s", rate});
      continue;
    }
    PortTraffic& traffic = traffic_of(row, *port);
    (port->kind == kPortFrames    ? traffic.frames_per_s
     : port->kind == kPortBytes   ? traffic.bytes_per_s
     : port->kind == kPortRefused ? traffic.refused_per_s
                                  : traffic.waiting) = rate;
  }
}

void MetricsActor::add_values_of_now(MetricRow& row) const {
  std::map<std::string, std::vector<double>> gauges;
  std::map<std::string, double> sums_of_now;
  for (const auto& [key, instance] : instances_) {
    for (const Scalar& scalar : instance.newest.gauges) gauges[key.first + "/" + scalar.name].push_back(scalar.value);
    for (const Scalar& scalar : instance.newest.sums) sums_of_now[key.first + "/" + scalar.name] += scalar.value;
  }
  for (const auto& [name, values] : gauges) {
    const auto port = of_port(name);
    if (!port) {
      row.scalars.push_back({name, mean(values)});
    } else if (previous_totals_.contains(fmt::format("{}/{}{}", port->role, kPortFrames, port->port))) {
      traffic_of(row, *port).depth = mean(values);
    }
  }
  for (const auto& [name, value] : sums_of_now) row.scalars.push_back({name, value});
}

Result<RoleState> MetricsActor::save() const {
  RoleState state;
  for (const Measured& of : agents_) of.account.save(of.agent.name, state.counters);
  const MetricRow known = row_at(newest_wall_s_);
  state.counters.push_back({kKnownLearnerSteps, known.learner_steps});
  state.counters.push_back({kNewestRowMs, static_cast<std::int64_t>(known.wall_s * 1000)});
  const auto sums = totals();
  for (const auto& [evaluator, trained] : options_.evaluators)
    state.counters.push_back({kKnownStepsOf + trained, steps(sums, trained)});
  return state;
}

Status MetricsActor::restore(const RoleState& state) {
  for (Measured& of : agents_) {
    of.account.restore(of.agent.name, state.counters);
    goes_on_ = goes_on_ || of.account.taken() > 0;
  }
  return {};
}

}  // namespace troupe::actors
