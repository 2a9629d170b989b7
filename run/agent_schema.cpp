#include <troupe/run/agent_schema.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include <troupe/core/text.hpp>
#include <troupe/replay/selector.hpp>
#include <troupe/run/agent_checks.hpp>
#include <troupe/run/group_schema.hpp>
#include <troupe/run/mistake_place.hpp>
#include <troupe/run/role_names.hpp>

namespace troupe::apps {
namespace {

/// Of an agent that names none.
constexpr const char* kDefaultAlgorithm = "d4pg";
constexpr const char* kSections = "agents";
/// What the keys of an agent begin with, of all agents of a configuration.
std::vector<std::pair<std::string, std::string>> agents_of(const Config& config) {
  std::vector<std::pair<std::string, std::string>> agents;  // name and prefix
  if (!config.get_string("env").empty()) agents.emplace_back("", "");
  for (const std::string& name : config.names(kSections)) agents.emplace_back(name, fmt::format("agents.{}.", name));
  return agents;
}

/// How learners run: not all that a group on data may choose.
ConfigSchema learner_keys(const Registry& registry) {
  const actors::AgentOptions d;
  ConfigSchema keys = group_keys(
      {"multi_worker", "multi_device", "central_storage", "parameter_server", "sync_replicas", "model_parallel"},
      d.learner);
  for (ConfigKey& key : keys) {
    if (key.path == "batch_size") key.fixed = ConfigKey::Fixed::kValue;  // replay sends batches of that size
    if (key.path == "count") key.max = 1024;
  }
  std::vector<std::string> kinds = names_of(registry.learners());
  kinds.insert(kinds.begin(), actors::kProgramLearner);
  keys.push_back({.path = "kind",
                  .default_value = std::string(actors::kProgramLearner),
                  .doc = "What learns: the algorithm's program, or a user's learner with its [NAME]",
                  .choices = std::move(kinds),
                  .fixed = ConfigKey::Fixed::kValue});
  keys.push_back({.path = "publish_period",
                  .default_value = d.publish_period,
                  .doc = "Between two publications of the policy to actors and evaluator",
                  .unit = "learner steps",
                  .min = 1,
                  .max = 1e9});
  for (ConfigKey& key : keys) key.path.insert(0, "learner.");
  return keys;
}

/// The sections of everything of one kind: "maze.size".
template <typename Kind>
ConfigSchema own_sections(const Registry::ByName<Kind>& kinds, bool fixed) {
  ConfigSchema schema;
  for (const auto& [name, about] : kinds) {
    for (ConfigKey key : about.keys) {
      key.path = name + "." + key.path;
      if (fixed) key.fixed = ConfigKey::Fixed::kValue;  // what was learnt in another one is of no use here
      schema.push_back(std::move(key));
    }
  }
  return schema;
}

/// The agent's algorithm. Its errors begin with the keys of its section.
Result<MakeAlgorithm> to_algorithm(const Config& config, const Registry& registry, const std::string& prefix,
                                   const std::string& name) {
  const std::string section = prefix + name;
  const std::int64_t steps = config.get_int(prefix + "max_learner_steps");
  auto made = make_algorithm(registry, name, config.section(section), steps);
  return made.ok() ? std::move(made) : placed(config, in_section(section, made.error()));
}

/// The wrappers that `key` lists, whose sections are those of the agent. Errors have the key's place.
Result<std::vector<envs::NamedWrap>> to_wraps(const Config& config, const Registry& registry, const std::string& prefix,
                                              std::string_view key, const std::vector<std::string>& names) {
  std::vector<envs::NamedWrap> wraps;
  for (const std::string& name : names) {
    auto wrap = make_wrap(registry, name, config.section(prefix + name));
    if (!wrap.ok()) {
      return placed(config, Error{wrap.error().code, fmt::format("{}{}: {}", prefix, key, wrap.error().message)});
    }
    wraps.push_back({name, std::move(wrap).value()});
  }
  return wraps;
}

/// The wrappers of evaluations: those that are listed for them, or the agent's but for those of training only.
Result<std::vector<envs::NamedWrap>> to_evaluator_wraps(const Config& config, const Registry& registry,
                                                        const std::string& prefix) {
  constexpr std::string_view kKey = "evaluator.wrappers";
  std::vector<std::string> names = config.get_strings(prefix + std::string(kKey));
  const auto only_trains = [&](const std::string& name) {
    const auto found = registry.wrappers().find(name);
    return found != registry.wrappers().end() && found->second.training_only;
  };
  if (names == std::vector<std::string>{kSameWrappers}) {
    names = config.get_strings(prefix + "wrappers");
    std::erase_if(names, only_trains);
    return to_wraps(config, registry, prefix, "wrappers", names);
  }
  if (const auto wrong = std::ranges::find_if(names, only_trains); wrong != names.end()) {
    return placed(config,
                  Error{Code::kInvalidArgument,
                        fmt::format("{0}{1}: got \"{2}\", which is for training only: expected it in {0}wrappers "
                                    "alone",
                                    prefix, kKey, *wrong)});
  }
  return to_wraps(config, registry, prefix, kKey, names);
}

/// What makes instances of the environment that `key` names. Errors have the key's place.
Result<envs::MakeEnvironment> to_environment(const Config& config, const Registry& registry, const std::string& prefix,
                                             std::string_view key) {
  const std::string& name = config.get_string(prefix + std::string(key));
  auto made = make_environment(registry, name, config.section(prefix + name));
  if (made.ok()) return made;
  return placed(config, Error{made.error().code, fmt::format("{}{}: {}", prefix, key, made.error().message)});
}

Result<actors::AgentOptions> to_agent(const Config& config, const Registry& registry, const std::string& name,
                                      const std::string& prefix) {
  const auto integer = [&](std::string_view key) { return config.get_int(prefix + std::string(key)); };
  const auto number = [&](std::string_view key) { return config.get_float(prefix + std::string(key)); };
  const auto text = [&](std::string_view key) { return config.get_string(prefix + std::string(key)); };
  actors::AgentOptions agent = {
      .name = name,
      .env = text("env"),
      .algorithm = text("algorithm"),
      .max_env_steps = integer("max_env_steps"),
      .max_learner_steps = integer("max_learner_steps"),
      .actors = {.count = integer("actors.count"),
                 .envs_per_actor = integer("actors.envs_per_actor"),
                 .threads = integer("actors.threads"),
                 .inference = text("actors.inference")},
      .inference = {.count = integer("inference.count"),
                    .batch_size = integer("inference.batch_size"),
                    .max_wait_ms = number("inference.max_wait_ms"),
                    .device = config.get_strings(prefix + "inference.device")},
      .staleness = {.max_versions = integer("staleness.max_versions")},
      .replay = {.shards = integer("replay.shards"),
                 .max_items = integer("replay.max_items"),
                 .max_bytes = integer("replay.max_bytes"),
                 .min_items = integer("replay.min_items"),
                 .samples_per_insert = number("replay.samples_per_insert"),
                 .tolerance = number("replay.tolerance"),
                 .limiter = text("replay.limiter"),
                 .sampler = text("replay.sampler"),
                 .remover = text("replay.remover"),
                 .max_times_sampled = integer("replay.max_times_sampled"),
                 .priority_exponent = number("replay.priority_exponent"),
                 .durability = text("replay.durability"),
                 .device = config.get_strings(prefix + "replay.device"),
                 .external = config.get_bool(prefix + "replay.external")},
      .learner = read_group(config.section(prefix + "learner")),
      .publish_period = integer("learner.publish_period"),
      .evaluator = {.episodes = integer("evaluator.episodes"),
                    .every_learner_steps = integer("evaluator.every_learner_steps"),
                    .env = text("evaluator.env")},
      .placement = {.actors = integer("placement.actors.nodes"),
                    .replay = integer("placement.replay.nodes"),
                    .learner = integer("placement.learner.nodes"),
                    .learner_ps = integer("placement.learner_ps.nodes"),
                    .parameters = integer("placement.parameters.nodes"),
                    .evaluator = integer("placement.evaluator.nodes"),
                    .inference = integer("placement.inference.nodes")},
  };
  TROUPE_ASSIGN(agent.make_environment, to_environment(config, registry, prefix, "env"));
  TROUPE_ASSIGN(agent.wrappers,
                to_wraps(config, registry, prefix, "wrappers", config.get_strings(prefix + "wrappers")));
  if (!agent.evaluator.env.empty()) {
    TROUPE_ASSIGN(agent.evaluator.make_environment, to_environment(config, registry, prefix, "evaluator.env"));
  }
  TROUPE_ASSIGN(agent.evaluator.wrappers, to_evaluator_wraps(config, registry, prefix));
  TROUPE_ASSIGN(agent.make_algorithm, to_algorithm(config, registry, prefix, agent.algorithm));
  if (const std::string& kind = text("learner.kind"); kind != actors::kProgramLearner) {
    auto learner = make_learner(registry, kind, config.section(prefix + kind));
    if (!learner.ok()) return placed(config, in_section(prefix + kind, learner.error()));
    agent.make_learner = std::move(learner).value();
    agent.learner_kind = kind;
  }
  return agent;
}

/// Who acts, with which policy, and how old its parameters may be.
ConfigSchema acting_keys(const actors::AgentOptions& d) {
  return {
      {.path = "actors.count",
       .default_value = d.actors.count,
       .doc = "Env actors, each with its own environments",
       .min = 1,
       .max = 1024,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "actors.envs_per_actor",
       .default_value = d.actors.envs_per_actor,
       .doc = "Environments of each, which it steps together with one call of the policy",
       .min = 1,
       .max = 4096,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "actors.threads",
       .default_value = d.actors.threads,
       .doc = "Threads of each that step its environments",
       .min = 1,
       .max = 256},
      {.path = "actors.inference",
       .default_value = d.actors.inference,
       .doc = "Who runs the policy: each env actor, or a server for all of them",
       .choices = {"local", "server"},
       .fixed = ConfigKey::Fixed::kValue},

      {.path = "inference.count",
       .default_value = d.inference.count,
       .doc = "Servers, when actors.inference is \"server\"",
       .min = 1,
       .max = 1024,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "inference.batch_size",
       .default_value = d.inference.batch_size,
       .doc = "Most observations in a batch of a server",
       .unit = "observations",
       .min = 1,
       .max = 65536},
      {.path = "inference.max_wait_ms",
       .default_value = d.inference.max_wait_ms,
       .doc = "A batch is run after this wait even when it is not full",
       .unit = "ms",
       .min = 0,
       .max = 1000},
      {.path = "inference.device",
       .default_value = d.inference.device,
       .doc = "cpu, cuda:N, tpu:N, pjrt:NAME#N or auto; servers take them in turn"},

      {.path = "staleness.max_versions",
       .default_value = d.staleness.max_versions,
       .doc = "Who acts with parameters older than this waits for newer; -1: no bound",
       .unit = "learner steps",
       .min = -1,
       .max = kCountMax},
  };
}

std::vector<std::string> selector_names() {
  std::vector<std::string> names;
  for (const replay::SelectorKind kind : replay::kSelectorKinds) names.emplace_back(replay::to_string(kind));
  return names;
}

ConfigSchema replay_keys(const actors::AgentOptions& d) {
  return {
      {.path = "replay.shards",
       .default_value = d.replay.shards,
       .doc = "Tables that share the items; the limits below are of all together",
       .min = 1,
       .max = 64,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replay.max_items",
       .default_value = d.replay.max_items,
       .doc = "Capacity; the oldest item leaves when one more comes",
       .unit = "items",
       .min = 1,
       .max = 1e9,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replay.max_bytes",
       .default_value = d.replay.max_bytes,
       .doc = "The same bound in memory; whichever is met first",
       .unit = "bytes",
       .min = 1 << 16,
       .max = kCountMax,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replay.min_items",
       .default_value = d.replay.min_items,
       .doc = "Learning begins when as many items are there",
       .unit = "items",
       .min = 1,
       .max = 1e9},
      {.path = "replay.samples_per_insert",
       .default_value = d.replay.samples_per_insert,
       .doc = "Items sampled for each item inserted; the side that is ahead waits",
       .min = 1e-3,
       .max = 1e6},
      {.path = "replay.tolerance",
       .default_value = d.replay.tolerance,
       .doc = "How far samples_per_insert may be off, as a share of min_items",
       .min = 1e-3,
       .max = 1e6},
      {.path = "replay.limiter",
       .default_value = d.replay.limiter,
       .doc = "queue: each item is drawn once; inserts wait while max_items are there",
       .choices = {"ratio", "queue"},
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replay.sampler",
       .default_value = d.replay.sampler,
       .doc = "Which items are drawn; heaps: the highest, or lowest, priority",
       .choices = selector_names(),
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replay.remover",
       .default_value = d.replay.remover,
       .doc = "Which item leaves when one more comes than max_items",
       .choices = selector_names(),
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replay.max_times_sampled",
       .default_value = d.replay.max_times_sampled,
       .doc = "An item leaves after so many draws; 0: never",
       .min = 0,
       .max = 1e9,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replay.priority_exponent",
       .default_value = d.replay.priority_exponent,
       .doc = "Of a prioritized sampler or remover; 0 makes it uniform",
       .min = 0,
       .max = replay::kMostPriorityExponent,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replay.durability",
       .default_value = d.replay.durability,
       .doc = "Inserts that a death may cost. relaxed: 1 s at a power cut; auto: by placement",
       .choices = {"auto", "off", "relaxed", "durable"}},
      {.path = "replay.device",
       .default_value = d.replay.device,
       .doc = "cpu, or learner.device if no cpu: each has its share of the items in its memory",
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replay.external",
       .default_value = d.replay.external,
       .doc = "Programs of users may join to insert and draw: docs/replay.md",
       .fixed = ConfigKey::Fixed::kValue},
  };
}

ConfigSchema evaluator_keys(const actors::AgentOptions& d, const Registry& registry) {
  std::vector<std::string> wrappers = names_of(registry.wrappers());
  wrappers.emplace_back(kSameWrappers);
  return {
      {.path = "evaluator.env",
       .default_value = d.evaluator.env,
       .doc = "Environment of evaluations, with its own section; empty: the agent's",
       .choices = names_of(registry.environments())},
      {.path = "evaluator.wrappers",
       .default_value = std::vector<std::string>{kSameWrappers},
       .doc = "Around it; same: those of the agent that are not for training only",
       .choices = std::move(wrappers),
       .may_be_empty = true},
      {.path = "evaluator.episodes",
       .default_value = d.evaluator.episodes,
       .doc = "Episodes of an evaluation, without exploration noise",
       .min = 1,
       .max = 10000},
      {.path = "evaluator.every_learner_steps",
       .default_value = d.evaluator.every_learner_steps,
       .doc = "Between two evaluations",
       .unit = "learner steps",
       .min = 1,
       .max = kCountMax},
  };
}

ConfigSchema placement_keys(const actors::AgentOptions& d) {
  return {
      {.path = "placement.actors.nodes",
       .default_value = d.placement.actors,
       .doc = "Processes that share the env actors; 0: with the chief",
       .min = 0,
       .max = 1024},
      {.path = "placement.replay.nodes",
       .default_value = d.placement.replay,
       .doc = "Processes that share the replay shards; 0: with the chief",
       .min = 0,
       .max = 256},
      {.path = "placement.learner.nodes",
       .default_value = d.placement.learner,
       .doc = "Processes of the learners; 0: with the chief",
       .min = 0,
       .max = 1024},
      {.path = "placement.learner_ps.nodes",
       .default_value = d.placement.learner_ps,
       .doc = "Processes of the learners' parameter servers; 0: with the chief",
       .min = 0,
       .max = 64},
      {.path = "placement.parameters.nodes",
       .default_value = d.placement.parameters,
       .doc = "Processes that of the parameter store; 0: with the chief",
       .min = 0,
       .max = 256},
      {.path = "placement.evaluator.nodes",
       .default_value = d.placement.evaluator,
       .doc = "Processes of the evaluator; 0: with the chief",
       .min = 0,
       .max = 1},
      {.path = "placement.inference.nodes",
       .default_value = d.placement.inference,
       .doc = "Processes that share the inference servers; 0: with the chief",
       .min = 0,
       .max = 1024},
  };
}

}  // namespace

ConfigSchema agent_schema(const Registry& registry) {
  const actors::AgentOptions d;
  ConfigSchema schema = {
      {.path = "env",
       .default_value = std::string(),
       .doc = "Environment of the agent, one of `troupe envs`; empty: there is no agent",
       .choices = names_of(registry.environments()),
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "wrappers",
       .default_value = std::vector<std::string>(),
       .doc = "Around it, from it outwards; the keys of each are in a section of its name",
       .choices = names_of(registry.wrappers()),
       .may_be_empty = true,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "algorithm",
       .default_value = std::string(kDefaultAlgorithm),
       .doc = "How it acts and learns; its keys are in a section of its name",
       .choices = names_of(registry.algorithms()),
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "max_env_steps",
       .default_value = d.max_env_steps,
       .doc = "Ends the run after as many steps of all env actors; 0: no limit",
       .unit = "steps",
       .min = 0,
       .max = kCountMax},
      {.path = "max_learner_steps",
       .default_value = d.max_learner_steps,
       .doc = "Ends the run after as many learner steps; 0: no limit",
       .unit = "steps",
       .min = 0,
       .max = kCountMax},
  };
  for (ConfigSchema& section : std::vector{
           acting_keys(d), replay_keys(d), learner_keys(registry), evaluator_keys(d, registry), placement_keys(d),
           own_sections(registry.algorithms(), false), own_sections(registry.environments(), true),
           own_sections(registry.wrappers(), true), own_sections(registry.learners(), false)}) {
    std::ranges::move(section, std::back_inserter(schema));
  }
  return schema;
}

ConfigSchema named_agents(const ConfigSchema& keys) {
  ConfigSchema schema = keys;
  for (ConfigKey& key : schema) {
    key.required = key.path == "env";
    key.path.insert(0, "agents.*.");
    key.formerly.clear();
  }
  return schema;
}

std::vector<std::string> agent_mistakes(const Config& config) {
  std::vector<std::string> mistakes;
  for (const auto& [name, prefix] : agents_of(config)) {
    check_agent(config, prefix, mistakes);
    if (name.empty()) {
      if (!config.names(kSections).empty()) {
        mistakes.push_back(
            fmt::format("{}: env: got \"{}\", but the run's agents have names: expected it in an "
                        "[agents.NAME], with its sections",
                        config.where("env"), config.get_string("env")));
      }
      continue;
    }
    const auto& groups = config.names("replicas");
    const auto& roles = config.names("roles");
    std::string taken = why_taken(name);
    if (std::ranges::find(groups, name) != groups.end() || std::ranges::find(roles, name) != roles.end()) {
      taken = "the agent is called like another part of the run";
    }
    if (!taken.empty()) {
      mistakes.push_back(fmt::format("{}: agents.{}: {}", config.where(prefix + "env"), name, taken));
    }
  }
  return mistakes;
}

Result<std::vector<actors::AgentOptions>> to_agents(const Config& config, const Registry& registry) {
  std::vector<actors::AgentOptions> agents;
  for (const auto& [name, prefix] : agents_of(config)) {
    TROUPE_ASSIGN(actors::AgentOptions agent, to_agent(config, registry, name, prefix));
    agents.push_back(std::move(agent));
  }
  return agents;
}

}  // namespace troupe::apps
