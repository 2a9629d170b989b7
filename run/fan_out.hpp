#pragma once
// One stream of metrics, many sinks: what the training run gets as its only MetricSink.
#include <utility>
#include <vector>

#include <troupe/core/log.hpp>
#include <troupe/core/metrics.hpp>

namespace troupe::apps {

/// Hands every row to every sink, in order. The sinks must outlive it. A disk that is full costs rows, and a line in
/// the log when it begins and when it ends, but never the run.
class FanOut final : public MetricSink {
 public:
  explicit FanOut(std::vector<MetricSink*> sinks) : sinks_(std::move(sinks)) {}

  /// The first error is returned.
  Status rewind(const MetricRow& to) override {
    return of_all([&](MetricSink& sink) { return sink.rewind(to); });
  }
  /// All sinks get the row even when one fails; the first error but kIo is returned.
  Status write(const MetricRow& row) override {
    Status first;
    Status lost;
    for (MetricSink* sink : sinks_) {
      Status status = sink->write(row);
      if (status.ok()) continue;
      Status& kind = status.error().code == Code::kIo ? lost : first;
      if (kind.ok()) kind = std::move(status);
    }
    if (!lost.ok() && rows_lost_++ == 0) {
      log::error("TRP-E604 {}; metrics are lost until they can be written again", lost.error().message);
    } else if (lost.ok() && rows_lost_ > 0) {
      log::info("TRP-I605 metrics are written again; rows lost: {}", std::exchange(rows_lost_, 0));
    }
    return first;
  }
  /// The first error is returned.
  Status flush() override {
    return of_all([](MetricSink& sink) { return sink.flush(); });
  }

 private:
  template <typename Call>
  Status of_all(Call call) {
    Status first;
    for (MetricSink* sink : sinks_) {
      Status status = call(*sink);
      if (first.ok() && !status.ok()) first = std::move(status);
    }
    return first;
  }

  std::vector<MetricSink*> sinks_;
  int rows_lost_ = 0;  ///< since a row last went to all sinks
};

}  // namespace troupe::apps
