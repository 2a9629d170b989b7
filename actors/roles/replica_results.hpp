#pragma once
// What a replica group has come to, as counters of a checkpoint: written by its roles, read by whoever sums up a run.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/metrics.hpp>
#include <troupe/messages/checkpoint.hpp>

namespace troupe::actors {

struct ReplicaSummary {
  std::string name;
  std::int64_t steps = 0;
  std::vector<Scalar> metrics;       ///< of the newest step
  std::int64_t evaluated_step = -1;  ///< whose parameters were evaluated last; -1: none
  std::vector<Scalar> evaluation;    ///< means over the data of the evaluation
};

/// Counters that keep a metric's bits.
std::vector<messages::Counter> metric_counters(std::span<const Scalar> metrics);

/// The metrics of a program's last run, by name.
std::vector<Scalar> scalars(std::span<const std::string> names, std::span<const double> values);

/// Sums up the group `name` from the counters of all instances, "<instance>/<counter>". The instance that is furthest
/// speaks for several.
ReplicaSummary replica_summary(const std::string& name, std::span<const messages::Counter> counters);

}  // namespace troupe::actors
