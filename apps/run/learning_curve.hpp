#pragma once
// learning_curve.svg: the returns of a run's evaluations over wall time and over env steps.
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <troupe/actors/train.hpp>
#include <troupe/core/metrics.hpp>

namespace troupe::apps {

/// Round tick positions that cover [low, high] (low < high) with about `count` steps of 1, 2 or 5 times a power of ten.
std::vector<double> ticks(double low, double high, int count);

/// A complete SVG document: two panels, each with the mean as a line and one standard deviation around it as a band.
/// Without evaluations the panels are empty.
std::string learning_curve_svg(const std::string& title, std::span<const actors::Evaluation> evaluations);

/// Picks the evaluations out of a run's rows, keeps them, and redraws the file after each, so that a run that is killed
/// leaves a curve as well.
class LearningCurveSink final : public MetricSink {
 public:
  /// `earlier`: evaluations of the starts of the run before this one.
  LearningCurveSink(std::filesystem::path path, std::string title, std::vector<actors::Evaluation> earlier)
      : path_(std::move(path)), title_(std::move(title)), evaluations_(std::move(earlier)) {}

  Status rewind(const MetricRow& to) override;
  Status write(const MetricRow& row) override;
  Status flush() override;
  std::span<const actors::Evaluation> evaluations() const { return evaluations_; }

 private:
  std::filesystem::path path_;
  std::string title_;
  std::vector<actors::Evaluation> evaluations_;
};

}  // namespace troupe::apps
