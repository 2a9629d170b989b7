#pragma once
// A metric sink for tests of whole runs: it keeps rows and evaluations, of these also what comes twice.
#include <string>
#include <vector>

#include <troupe/core/metrics.hpp>

namespace troupe::actors::testing {

class RecordingSink final : public MetricSink {
 public:
  Status write(const MetricRow& row) override {
    rows.push_back(row);
    return {};
  }
  Status record(const Evaluation& evaluation) override {
    evaluations.push_back(evaluation);
    return {};
  }
  Status rewind(const RunPoint& to) override {
    std::erase_if(rows, [&](const MetricRow& row) { return beyond(row, to); });
    std::erase_if(evaluations, [&](const Evaluation& evaluation) { return beyond(evaluation, to); });
    return {};
  }
  Status flush() override { return {}; }

  /// Of one source, in order.
  std::vector<std::int64_t> evaluated_steps(const std::string& source) const {
    std::vector<std::int64_t> steps;
    for (const Evaluation& evaluation : evaluations) {
      if (evaluation.source == source) steps.push_back(evaluation.step);
    }
    return steps;
  }

  std::vector<MetricRow> rows;
  std::vector<Evaluation> evaluations;
};

}  // namespace troupe::actors::testing
