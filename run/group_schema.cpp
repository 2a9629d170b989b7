#include <troupe/run/group_schema.hpp>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>

#include <troupe/learner/graph/optimizer_keys.hpp>

namespace troupe::apps {
namespace {

/// Of a group whose parameters are at parameter servers.
ConfigSchema served_keys(const actors::ReplicaGroupOptions& g) {
  return {
      {.path = "ps_shards",
       .default_value = g.ps_shards,
       .doc = "Parameter servers, each with a part of the variables",
       .min = 1,
       .max = 64,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "ps_partition",
       .default_value = g.ps_partition,
       .doc = "Variables over parameter servers: whole in turn, or cut up by size",
       .choices = {"fixed", "min_size", "max_size"},
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "staleness",
       .default_value = g.staleness,
       .doc = "Of late gradients: keep, drop beyond max_staleness, or scale by 1 / staleness",
       .choices = {"none", "drop", "scale"}},
      {.path = "max_staleness",
       .default_value = g.max_staleness,
       .doc = "Beyond which gradients, or split_gan's images, are dropped",
       .unit = "versions",
       .min = 0,
       .max = 1e6},
      {.path = "backup_workers",
       .default_value = g.backup_workers,
       .doc = "Latest gradients of each step that sync_replicas does without",
       .min = 0,
       .max = 255},
  };
}

}  // namespace

ConfigSchema group_keys(const std::vector<std::string>& replicators, const actors::ReplicaGroupOptions& g) {
  ConfigSchema schema = {
      {.path = "replicator",
       .default_value = replicators.front(),
       .doc = "How its replicas run, see docs/replicas.md",
       .choices = replicators,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "count",
       .default_value = g.count,
       .doc = "Replicas that train together; of split_gan those of the generator",
       .min = 1,
       .max = 256,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "devices",
       .default_value = g.devices,
       .doc = "Devices of each replica, for model_parallel",
       .min = 1,
       .max = 64,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "reduce",
       .default_value = g.reduce,
       .doc = "How multi_device and model_parallel add up gradients",
       .choices = {"collective", "hierarchical_copy", "reduction_to_one"}},
      {.path = "batch_size",
       .default_value = g.batch_size,
       .doc = "Rows of a step, over all replicas",
       .unit = "rows",
       .min = 1,
       .max = 65536},
      learner::accumulate_key("accumulate"),
      {.path = "deterministic",
       .default_value = g.deterministic,
       .doc = "The same bits for 1, 2, 4 and 8 replicas of one batch"},
      {.path = "wire",
       .default_value = g.wire,
       .doc = "Gradients between processes; sums are fp32 either way",
       .choices = {"fp32", "bf16"}},
      {.path = "compute",
       .default_value = g.compute,
       .doc = "Products and images; weights, statistics and losses are fp32 always",
       .choices = {"fp32", "tf32", "bf16"}},
      {.path = "device",
       .default_value = g.device,
       .doc = "cpu, cuda:N, tpu:N, pjrt:NAME#N or auto; replicas take them in turn"},
      {.path = "threads",
       .default_value = g.threads,
       .doc = "Threads that share a step of each replica, on each of its devices",
       .min = 1,
       .max = 256},
  };
  const auto has = [&](std::initializer_list<std::string_view> some) {
    return std::ranges::any_of(
        replicators, [&](const std::string& replicator) { return std::ranges::find(some, replicator) != some.end(); });
  };
  if (has({"parameter_server", "sync_replicas"})) std::ranges::move(served_keys(g), std::back_inserter(schema));
  if (!has({"model_parallel"})) std::erase_if(schema, [](const ConfigKey& key) { return key.path == "devices"; });
  return schema;
}

actors::ReplicaGroupOptions read_group(const ConfigSection& keys) {
  actors::ReplicaGroupOptions group;
  group.replicator = keys.get_string("replicator");
  group.count = keys.get_int("count");
  if (keys.has("devices")) group.devices = keys.get_int("devices");
  group.reduce = keys.get_string("reduce");
  group.batch_size = keys.get_int("batch_size");
  group.accumulate = keys.get_int("accumulate");
  group.deterministic = keys.get_bool("deterministic");
  group.wire = keys.get_string("wire");
  group.compute = keys.get_string("compute");
  group.device = keys.get_strings("device");
  group.threads = keys.get_int("threads");
  if (!keys.has("ps_shards")) return group;
  group.ps_shards = keys.get_int("ps_shards");
  group.ps_partition = keys.get_string("ps_partition");
  group.staleness = keys.get_string("staleness");
  group.max_staleness = keys.get_int("max_staleness");
  group.backup_workers = keys.get_int("backup_workers");
  return group;
}

}  // namespace troupe::apps
