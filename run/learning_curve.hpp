#pragma once
// learning_curve.svg: what a run's evaluations have found, over wall time and over steps: the returns of its
// environment, and each number of each replica group's evaluator (accuracy, loss, Frechet distance, ...).
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/metrics.hpp>
#include <troupe/run/train.hpp>

namespace troupe::apps {

/// Round tick positions within [low, high] (low < high), about `count` steps of 1, 2 or 5 times a power of ten apart.
std::vector<double> ticks(double low, double high, int count);

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

/// Picks the evaluations out of a run's rows, keeps them, and redraws the file after each, so that a run that is killed
/// leaves a curve as well.
class LearningCurveSink final : public MetricSink {
 public:
  LearningCurveSink(std::filesystem::path path, std::string title) : path_(std::move(path)), title_(std::move(title)) {}

  /// Keeps what a row tells, without a new picture: the rows of the run's earlier starts.
  void add(const MetricRow& row);
  Status rewind(const MetricRow& to) override;
  Status write(const MetricRow& row) override;
  /// Without evaluations there is no file.
  Status flush() override;
  /// Of the environment.
  std::span<const actors::Evaluation> evaluations() const { return evaluations_; }

 private:
  /// One number of a group's evaluator.
  struct Found {
    MetricRow at;  ///< without scalars
    double step = 0;
    double value = 0;
  };
  /// Whether there is anything new in the row.
  bool take(const MetricRow& row);
  std::vector<Curve> curves() const;

  std::filesystem::path path_;
  std::string title_;
  std::vector<actors::Evaluation> evaluations_;
  std::map<std::string, std::vector<Found>> found_;  ///< by "GROUP-evaluator/NUMBER", in order
};

}  // namespace troupe::apps
