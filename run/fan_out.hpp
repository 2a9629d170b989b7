#pragma once
// One stream of metrics, many sinks: what the training run gets as its only MetricSink.
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/log.hpp>
#include <troupe/core/metrics.hpp>

namespace troupe::apps {

/// Hands every row to every sink, in order, and every evaluation once, however often it comes: a metrics role that goes
/// down before it could say that it has recorded one gets it again. The sinks must outlive it. A disk that is full
/// costs rows, and a line in the log when it begins and when it ends, but never the run.
class FanOut final : public MetricSink {
 public:
  /// recorded: evaluations that the run's earlier starts have recorded.
  explicit FanOut(std::vector<MetricSink*> sinks, std::span<const Evaluation> recorded = {})
      : sinks_(std::move(sinks)) {
    for (const Evaluation& evaluation : recorded) recorded_[{evaluation.source, evaluation.step}] = evaluation.wall_s;
  }

  /// The first error is returned.
  Status rewind(const RunPoint& to) override {
    std::erase_if(recorded_, [&](const auto& entry) {
      return beyond(Evaluation{.wall_s = entry.second, .source = entry.first.first, .step = entry.first.second}, to);
    });
    return of_all([&](MetricSink& sink) { return sink.rewind(to); });
  }
  /// All sinks get the row even when one fails; the first error but kIo is returned.
  Status write(const MetricRow& row) override {
    return to_all([&](MetricSink& sink) { return sink.write(row); });
  }
  /// The same.
  Status record(const Evaluation& evaluation) override {
    if (!recorded_.emplace(std::pair(evaluation.source, evaluation.step), evaluation.wall_s).second) return {};
    return to_all([&](MetricSink& sink) { return sink.record(evaluation); });
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

  template <typename Call>
  Status to_all(Call call) {
    Status first;
    Status lost;
    for (MetricSink* sink : sinks_) {
      Status status = call(*sink);
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

  std::vector<MetricSink*> sinks_;
  std::map<std::pair<std::string, std::int64_t>, double> recorded_;  ///< wall time by source and step
  int rows_lost_ = 0;                                                ///< since a row last went to all sinks
};

}  // namespace troupe::apps
