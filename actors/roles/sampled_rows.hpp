#pragma once
// What a table says about the items that it drew, as the rows of a batch have it: for every role that answers with one.
#include <cstddef>
#include <span>

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

}  // namespace troupe::actors
