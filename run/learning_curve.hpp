#pragma once
// learning_curve.svg: what a run's evaluations have found, over wall time and over steps: the returns of its
// environment, and each number of each replica group's evaluator (accuracy, loss, Frechet distance, ...).
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/metrics.hpp>

namespace troupe::apps {

/// One value over time: a row of two panels.
struct Curve {
  struct Point {
    double minutes = 0;
    double steps = 0;
    double mean = 0;
    double std = 0;
  };
  std::string value;  ///< what it is, for the y axes
  std::string steps;  ///< the same of the right panel's x axis
  std::string note;   ///< what line and band are; empty: no more to say than the axes do
  double top = 0;     ///< the y axes reach at least to here
  std::vector<Point> points = {};
};

/// A complete SVG document. Points that are not finite are left out, and curves without points have axes only.
std::string learning_curve_svg(const std::string& title, std::span<const Curve> curves);

/// Keeps a run's evaluations and redraws the file after each, so that a run that is killed leaves a curve as well.
class LearningCurveSink final : public MetricSink {
 public:
  /// earlier: what the run's earlier starts have recorded.
  LearningCurveSink(std::filesystem::path path, std::string title, std::vector<Evaluation> earlier = {})
      : path_(std::move(path)), title_(std::move(title)), evaluations_(std::move(earlier)) {}

  Status rewind(const RunPoint& to) override;
  Status write(const MetricRow&) override { return {}; }
  Status record(const Evaluation& evaluation) override;
  /// Writes no file when there are no evaluations.
  Status flush() override;
  std::span<const Evaluation> evaluations() const { return evaluations_; }

 private:
  std::vector<Curve> curves() const;

  std::filesystem::path path_;
  std::string title_;
  std::vector<Evaluation> evaluations_;
};

}  // namespace troupe::apps
