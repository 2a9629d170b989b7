#pragma once
// The keys of [replicas.NAME], the sections of groups of replicas that train together, and the options they become:
// how replicas run (run/group_schema.hpp), and the keys of the model that the section names. Part of the schema of a
// training run (run/train_schema.hpp).
#include <string>
#include <vector>

#include <troupe/core/config.hpp>
#include <troupe/run/registry.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::apps {

/// Patterns "replicas.*.KEY"; the keys of a model are in the sections that name it.
ConfigSchema replica_schema(const Registry& registry);
/// The keys that all groups have, which those of a model must not be called like.
std::vector<std::string> common_group_keys();

/// One for each section of a configuration without mistakes, in the order of their names; seeds follow from the run's.
/// Errors: those of the models' make(), with their place.
Result<std::vector<actors::ReplicaRun>> to_replica_runs(const Config& config, const Registry& registry);

/// What only several keys together can get wrong, one line a mistake, each beginning with the place of a key.
std::vector<std::string> replica_mistakes(const Config& config, const Registry& registry);

}  // namespace troupe::apps
