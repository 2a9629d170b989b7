#include <troupe/run/summary.hpp>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <vector>

#include <troupe/run/evaluations.hpp>
#include <troupe/run/units.hpp>

namespace troupe::apps {
namespace {

/// JSON has no NaN and no infinity.
std::string json_number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

struct Returns {
  double mean = 0, std = 0, episodes = 0;
};
Returns returns_of(const Evaluation& evaluation) {
  const auto value = [&](std::string_view name) { return find_scalar(evaluation.values, name).value_or(std::nan("")); };
  return {value(kReturn), value(kReturnStd), value(kEpisodes)};
}

std::string json_object(std::span<const Scalar> scalars) {
  std::vector<std::string> fields;
  for (const Scalar& scalar : scalars) {
    fields.push_back(fmt::format("{}: {}", json_string(scalar.name), json_number(scalar.value)));
  }
  return fmt::format("{{{}}}", fmt::join(fields, ", "));
}

std::string json_replicas(std::span<const actors::ReplicaSummary> replicas) {
  std::vector<std::string> groups;
  for (const actors::ReplicaSummary& group : replicas) {
    groups.push_back(fmt::format("{}: {{\"steps\": {}, \"evaluated_step\": {}, \"metrics\": {}, \"evaluation\": {}}}",
                                 json_string(group.name), group.steps, group.evaluated_step, json_object(group.metrics),
                                 json_object(group.evaluation)));
  }
  return fmt::format("{{{}}}", fmt::join(groups, ", "));
}

std::string json_return(const actors::AgentSummary& agent) {
  if (!agent.final_evaluation) return "null";
  const Returns returns = returns_of(*agent.final_evaluation);
  return fmt::format("{{\"mean\": {}, \"std\": {}, \"episodes\": {}}}", json_number(returns.mean),
                     json_number(returns.std), json_number(returns.episodes));
}

std::string json_reached(std::span<const Evaluation> evaluations, const actors::AgentSummary& agent) {
  std::vector<std::string> reached;
  for (const auto& [threshold, wall_s] : first_reached(evaluations, agent.name, kReturnThresholds)) {
    reached.push_back(fmt::format("\"{}\": {}", threshold, json_number(wall_s)));
  }
  return fmt::format("{{{}}}", fmt::join(reached, ", "));
}

/// Those with a name.
std::string json_agents(const RunSummary& summary) {
  std::vector<std::string> agents;
  for (const actors::AgentSummary& agent : summary.train.agents) {
    if (agent.name.empty()) continue;
    agents.push_back(fmt::format(
        "{}: {{\"env\": {}, \"env_steps\": {}, \"learner_steps\": {}, \"final_return\": {}, \"first_reached\": {}}}",
        json_string(agent.name), json_string(agent.env), agent.env_steps, agent.learner_steps, json_return(agent),
        json_reached(summary.evaluations, agent)));
  }
  return fmt::format("{{{}}}", fmt::join(agents, ", "));
}

}  // namespace

std::string summary_json(const RunSummary& summary) {
  const actors::TrainSummary& train = summary.train;
  const actors::AgentSummary first = train.agents.empty() ? actors::AgentSummary{} : train.agents.front();
  const std::vector<std::string> fields = {
      fmt::format("\"env\": {}", json_string(first.env)),
      fmt::format("\"seed\": {}", summary.seed),
      fmt::format("\"version\": {}", json_string(summary.version)),
      fmt::format("\"machine\": {}", json_string(summary.machine)),
      fmt::format("\"config_hash\": {}", json_string(summary.config_hash)),
      fmt::format("\"stop_reason\": {}", json_string(actors::to_string(train.stop_reason))),
      fmt::format("\"wall_s\": {}", json_number(train.wall_s)),
      fmt::format("\"env_steps\": {}", train.env_steps),
      fmt::format("\"learner_steps\": {}", train.learner_steps),
      fmt::format("\"final_return\": {}", json_return(first)),
      fmt::format("\"first_reached\": {}", json_reached(summary.evaluations, first)),
      fmt::format("\"agents\": {}", json_agents(summary)),
      fmt::format("\"replicas\": {}", json_replicas(train.replicas)),
  };
  return fmt::format("{{\n  {}\n}}\n", fmt::join(fields, ",\n  "));
}

std::string summary_table(const RunSummary& summary) {
  const actors::TrainSummary& train = summary.train;
  std::string table;
  const auto line = [&](std::string_view name, const std::string& value) {
    table += fmt::format("  {:<14} {}\n", name, value);
  };
  line("ended by", std::string(actors::to_string(train.stop_reason)));
  line("wall time", format_duration(train.wall_s));
  for (const actors::ReplicaSummary& group : train.replicas) {
    std::string text = fmt::format("{} steps", format_count(static_cast<double>(group.steps)));
    for (const Scalar& scalar : group.evaluation.empty() ? group.metrics : group.evaluation) {
      text += fmt::format(", {} {:.4g}", scalar.name, scalar.value);
    }
    line(group.name, text);
  }
  for (const actors::AgentSummary& agent : train.agents) {
    if (!agent.name.empty()) table += fmt::format("{}\n", agent.name);
    line("environment", agent.env);
    line("env steps", format_count(static_cast<double>(agent.env_steps)));
    line("learner steps", format_count(static_cast<double>(agent.learner_steps)));
    if (agent.final_evaluation) {
      const Returns returns = returns_of(*agent.final_evaluation);
      line("final return",
           fmt::format("{:.1f} +- {:.1f} over {:.0f} episodes", returns.mean, returns.std, returns.episodes));
    } else {
      line("final return", "no evaluation yet");
    }
    std::vector<std::string> reached;
    for (const auto& [threshold, wall_s] : first_reached(summary.evaluations, agent.name, kReturnThresholds)) {
      reached.push_back(fmt::format("{} at {}", threshold, format_duration(wall_s)));
    }
    if (!reached.empty()) line("first reached", fmt::format("{}", fmt::join(reached, ", ")));
  }
  return table;
}

}  // namespace troupe::apps
