#pragma once
// A CSV file that a run adds lines to while it lasts, and that a resumed run goes on with: metrics.csv, channels.csv
// and evaluations.csv, whose columns csv_metrics.hpp explains. Spreadsheets and pandas can read it: it is RFC 4180 with
// printable names, and its numbers read back to the same bits.
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/run/append_file.hpp>

namespace troupe::apps {

/// A column that every line has.
struct CsvColumn {
  enum class Kind { kNumber, kInteger, kText, kNumberOrNothing };
  std::string_view name;
  Kind kind = Kind::kNumber;
};

/// A line: cells of the fixed columns, and the named values behind them; a value that a line lacks is an empty cell.
struct CsvLine {
  std::vector<std::string> cells;
  std::vector<Scalar> values = {};

  double number(std::size_t cell) const;  ///< NaN where there is nothing
  std::int64_t integer(std::size_t cell) const;
};

/// All lines of a file; one that a crash cut short, at the end, is left out.
/// Errors: kNotFound, kIo; kCorrupt, with the line: other columns than `fixed`, or a cell that its column cannot have.
Result<std::vector<CsvLine>> read_csv(const std::filesystem::path& path, std::span<const CsvColumn> fixed);

/// How text is written: in quotes where it has a comma or a quote in it.
std::string csv_text(const std::string& text);
/// How a number is written: the fewest digits that read back to the same bits.
std::string csv_number(double value);

class CsvTable {
 public:
  /// Goes on with the file that is there, or begins one. A line that a crash cut short is removed. The columns behind
  /// the `fixed` ones are those of values that some line has, in the order of their first appearance.
  /// Errors: those of read_csv() but kNotFound; kIo.
  static Result<CsvTable> open(std::filesystem::path path, std::span<const CsvColumn> fixed);

  /// Keeps the lines that are wanted.
  Status keep(const std::function<bool(const CsvLine&)>& wanted);
  /// The line survives the death of the process from the next flush on. When it has a value that no line had before,
  /// the file is written anew with one more column.
  Status append(const CsvLine& line);
  Status flush() { return file_.flush(); }

 private:
  CsvTable(std::filesystem::path path, std::span<const CsvColumn> fixed, AppendFile file,
           std::vector<std::string> names)
      : path_(std::move(path)),
        fixed_(fixed.begin(), fixed.end()),
        file_(std::move(file)),
        names_(std::move(names)),
        columns_(names_.size()) {}
  Status rewrite(const std::function<bool(const CsvLine&)>& wanted);

  std::filesystem::path path_;
  std::vector<CsvColumn> fixed_;
  AppendFile file_;
  std::vector<std::string> names_;  ///< of the values
  std::size_t columns_;             ///< of them that the file has
};

}  // namespace troupe::apps
