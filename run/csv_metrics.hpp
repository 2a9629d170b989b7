#pragma once
// The numbers of a run as CSV files, one for each kind of event (docs/metrics.md explains their columns):
//   metrics.csv      a line a metrics period: how far the run is, and what its roles say of themselves
//   channels.csv     a line a metrics period and port: what went through it
//   evaluations.csv  a line an evaluation, each once
// They are what a resumed run reads back.
#include <filesystem>
#include <string>
#include <vector>

#include <troupe/core/metrics.hpp>
#include <troupe/run/csv_table.hpp>

namespace troupe::apps {

/// Writes the three files of a run. A disk that is full costs rows, but no evaluation: up to 1000 of these wait until
/// there is room again, which is tried with every row.
class CsvSink final : public MetricSink {
 public:
  struct Paths {
    std::filesystem::path metrics, channels, evaluations;
  };
  /// Goes on with the files that are there. Errors: those of CsvTable::open().
  static Result<CsvSink> open(const Paths& paths);

  Status rewind(const RunPoint& to) override;
  /// The row survives the death of the process from here on.
  Status write(const MetricRow& row) override;
  /// The same.
  Status record(const Evaluation& evaluation) override;
  Status flush() override;

 private:
  CsvSink(CsvTable metrics, CsvTable channels, CsvTable evaluations)
      : metrics_(std::move(metrics)), channels_(std::move(channels)), evaluations_(std::move(evaluations)) {}
  Status write_evaluations();

  CsvTable metrics_, channels_, evaluations_;
  std::vector<Evaluation> waiting_;  ///< not written yet
};

/// Errors of all: those of read_csv().
Result<std::vector<MetricRow>> read_metrics_csv(const std::filesystem::path& path);  ///< rows without ports
Result<std::vector<Evaluation>> read_evaluations_csv(const std::filesystem::path& path);
/// Reads channels.csv as lines of its fixed columns, in their order.
Result<std::vector<CsvLine>> read_channels_csv(const std::filesystem::path& path);

}  // namespace troupe::apps
