#include <troupe/run/check_begin.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <vector>

#include <troupe/core/log.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/check_run.hpp>
#include <troupe/run/idle_keys.hpp>
#include <troupe/run/initial_values.hpp>
#include <troupe/run/mistake_place.hpp>

namespace troupe::apps {
namespace {

Status one_error(const Config& config, const std::vector<std::string>& mistakes) {
  if (mistakes.empty()) return {};
  return placed(config, Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(mistakes, "\n"))});
}

bool is_zero(const ConfigValue& value) {
  const double* number = std::get_if<double>(&value);
  return number != nullptr && *number == 0;
}

/// The value in other words where only that matters.
std::string what_is_fixed(const ConfigKey& key, const ConfigValue& value) {
  if (key.fixed == ConfigKey::Fixed::kWhetherZero) return is_zero(value) ? "0" : "more than 0";
  return to_toml(value);
}

/// What of replay's keys does not go together; empty: all does.
std::string replay_mistake(const actors::ReplayOptions& replay, bool nodes) {
  if (!nodes && (replay.durability == "relaxed" || replay.durability == "durable")) {
    return fmt::format(
        "replay.durability: got \"{}\", but in one process there is no journal, as the checkpoints hold "
        "the table: expected \"auto\" or \"off\", or a run over processes",
        replay.durability);
  }
  const bool journal = nodes && replay.durability != "off", held = is_held(replay);
  const std::string who = journal
                              ? fmt::format("replay's journal (durability \"{}\", over processes)", replay.durability)
                          : held ? "a table on " + replay.device[0]
                                 : "";
  if (!who.empty() && replay.remover != "fifo") {
    return fmt::format("replay.remover: got \"{}\", but {} wants items to leave in their order: expected \"fifo\"{}",
                       replay.remover, who, journal ? ", or replay.durability \"off\"" : "");
  }
  if (!who.empty() && replay.max_times_sampled != 0) {
    return fmt::format("replay.max_times_sampled: got {}, but {} wants items to leave in their order: expected 0{}",
                       replay.max_times_sampled, who, journal ? ", or replay.durability \"off\"" : "");
  }
  const bool gpu = held && replay.device[0].starts_with("cuda:");
  if (gpu && (replay.sampler == "max_heap" || replay.sampler == "min_heap")) {
    return fmt::format("replay.sampler: got \"{}\", but a table on {} has no heaps: expected another one",
                       replay.sampler, replay.device[0]);
  }
  return {};
}

}  // namespace

Status check_begin(const Config& config, const actors::TrainOptions& options, RunKind kind) {
  std::vector<std::string> mistakes = idle_key_mistakes(config);
  const bool nodes = kind != RunKind::kOneProcess;
  for (const actors::AgentOptions& agent : options.agents) {
    if (const std::string wrong = replay_mistake(agent.replay, nodes); !wrong.empty()) {
      mistakes.push_back(section_prefix(agent) + wrong);
    }
  }
  if (kind != RunKind::kHosts && !options.init.empty()) {
    if (const Status there = check_initial(options.init); !there.ok()) mistakes.push_back(there.error().message);
  }
  if (const Status can = actors::check_run(options, {.data = kind != RunKind::kHosts}); !can.ok()) {
    for (const std::string_view line : lines(can.error().message)) mistakes.emplace_back(line);
  }
  if (!mistakes.empty()) return one_error(config, mistakes);
  for (const actors::AgentOptions& agent : options.agents) {
    const std::int64_t items = agent.replay.min_items, steps = agent.max_env_steps;
    if (agent.make_learner != nullptr || agent.replay.limiter == "queue" || steps == 0 || items <= steps) continue;
    log::warn("TRP-W108 {0}replay.min_items is {1}, and {0}max_env_steps {2}: nothing will be learnt",
              section_prefix(agent), items, steps);
  }
  return {};
}

Status check_same_run(const Config& now, const Config& recorded, std::string_view run) {
  std::vector<std::string> mistakes;
  struct Sections {
    const char *pattern, *key, *what, *does;
  };
  for (const auto& [pattern, key, what, does] :
       {Sections{"agents", "env", "agent", "has"}, Sections{"replicas", "model", "group", "trains"},
        Sections{"roles", "kind", "role", "has"}}) {
    std::set<std::string> names;
    for (const Config* config : {&now, &recorded}) {
      for (const std::string& name : config->names(pattern)) names.insert(fmt::format("{}.{}", pattern, name));
    }
    for (const std::string& name : names) {
      const bool is = now.has(name + "." + key), was = recorded.has(name + "." + key);
      if (is && !was) mistakes.push_back(fmt::format("{}: a new {}, but {} has none of this name", name, what, run));
      if (was && !is) mistakes.push_back(fmt::format("{}: missing, but {} {} this {}", name, run, does, what));
    }
  }
  if (now.count("channels") != recorded.count("channels")) {
    mistakes.push_back(fmt::format("channels: got {}, but {} has {}, which is the same for all of a run",
                                   now.count("channels"), run, recorded.count("channels")));
  }
  for (const ConfigKey& key : now.schema()) {
    if (key.fixed == ConfigKey::Fixed::kNo || !recorded.has(key.path)) continue;
    const std::string is = what_is_fixed(key, now.value(key.path)), was = what_is_fixed(key, recorded.value(key.path));
    if (is == was) continue;
    mistakes.push_back(
        fmt::format("{}: got {}, but {} has {}, which is the same for all of a run", key.path, is, run, was));
  }
  return one_error(now, mistakes);
}

}  // namespace troupe::apps
