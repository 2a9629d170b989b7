#pragma once
// Replay tables that steps draw from.
#include <vector>

#include <troupe/bench/learner/random_rows.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::learner {

/// Fills a table to its last item with noise and random priorities.
inline void fill(replay::Table& table) {
  constexpr std::int64_t kRows = 1000;
  BatchBuffer rows(table.options().signature, kRows);
  fill_with_noise(rows);
  Rng rng(2);
  std::vector<double> priorities(kRows);
  while (table.info().items < table.options().max_items) {
    for (double& priority : priorities) priority = rng.uniform();
    (void)table.insert(rows.view(), priorities).value();
  }
}

}  // namespace troupe::learner
