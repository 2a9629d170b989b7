#include <troupe/run/replica_schema.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include <troupe/actors/roles/split_gan.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/group_schema.hpp>
#include <troupe/run/mistake_place.hpp>
#include <troupe/run/role_names.hpp>

namespace troupe::apps {
namespace {

std::string section(std::string_view name) { return fmt::format("replicas.{}", name); }
std::string path(std::string_view name, std::string_view key) { return fmt::format("replicas.{}.{}", name, key); }

/// What all groups have, whatever they train.
ConfigSchema common_keys(const Registry& registry) {
  const actors::ReplicaGroupOptions g;
  const actors::ReplicaRun r;
  ConfigSchema schema = {
      {.path = "model",
       .default_value = std::string(),
       .doc = "What the group trains; each [replicas.NAME] is a group of its own",
       .choices = names_of(registry.models()),
       .required = true,
       .fixed = ConfigKey::Fixed::kValue},
  };
  std::ranges::move(group_keys({"one_device", "multi_device", "multi_worker", "central_storage", "parameter_server",
                                "sync_replicas", "model_parallel", "split_gan"},
                               g),
                    std::back_inserter(schema));
  ConfigSchema more = {
      {.path = "steps",
       .default_value = g.steps,
       .doc = "Steps of the group; the run ends when all groups and agents are done",
       .unit = "steps",
       .min = 1,
       .max = kCountMax},
      {.path = "discriminators",
       .default_value = g.discriminators,
       .doc = "Replicas of the discriminator, for split_gan",
       .min = 1,
       .max = 256,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "evaluate_every_steps",
       .default_value = g.evaluate_every_steps,
       .doc = "Between two evaluations; one more is made at the end",
       .unit = "steps",
       .min = 1,
       .max = kCountMax},
      {.path = "nodes",
       .default_value = r.nodes,
       .doc = "Processes that share the replicas; 0: with the chief",
       .min = 0,
       .max = 256},
      {.path = "ps_nodes",
       .default_value = r.ps_nodes,
       .doc = "Processes that share the parameter servers; 0: with the chief",
       .min = 0,
       .max = 64},
      {.path = "discriminator_nodes",
       .default_value = r.discriminator_nodes,
       .doc = "Processes that share the discriminators; 0: with the chief",
       .min = 0,
       .max = 256},
  };
  std::ranges::move(more, std::back_inserter(schema));
  return schema;
}

/// The group of one section, without its model.
actors::ReplicaRun read_run(const Config& config, const std::string& name) {
  const ConfigSection keys = config.section(section(name));
  const bool deterministic = config.get_bool("deterministic");
  actors::ReplicaRun run{.group = read_group(keys),
                         .model = keys.get_string("model"),
                         .threads = !deterministic,
                         .nodes = keys.get_int("nodes"),
                         .ps_nodes = keys.get_int("ps_nodes"),
                         .discriminator_nodes = keys.get_int("discriminator_nodes")};
  run.group.name = name;
  run.group.steps = keys.get_int("steps");
  run.group.discriminators = keys.get_int("discriminators");
  run.group.evaluate_every_steps = keys.get_int("evaluate_every_steps");
  run.group.repeatable = deterministic;
  run.group.nccl_interface = config.get_string("security.nccl_interface");
  run.group.seed = derive_seed(static_cast<std::uint64_t>(config.get_int("seed")), name, 0);
  return run;
}

/// The model that the section's other keys make. Errors begin with their keys.
Result<actors::MakeModel> to_model(const Config& config, const Registry& registry, const std::string& name) {
  const ConfigSection keys = config.section(section(name));
  auto model = make_model(registry, keys.get_string("model"), keys);
  return model.ok() ? std::move(model) : in_section(section(name), model.error());
}

/// What the two sides of a GAN ask for.
void check_split_gan(const actors::ReplicaRun& run, const std::function<void(const std::string&)>& add) {
  const std::string& name = run.group.name;
  const auto model = actors::model_of(run, actors::ModelContext::Data::kElsewhere);
  if (!model.ok()) return add(path(name, model.error().message));
  if (!model->split) {
    return add(fmt::format("{}: got \"split_gan\" for model \"{}\", which has no generator and discriminator",
                           path(name, "replicator"), run.model));
  }
  if (const Status fresh = actors::check_staleness(run.group, model->split->n_dis); !fresh.ok()) {
    add(fresh.error().message);
  }
  if (run.discriminator_nodes > run.group.discriminators) {
    add(fmt::format("{}: got {} for {} discriminator{}, expected no more", path(name, "discriminator_nodes"),
                    run.discriminator_nodes, run.group.discriminators, run.group.discriminators == 1 ? "" : "s"));
  }
}

}  // namespace

std::vector<std::string> common_group_keys() {
  std::vector<std::string> names;
  for (const ConfigKey& key : common_keys({})) names.push_back(key.path);
  return names;
}

ConfigSchema replica_schema(const Registry& registry) {
  ConfigSchema schema = common_keys(registry);
  for (const auto& [name, about] : registry.models()) {
    for (ConfigKey key : about.keys) {
      key.only_with = ConfigKey::OnlyWith{"model", name};
      schema.push_back(std::move(key));
    }
  }
  for (ConfigKey& key : schema) key.path.insert(0, "replicas.*.");
  return schema;
}

Result<std::vector<actors::ReplicaRun>> to_replica_runs(const Config& config, const Registry& registry) {
  std::vector<actors::ReplicaRun> runs;
  for (const std::string& name : config.names("replicas")) {
    auto model = to_model(config, registry, name);
    if (!model.ok()) return placed(config, model.error());
    runs.push_back(read_run(config, name));
    runs.back().make_model = std::move(model).value();
  }
  return runs;
}

std::vector<std::string> replica_mistakes(const Config& config, const Registry& registry) {
  std::vector<std::string> mistakes;
  for (const std::string& name : config.names("replicas")) {
    const auto add = [&](const std::string& what) {
      mistakes.push_back(fmt::format("{}: {}", place_of(config, what), what));
    };
    actors::ReplicaRun run = read_run(config, name);
    auto model = to_model(config, registry, name);
    if (model.ok()) {
      run.make_model = std::move(model).value();
    } else {
      for (const std::string_view line : lines(model.error().message)) add(std::string(line));
    }
    if (const Status good = actors::check(run.group, section(name)); !good.ok()) {
      for (const std::string_view line : lines(good.error().message)) add(std::string(line));
    }
    if (const std::string taken = why_taken(name); !taken.empty()) add(path(name, "model") + ": " + taken);
    const std::int64_t instances = actors::instances(run.group);
    if (run.nodes > instances) {
      add(fmt::format("{}: got {} for {} instance{}, expected no more", path(name, "nodes"), run.nodes, instances,
                      instances == 1 ? "" : "s"));
    }
    const bool served = actors::has_parameter_server(run.group);
    if (served && run.ps_nodes > run.group.ps_shards) {
      add(fmt::format("{}: got {} for {} ps_shards, expected no more", path(name, "ps_nodes"), run.ps_nodes,
                      run.group.ps_shards));
    }
    if (actors::is_split_gan(run.group) && run.make_model) check_split_gan(run, add);
  }
  return mistakes;
}

}  // namespace troupe::apps
