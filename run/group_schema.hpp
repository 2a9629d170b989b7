#pragma once
// The keys of how replicas run, alike for everything that is trained: [learner] of an agent and [replicas.NAME] have
// them. Which replicator, over how much, and on what it computes; parameter servers have some of their own. Part of the
// schemas of run/.
#include <string>
#include <vector>

#include <troupe/actors/roles/replica_options.hpp>
#include <troupe/core/config.hpp>

namespace troupe::apps {

/// The most that a number of steps or bytes may be: far beyond any run, and exact in a double.
inline constexpr double kCountMax = 1e15;

/// Paths are the keys alone. replicators: those that such a section may choose from; the first is its default. Keys
/// that none of them has a use for are left out.
ConfigSchema group_keys(const std::vector<std::string>& replicators, const actors::ReplicaGroupOptions& defaults);

/// What the section says; name, seed and steps are the caller's.
actors::ReplicaGroupOptions read_group(const ConfigSection& keys);

}  // namespace troupe::apps
