#pragma once
// What a table says about the items that it drew, as the rows of a batch have it: for every role that answers with one.
#include <cstddef>
#include <span>

#include <troupe/core/error.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::actors {

/// As many rows as items; lengths and parameters_versions are the caller's.
inline void describe(std::span<const replay::SampledItem> items, const messages::SampledBatchBuilder::Rows& rows) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    rows.keys[i] = items[i].key;
    rows.probabilities[i] = items[i].probability;
    rows.priorities[i] = items[i].priority;
    rows.times_sampled[i] = items[i].times_sampled;
  }
}

/// What a batch says of its table.
inline replay::TableInfo table_info(const messages::SampledBatchInfo& info) {
  return {.items = info.table_items,
          .bytes = info.table_bytes,
          .inserts = info.table_inserts,
          .samples = info.table_samples,
          .evictions = info.table_evictions};
}

/// Of the batch that is drawn next. Errors: those of Table::mass().
inline Result<messages::SampledBatchInfo> about(const replay::Table& table, std::uint64_t sequence) {
  TROUPE_ASSIGN(const double mass, table.mass());
  const replay::TableInfo info = table.info();
  return messages::SampledBatchInfo{.sequence = sequence,
                                    .table_items = info.items,
                                    .table_mass = mass,
                                    .table_bytes = info.bytes,
                                    .table_inserts = info.inserts,
                                    .table_samples = info.samples,
                                    .table_evictions = info.evictions};
}

}  // namespace troupe::actors
