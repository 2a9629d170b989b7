#pragma once
// metrics.csv: every row of a run, one line each, for spreadsheets and pandas, and what a resumed run reads back.
#include <filesystem>
#include <string>
#include <vector>

#include <troupe/core/metrics.hpp>
#include <troupe/run/append_file.hpp>

namespace troupe::apps {

/// Columns wall_s, env_steps, learner_steps, then one a scalar name in order of first appearance; a row without a
/// scalar has an empty cell. Numbers read back to the same bits. Names are made printable, and quoted where RFC 4180
/// asks for it.
class CsvSink final : public MetricSink {
 public:
  /// Goes on with the file that is there, or begins one. A line that a crash cut short is dropped.
  /// Errors: kCorrupt (not a file that this sink wrote), kIo.
  static Result<CsvSink> open(std::filesystem::path path);

  Status rewind(const MetricRow& to) override;
  /// The row survives the death of the process from here on.
  /// A scalar that no row had before makes a column, for which the file is rewritten (in a run's first seconds).
  Status write(const MetricRow& row) override;
  Status flush() override { return file_.flush(); }

 private:
  CsvSink(std::filesystem::path path, AppendFile file, std::vector<std::string> names)
      : path_(std::move(path)), file_(std::move(file)), names_(std::move(names)) {}
  /// With a header of all names; `to`: without the rows beyond it.
  Status rewrite(const MetricRow* to);

  std::filesystem::path path_;
  AppendFile file_;
  std::vector<std::string> names_;  ///< of the scalar columns
  std::size_t columns_ = 0;         ///< of them that the file has
};

/// All rows of a metrics.csv. Scalars that a row lacks are left out. Errors: kNotFound, kIo, kCorrupt with the line.
Result<std::vector<MetricRow>> read_csv_metrics(const std::filesystem::path& path);

}  // namespace troupe::apps
