#pragma once
// The sink of whoever has no metrics to write: a topology that is only looked at, a node that is not the chief's.
#include <troupe/core/metrics.hpp>

namespace troupe::actors {

class NoMetrics final : public MetricSink {
 public:
  Status write(const MetricRow&) override { return {}; }
  Status flush() override { return {}; }
};

}  // namespace troupe::actors
