#include <troupe/run/recorded_run.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/json_nesting.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/run/csv_metrics.hpp>
#include <troupe/run/evaluations.hpp>
#include <troupe/run/train.hpp>
#include <troupe/run/train_schema.hpp>

namespace troupe::apps {
namespace {

constexpr std::uint64_t kSummaryBytesMax = 16 << 20;
constexpr std::size_t kSummaryLevels = 16;

/// Of the agent called `name`, in the order of the file, which is that of time.
std::vector<ReturnPoint> returns_of(const std::string& name, const std::vector<Evaluation>& evaluations) {
  std::vector<ReturnPoint> returns;
  for (const Evaluation& evaluation : evaluations) {
    const auto value = find_scalar(evaluation.values, kReturn);
    if (!value || !std::isfinite(*value) || evaluated(evaluation.source) != name) continue;
    returns.push_back({evaluation.wall_s, static_cast<double>(evaluation.env_steps), *value});
  }
  return returns;
}

}  // namespace

bool met_its_limits(const std::string& stop_reason) {
  return !stop_reason.empty() && stop_reason != actors::to_string(actors::StopReason::kRequested);
}

Result<RecordedEnd> read_recorded_end(const RunDirectory& run) {
  std::error_code ignored;
  if (!std::filesystem::exists(run.summary(), ignored)) return RecordedEnd{};
  TROUPE_ASSIGN(const std::vector<std::byte> bytes, read_file(run.summary().string(), kSummaryBytesMax));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!json_nests_beyond(text, kSummaryLevels)) {
    const auto json = nlohmann::json::parse(text, nullptr, false);
    const auto string = [&](const char* name) {
      return json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : std::string();
    };
    if (json.is_object()) return RecordedEnd{string("stop_reason"), string("version"), string("machine")};
  }
  return Error{Code::kCorrupt, fmt::format("{}: not the summary of a run", run.summary().string())};
}

Result<RecordedRun> read_recorded_run(const std::filesystem::path& path, const Registry& registry) {
  TROUPE_ASSIGN(RunDirectory directory, open_run_directory(path));
  TROUPE_ASSIGN(Config config, load_config(directory.config(), {}, train_schema(registry)));
  const std::string shown = directory.shown();
  std::vector<std::pair<std::string, std::string>> agents;  // name, key of its environment
  if (!config.get_string("env").empty()) agents.emplace_back("", "env");
  for (const std::string& name : config.names("agents")) agents.emplace_back(name, fmt::format("agents.{}.env", name));
  if (agents.empty()) {
    return Error{Code::kNotFound, fmt::format("{}: the run has no agent, whose returns could be compared", shown)};
  }
  std::error_code ignored;
  std::vector<Evaluation> evaluations;
  std::vector<MetricRow> rows;
  if (std::filesystem::exists(directory.evaluations(), ignored)) {
    TROUPE_ASSIGN(evaluations, read_evaluations_csv(directory.evaluations()));
  }
  if (std::filesystem::exists(directory.metrics(), ignored)) {
    TROUPE_ASSIGN(rows, read_metrics_csv(directory.metrics()));
  }
  TROUPE_ASSIGN(RecordedEnd end, read_recorded_end(directory));
  RecordedRun run{.directory = std::move(directory),
                  .config = std::move(config),
                  .seed = 0,
                  .version = std::move(end.version),
                  .machine = std::move(end.machine),
                  .stop_reason = std::move(end.stop_reason),
                  .agents = {}};
  run.seed = run.config.get_int("seed");
  for (const MetricRow& row : rows) run.wall_s = std::max(run.wall_s, row.wall_s);
  for (const auto& [name, key] : agents) {
    RecordedAgent agent{.task = run.config.get_string(key), .env_key = key, .returns = returns_of(name, evaluations)};
    if (agent.returns.empty()) continue;
    if (!name.empty()) agent.task = fmt::format("{}: {}", name, agent.task);
    // Clang 14 captures no structured binding by itself.
    const auto newest = [&, &name = name](const char* column, std::int64_t MetricRow::*of_run) {
      if (rows.empty()) return 0.0;
      if (name.empty()) return static_cast<double>(rows.back().*of_run);
      return find_scalar(rows.back().scalars, fmt::format("{}/{}", name, column)).value_or(0);
    };
    agent.env_steps = newest("env_steps", &MetricRow::env_steps);
    agent.learner_steps = newest("learner_steps", &MetricRow::learner_steps);
    run.agents.push_back(std::move(agent));
  }
  if (run.agents.empty()) {
    return Error{Code::kNotFound, fmt::format("{}: the run has no evaluation yet, and so nothing to compare", shown)};
  }
  return run;
}

}  // namespace troupe::apps
