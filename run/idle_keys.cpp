#include <troupe/run/idle_keys.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

#include <troupe/learner/graph/optimizer_keys.hpp>

namespace troupe::apps {
namespace {

/// The value of a key: of an agent, or of one [replicas.NAME].
class Values {
 public:
  Values(const Config& config, std::string section) : config_(config), section_(std::move(section)) {}
  bool is(std::string_view key, std::initializer_list<std::string_view> values) const {
    return std::ranges::find(values, config_.get_string(section_ + std::string(key))) != values.end();
  }
  std::int64_t integer(std::string_view key) const { return config_.get_int(section_ + std::string(key)); }

 private:
  const Config& config_;
  std::string section_;  ///< with its point: of an agent ("" or "agents.NAME."), its learner or a group
};

struct Rule {
  std::vector<std::string_view> keys;
  bool (*used)(const Values&);
  std::string_view when;
};

const std::vector<Rule>& agent_rules() {
  static const std::vector<Rule> kRules = {
      {{"inference.count", "inference.batch_size", "inference.max_wait_ms", "inference.device",
        "placement.inference.nodes"},
       [](const Values& v) { return v.is("actors.inference", {"server"}); },
       "only with actors.inference = \"server\""},
      {{"replay.priority_exponent"},
       [](const Values& v) {
         return v.is("replay.sampler", {"prioritized"}) || v.is("replay.remover", {"prioritized"});
       },
       "only with replay.sampler or replay.remover = \"prioritized\""},
      {{"replay.min_items", "replay.samples_per_insert", "replay.tolerance"},
       [](const Values& v) { return v.is("replay.limiter", {"ratio"}); },
       "only with replay.limiter = \"ratio\""},
      {{"placement.learner_ps.nodes"},
       [](const Values& v) {
         return v.is("learner.replicator", {"parameter_server", "sync_replicas"});
       },
       "only with learner.replicator = \"parameter_server\" or \"sync_replicas\""},
  };
  return kRules;
}

/// Of the keys that [learner] has in common with a group.
const std::vector<Rule>& replicator_rules() {
  static const std::vector<Rule> kRules = {
      {{"reduce"},
       [](const Values& v) {
         return v.is("replicator", {"multi_device", "model_parallel"});
       },
       "only with replicator = \"multi_device\" or \"model_parallel\""},
      {{"wire"},
       [](const Values& v) {
         return v.is("replicator", {"multi_worker", "parameter_server", "sync_replicas", "split_gan"});
       },
       "only with replicas that are roles of their own: replicator = \"multi_worker\" or a parameter server's"},
      {{"ps_shards", "ps_partition"},
       [](const Values& v) {
         return v.is("replicator", {"parameter_server", "sync_replicas"});
       },
       "only with replicator = \"parameter_server\" or \"sync_replicas\""},
      {{"staleness"},
       [](const Values& v) { return v.is("replicator", {"parameter_server"}); },
       "only with replicator = \"parameter_server\""},
      {{"max_staleness"},
       [](const Values& v) { return v.is("replicator", {"split_gan"}) || v.is("staleness", {"drop"}); },
       "only with staleness = \"drop\" or replicator = \"split_gan\""},
  };
  return kRules;
}

const std::vector<Rule>& group_rules() {
  static const std::vector<Rule> kRules = {
      {{"layers", "activation", "discriminator_activation"},
       [](const Values& v) { return !v.is("model", {"sngan"}) || v.is("network", {"mlp"}); },
       "only with network = \"mlp\""},
      {{"width", "discriminator_width"},
       [](const Values& v) { return v.is("network", {"resnet"}); },
       "only with network = \"resnet\""},
      {{"variant"},
       [](const Values& v) {
         const std::int64_t depth = v.integer("depth");
         return depth == 50 || depth == 101 || depth == 152;
       },
       "only with a depth that has bottlenecks: 50, 101 or 152"},
      {{"classes"}, [](const Values& v) { return v.is("data", {"tfrecord"}); }, "only with data = \"tfrecord\""},
      {{"data_dir"}, [](const Values& v) { return !v.is("data", {"synthetic"}); }, "not with data = \"synthetic\""},
      {{"skip_damaged"},
       [](const Values& v) {
         return v.is("data", {"image_folder", "tfrecord"});
       },
       "only with data = \"image_folder\" or \"tfrecord\""},
      {{"layer_split", "pipeline_parts"},
       [](const Values& v) { return v.is("replicator", {"model_parallel"}); },
       "only with replicator = \"model_parallel\""},
      {{"ps_nodes"},
       [](const Values& v) {
         return v.is("replicator", {"parameter_server", "sync_replicas"});
       },
       "only with replicator = \"parameter_server\" or \"sync_replicas\""},
      {{"discriminator_nodes"},
       [](const Values& v) { return v.is("replicator", {"split_gan"}); },
       "only with replicator = \"split_gan\""},
  };
  return kRules;
}

bool is_changed(const Config& config, std::string_view path) {
  const auto key = std::ranges::find(config.schema(), path, &ConfigKey::path);
  return key != config.schema().end() && config.value(path) != key->default_value;
}

/// The sections of the environments, algorithms, learners and wrappers that an agent has not.
void add_unused_sections_of(const Config& config, const std::string& prefix, std::vector<UnusedSection>& sections) {
  const auto names = [&](const char* key) -> std::vector<std::string> {
    const ConfigValue& value = config.value(prefix + key);
    const auto* const one = std::get_if<std::string>(&value);
    return one != nullptr ? std::vector{*one} : std::get<std::vector<std::string>>(value);
  };
  struct Use {
    const char *key, *also;
    bool listed;
  };
  for (const auto& [key, also, listed] :
       {Use{"env", "evaluator.env", false}, Use{"algorithm", nullptr, false}, Use{"learner.kind", nullptr, false},
        Use{"wrappers", "evaluator.wrappers", true}}) {
    std::vector<std::string> used = names(key);
    if (also != nullptr) std::ranges::copy(names(also), std::back_inserter(used));
    const auto choice = std::ranges::find(config.schema(), prefix + key, &ConfigKey::path);
    for (const std::string& name : choice->choices) {
      if (std::ranges::find(used, name) != used.end()) continue;
      const std::string value = listed ? fmt::format("[\"{}\"]", name) : fmt::format("\"{}\"", name);
      sections.push_back({prefix + name + ".", fmt::format("{}{} = {}", prefix, key, value)});
    }
  }
}

/// Whether the key is of the whole run, or of a part with a name. All others are those of an agent without one.
bool is_of_run(const Config& config, std::string_view key) {
  static constexpr std::array<std::string_view, 8> kSections = {"checkpoint.", "metrics.",  "supervisor.", "security.",
                                                                "agents.",     "replicas.", "roles.",      "channels["};
  static constexpr std::array<std::string_view, 5> kKeys = {"name", "seed", "deterministic", "max_minutes", "init"};
  return std::ranges::find(kKeys, key) != kKeys.end() ||
         std::ranges::any_of(kSections, [&](std::string_view section) { return key.starts_with(section); }) ||
         std::ranges::any_of(config.names("roles"),
                             [&](const std::string& name) { return key == fmt::format("placement.{}.nodes", name); });
}

/// The keys at the top that an agent has there, in a run whose agents have names, or that has none.
void add_agent_keys(const Config& config, std::vector<std::string>& mistakes) {
  for (const ConfigKey& key : config.schema()) {
    if (is_of_run(config, key.path) || !is_changed(config, key.path)) continue;
    mistakes.push_back(fmt::format("{}: has no effect here: it is used only with env, by the agent", key.path));
  }
}

/// rule: the path of the key "optimizer" that says which rule it has.
void add_optimizer_keys(const Config& config, const std::string& rule, std::vector<std::string>& mistakes) {
  const std::string prefix = rule.substr(0, rule.size() - std::string_view("optimizer").size());
  for (const learner::OptimizerKeyUse& use : learner::optimizer_key_uses()) {
    const std::string path = prefix + std::string(use.key);
    const std::string& chosen = config.get_string(prefix + std::string(use.chooses));
    if (std::ranges::find(use.values, chosen) != use.values.end() || !is_changed(config, path)) continue;
    mistakes.push_back(fmt::format("{}: has no effect here: it is used only with {}{} = \"{}\"", path,
                                   prefix.substr(prefix.rfind('.') + 1), use.chooses,
                                   fmt::join(use.values, "\" or \"")));
  }
}

}  // namespace

std::vector<UnusedSection> unused_sections(const Config& config) {
  std::vector<UnusedSection> sections;
  if (!config.get_string("env").empty()) add_unused_sections_of(config, "", sections);
  for (const std::string& name : config.names("agents")) {
    add_unused_sections_of(config, "agents." + name + ".", sections);
  }
  return sections;
}

std::vector<std::string> idle_key_mistakes(const Config& config) {
  std::vector<std::string> mistakes;
  for (const UnusedSection& section : unused_sections(config)) {
    for (const ConfigKey& key : config.schema()) {
      if (!key.path.starts_with(section.begin) || !is_changed(config, key.path)) continue;
      mistakes.push_back(fmt::format("{}: has no effect here: it is used only with {}", key.path, section.only_with));
    }
  }
  const auto apply = [&](const std::vector<Rule>& rules, const std::string& section) {
    const Values values(config, section);
    for (const Rule& rule : rules) {
      const auto there = [&](std::string_view key) { return is_changed(config, section + std::string(key)); };
      if (std::ranges::none_of(rule.keys, there) || rule.used(values)) continue;
      for (const std::string_view key : rule.keys) {
        if (!there(key)) continue;
        mistakes.push_back(fmt::format("{}{}: has no effect here: it is used {}", section, key, rule.when));
      }
    }
  };
  // Of every optimiser that a section has, whatever it is for: its keys begin as its own does.
  const auto apply_optimizers = [&](const std::string& section) {
    for (const ConfigKey& chooses : config.schema()) {
      if (!chooses.path.starts_with(section) || !chooses.path.ends_with("optimizer")) continue;
      add_optimizer_keys(config, chooses.path, mistakes);
    }
  };
  const auto apply_agent = [&](const std::string& prefix) {
    apply(agent_rules(), prefix);
    apply(replicator_rules(), prefix + "learner.");
    apply_optimizers(prefix + config.get_string(prefix + "algorithm") + ".");
  };
  for (const std::string& name : config.names("replicas")) {
    apply(group_rules(), "replicas." + name + ".");
    apply(replicator_rules(), "replicas." + name + ".");
    apply_optimizers("replicas." + name + ".");
  }
  for (const std::string& name : config.names("agents")) {
    apply_agent("agents." + name + ".");
  }
  if (!config.get_string("env").empty()) {
    apply_agent("");
  } else if (!config.names("agents").empty() || !config.names("replicas").empty() || !config.names("roles").empty()) {
    add_agent_keys(config, mistakes);  // else what is missing is env, and somebody says so
  }
  return mistakes;
}

}  // namespace troupe::apps
