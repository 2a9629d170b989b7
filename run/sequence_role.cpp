#include <troupe/run/sequence_role.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include <troupe/actors/roles/sequence_replay.hpp>

namespace troupe {
namespace {

constexpr double kItemsMax = 1e9;

std::string capacity_key(std::string table) {
  std::ranges::replace(table, '-', '_');
  return table + "_max_items";
}

}  // namespace

RoleKind sequence_replay_of(replay::SequenceOptions options) {
  RoleKind kind;
  kind.doc = "Holds tables of sequences of time steps, which they share";
  kind.inlets = actors::SequenceReplay::inlets(options);
  for (const replay::TableOptions& table : options.tables) {
    kind.keys.push_back({.path = capacity_key(table.name),
                         .default_value = table.max_items,
                         .doc = "Capacity of the table of this name",
                         .unit = "items",
                         .min = 1,
                         .max = kItemsMax});
  }
  kind.make = [options = std::move(options)](const ConfigSection& keys) -> Result<actors::RoleFactory> {
    replay::SequenceOptions chosen = options;
    for (replay::TableOptions& table : chosen.tables) table.max_items = keys.get_int(capacity_key(table.name));
    TROUPE_TRY(replay::SequenceTables::make(chosen));
    return actors::RoleFactory(
        [chosen](const actors::RoleIdentity& identity) { return actors::SequenceReplay::make(chosen, identity); });
  };
  kind.restart_from = actors::RestartFrom::kLastCut;
  return kind;
}

}  // namespace troupe
