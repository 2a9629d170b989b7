#pragma once
// A metric sink for tests of whole runs: it keeps the rows.
#include <vector>

#include <troupe/core/metrics.hpp>

namespace troupe::actors::testing {

class RecordingSink final : public MetricSink {
 public:
  Status write(const MetricRow& row) override {
    rows.push_back(row);
    return {};
  }
  Status rewind(const MetricRow& to) override {
    std::erase_if(rows, [&](const MetricRow& row) { return beyond(row, to); });
    return {};
  }
  Status flush() override { return {}; }

  std::vector<MetricRow> rows;
};

}  // namespace troupe::actors::testing
