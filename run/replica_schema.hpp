#pragma once
// The keys of [replicas.NAME], the sections of groups of replicas that train together, and the options they become.
// Part of the schema of a training run (run/train_schema.hpp).
#include <string>
#include <vector>

#include <troupe/core/config.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::apps {

/// The most that a number of steps or bytes may be: far beyond any run, and exact in a double.
inline constexpr double kCountMax = 1e15;

/// Patterns "replicas.*.KEY", with the defaults of actors::ReplicaGroupOptions and actors::ReplicaModelOptions.
ConfigSchema replica_schema();

/// One for each section, in the order of their names; seeds follow from the run's.
std::vector<actors::ReplicaRun> to_replica_runs(const Config& config);

/// What only several keys together can get wrong, one line a mistake, each beginning with the place of a key.
std::vector<std::string> replica_mistakes(const Config& config);

}  // namespace troupe::apps
