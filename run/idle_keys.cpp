#include <troupe/run/idle_keys.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include <troupe/run/optimizer_keys.hpp>

namespace troupe::apps {
namespace {

/// The value of a key: of the run, or of one [replicas.NAME].
class Values {
 public:
  Values(const Config& config, std::string section) : config_(config), section_(std::move(section)) {}
  bool is(std::string_view key, std::initializer_list<std::string_view> values) const {
    return std::ranges::find(values, config_.get_string(section_ + std::string(key))) != values.end();
  }
  std::int64_t integer(std::string_view key) const { return config_.get_int(section_ + std::string(key)); }

 private:
  const Config& config_;
  std::string section_;  ///< "" or "replicas.NAME."
};

struct Rule {
  std::vector<std::string_view> keys;
  bool (*used)(const Values&);
  std::string_view when;
};

const std::vector<Rule>& d4pg_rules() {
  static const std::vector<Rule> kRules = {
      {{"inference.count", "inference.batch_size", "inference.max_wait_ms", "inference.device",
        "placement.inference.nodes"},
       [](const Values& v) { return v.is("actors.inference", {"server"}); },
       "only with actors.inference = \"server\""},
      {{"replay.priority_exponent"},
       [](const Values& v) { return v.is("replay.sampler", {"prioritized"}); },
       "only with replay.sampler = \"prioritized\""},
  };
  return kRules;
}

const std::vector<Rule>& group_rules() {
  static const std::vector<Rule> kRules = {
      {{"optimizer", "weight_decay", "momentum", "beta1", "beta2", "rms_decay", "rms_momentum", "epsilon",
        "trust_coefficient", "gradient_norm_clip"},
       [](const Values& v) { return !v.is("model", {"sngan"}); },
       "not with model = \"sngan\", which has Adam with decays of 0 and 0.9"},
      {{"layers"},
       [](const Values& v) {
         return v.is("model", {"classifier"}) || (v.is("model", {"sngan"}) && v.is("network", {"mlp"}));
       },
       "only with model = \"classifier\", or \"sngan\" with network = \"mlp\""},
      {{"network", "conditional", "noise_size", "n_dis", "evaluation_images"},
       [](const Values& v) { return v.is("model", {"sngan"}); },
       "only with model = \"sngan\""},
      {{"width", "discriminator_width"},
       [](const Values& v) { return v.is("model", {"sngan"}) && v.is("network", {"resnet"}); },
       "only with model = \"sngan\" and network = \"resnet\""},
      {{"depth", "label_smoothing"},
       [](const Values& v) { return v.is("model", {"resnet"}); },
       "only with model = \"resnet\""},
      {{"sync_batch_norm"},
       [](const Values& v) {
         return v.is("model", {"resnet", "sngan"});
       },
       "only with model = \"resnet\" or \"sngan\""},
      {{"variant"},
       [](const Values& v) {
         const std::int64_t depth = v.integer("depth");
         return v.is("model", {"resnet"}) && (depth == 50 || depth == 101 || depth == 152);
       },
       "only with model = \"resnet\" of a depth that has bottlenecks: 50, 101 or 152"},
      {{"classes"}, [](const Values& v) { return v.is("data", {"tfrecord"}); }, "only with data = \"tfrecord\""},
      {{"data_dir"}, [](const Values& v) { return !v.is("data", {"synthetic"}); }, "not with data = \"synthetic\""},
      {{"skip_damaged"},
       [](const Values& v) {
         return v.is("data", {"image_folder", "tfrecord"});
       },
       "only with data = \"image_folder\" or \"tfrecord\""},
      {{"reduce"},
       [](const Values& v) { return v.is("replicator", {"multi_device"}); },
       "only with replicator = \"multi_device\""},
      {{"ps_shards", "ps_partition", "ps_nodes"},
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
      {{"discriminator_nodes"},
       [](const Values& v) { return v.is("replicator", {"split_gan"}); },
       "only with replicator = \"split_gan\""},
  };
  return kRules;
}

/// What a run without an environment has no use for.
bool is_of_d4pg(std::string_view key) {
  static constexpr std::array<std::string_view, 8> kSections = {"actors.",  "inference.",  "staleness.", "replay.",
                                                                "learner.", "parameters.", "evaluator.", "placement."};
  static constexpr std::array<std::string_view, 4> kKeys = {"n_step", "discount", "max_env_steps", "max_learner_steps"};
  return std::ranges::find(kKeys, key) != kKeys.end() ||
         std::ranges::any_of(kSections, [&](std::string_view section) { return key.starts_with(section); });
}

bool is_changed(const Config& config, std::string_view path) {
  const auto key = std::ranges::find(config.schema(), path, &ConfigKey::path);
  return key != config.schema().end() && config.value(path) != key->default_value;
}

/// [placement.NAME] of a role of the user's own.
bool is_of_own_role(const Config& config, std::string_view key) {
  return std::ranges::any_of(config.names("roles"),
                             [&](const std::string& name) { return key == fmt::format("placement.{}.nodes", name); });
}

/// The keys of environments that the run has not.
std::vector<std::string> of_other_environments(const Config& config) {
  std::vector<std::string> mistakes;
  const auto env = std::ranges::find(config.schema(), "env", &ConfigKey::path);
  for (const std::string& name : env->choices) {
    if (name == config.get_string("env")) continue;
    for (const ConfigKey& key : config.schema()) {
      if (!key.path.starts_with(name + ".") || !is_changed(config, key.path)) continue;
      mistakes.push_back(fmt::format("{}: has no effect here: it is used only with env = \"{}\"", key.path, name));
    }
  }
  return mistakes;
}

}  // namespace

std::vector<std::string> idle_key_mistakes(const Config& config) {
  std::vector<std::string> mistakes = of_other_environments(config);
  const auto apply = [&](const std::vector<Rule>& rules, const std::string& section) {
    const Values values(config, section);
    for (const Rule& rule : rules) {
      if (rule.used(values)) continue;
      for (const std::string_view key : rule.keys) {
        const std::string path = section + std::string(key);
        if (!is_changed(config, path)) continue;
        mistakes.push_back(fmt::format("{}: has no effect here: it is used {}", path, rule.when));
      }
    }
  };
  const auto apply_optimizer = [&](const std::string& prefix) {
    for (const OptimizerKeyUse& use : optimizer_key_uses()) {
      const bool used =
          std::ranges::find(use.optimizers, config.get_string(prefix + "optimizer")) != use.optimizers.end();
      const std::string path = prefix + std::string(use.key);
      if (used || !is_changed(config, path)) continue;
      mistakes.push_back(fmt::format("{}: has no effect here: it is used only with optimizer = \"{}\"", path,
                                     fmt::join(use.optimizers, "\" or \"")));
    }
  };
  for (const std::string& name : config.names("replicas")) {
    const std::string section = "replicas." + name + ".";
    apply(group_rules(), section);
    if (config.get_string(section + "model") != "sngan") apply_optimizer(section);
  }
  if (!config.get_string("env").empty()) {
    apply(d4pg_rules(), "");
    return mistakes;
  }
  if (config.names("replicas").empty() && config.names("roles").empty())
    return mistakes;  // what is missing is env, and somebody says so
  for (const ConfigKey& key : config.schema()) {
    if (!is_of_d4pg(key.path) || is_of_own_role(config, key.path) || !is_changed(config, key.path)) continue;
    mistakes.push_back(fmt::format("{}: has no effect here: it is used only with env, by D4PG", key.path));
  }
  return mistakes;
}

}  // namespace troupe::apps
