#pragma once
// The kind of role that holds several tables of shared time steps (actors/roles/sequence_replay.hpp), for a program's
// registry:
//   mine.role("experience", troupe::sequence_replay_of({.step = {{"observation", DType::kF32, {4}}, ...},
//                                                       .tables = {{.name = "recent", .max_items = 1000}, ...}}));
// and in a configuration [roles.experience] kind = "experience", recent_max_items = 5000.
#include <troupe/replay/sequence_tables.hpp>
#include <troupe/run/registry.hpp>

namespace troupe {

/// Seeds are the run's. Extensions of tables are told of the items of all instances. Keys: TABLE_max_items of each
/// table. Whoever uses the kind hears of options that SequenceTables::make() refuses.
RoleKind sequence_replay_of(replay::SequenceOptions options);

}  // namespace troupe
