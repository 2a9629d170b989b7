#pragma once
// One stream of metrics, many sinks: what the training run gets as its only MetricSink.
#include <vector>

#include <troupe/core/metrics.hpp>

namespace troupe::apps {

/// Hands every row to every sink, in order. The sinks must outlive it.
class FanOut final : public MetricSink {
 public:
  explicit FanOut(std::vector<MetricSink*> sinks) : sinks_(std::move(sinks)) {}

  /// All sinks get the row even when one fails; the first error is returned.
  Status write(const MetricRow& row) override {
    return for_each([&](MetricSink& sink) { return sink.write(row); });
  }
  Status flush() override {
    return for_each([](MetricSink& sink) { return sink.flush(); });
  }

 private:
  template <typename Call>
  Status for_each(Call call) {
    Status first;
    for (MetricSink* sink : sinks_) {
      Status status = call(*sink);
      if (first.ok() && !status.ok()) first = status;
    }
    return first;
  }

  std::vector<MetricSink*> sinks_;
};

}  // namespace troupe::apps
