#include <troupe/run/csv_metrics.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/check.hpp>
#include <troupe/core/text.hpp>

namespace troupe::apps {
namespace {

constexpr std::string_view kFixedColumns = "wall_s,env_steps,learner_steps";
constexpr std::size_t kFixedCount = 3;
constexpr std::uint64_t kFileBytesMax = 4ull << 30;

std::string quoted(const std::string& name) {
  if (name.find_first_of(",\"") == std::string::npos) return name;
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + '"';
}

std::string header_line(const std::vector<std::string>& names) {
  std::string line(kFixedColumns);
  for (const std::string& name : names) line += ',' + quoted(name);
  return line + '\n';
}

std::string row_line(const MetricRow& row, const std::vector<std::string>& names) {
  std::vector<std::string> cells(names.size());
  for (const Scalar& scalar : row.scalars) {
    const auto column = std::find(names.begin(), names.end(), scalar.name);
    TROUPE_CHECK(column != names.end(), "{} has no column", scalar.name);
    // fmt prints the shortest digits that read back to the same bits.
    cells[static_cast<std::size_t>(column - names.begin())] = fmt::format("{}", scalar.value);
  }
  std::string line = fmt::format("{},{},{}", row.wall_s, row.env_steps, row.learner_steps);
  for (const std::string& cell : cells) line += ',' + cell;
  return line + '\n';
}

/// Splits a line at its commas and takes quotes away.
std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> cells(1);
  bool in_quotes = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      const bool doubled = in_quotes && i + 1 < line.size() && line[i + 1] == '"';
      if (doubled) {
        cells.back() += line[++i];
      } else {
        in_quotes = !in_quotes;
      }
    } else if (line[i] == ',' && !in_quotes) {
      cells.emplace_back();
    } else {
      cells.back() += line[i];
    }
  }
  return cells;
}

template <typename T>
bool parse_number(const std::string& cell, T& value) {
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error == std::errc() && end == cell.data() + cell.size();
}

std::optional<MetricRow> parse_row(std::string_view line, const std::vector<std::string>& names) {
  const std::vector<std::string> cells = split(line);
  if (cells.size() != kFixedCount + names.size()) return std::nullopt;
  MetricRow row;
  if (!parse_number(cells[0], row.wall_s) || !parse_number(cells[1], row.env_steps) ||
      !parse_number(cells[2], row.learner_steps)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& cell = cells[kFixedCount + i];
    if (cell.empty()) continue;
    Scalar scalar{.name = names[i]};
    if (!parse_number(cell, scalar.value)) return std::nullopt;
    row.scalars.push_back(std::move(scalar));
  }
  return row;
}

struct Table {
  std::vector<std::string> names;
  std::vector<MetricRow> rows;
};

Result<Table> read_table(const std::filesystem::path& path) {
  TROUPE_ASSIGN(const std::vector<std::byte> bytes, read_file(path.string(), kFileBytesMax));
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto corrupt = [&](std::size_t line, std::string_view what) {
    return Error{Code::kCorrupt, fmt::format("{}:{}: {}", path.string(), line, what)};
  };
  Table table;
  for (std::size_t line_number = 1;; ++line_number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return table;  // what has no line end was cut short by a crash
    const std::string_view line = text.substr(0, end);
    if (line_number == 1) {
      const std::vector<std::string> cells = split(line);
      if (line.substr(0, kFixedColumns.size()) != kFixedColumns || cells.size() < kFixedCount) {
        return corrupt(1,
                       fmt::format("not a metrics file: got \"{}\", expected \"{}\"", printable(line), kFixedColumns));
      }
      table.names.assign(cells.begin() + kFixedCount, cells.end());
    } else {
      std::optional<MetricRow> row = parse_row(line, table.names);
      if (!row) {
        return corrupt(line_number, fmt::format("got \"{}\", expected {} numbers", printable(line),
                                                kFixedCount + table.names.size()));
      }
      table.rows.push_back(std::move(*row));
    }
    text.remove_prefix(end + 1);
  }
}

Status write_table(const std::filesystem::path& path, const Table& table) {
  std::string text = header_line(table.names);
  for (const MetricRow& row : table.rows) text += row_line(row, table.names);
  return write_file_atomic(path.string(), text);
}

}  // namespace

Result<CsvSink> CsvSink::open(std::filesystem::path path) {
  Table table;
  if (std::filesystem::exists(path)) {
    TROUPE_ASSIGN(table, read_table(path));
  }
  TROUPE_TRY(write_table(path, table));
  TROUPE_ASSIGN(AppendFile file, AppendFile::open(path.string()));
  return CsvSink(std::move(path), std::move(file), std::move(table.names));
}

Status CsvSink::write(const MetricRow& from) {
  MetricRow row = from;
  for (Scalar& scalar : row.scalars) {
    scalar.name = printable(scalar.name);  // a line break would end the header
    if (std::find(names_.begin(), names_.end(), scalar.name) == names_.end()) names_.push_back(scalar.name);
  }
  if (names_.size() > columns_) TROUPE_TRY(rewrite(nullptr));
  TROUPE_TRY(file_.append(row_line(row, names_)));
  return file_.flush();
}

Status CsvSink::rewind(const MetricRow& to) { return rewrite(&to); }

Status CsvSink::rewrite(const MetricRow* to) {
  TROUPE_TRY(file_.flush());
  TROUPE_ASSIGN(Table table, read_table(path_));
  table.names = names_;
  if (to != nullptr) std::erase_if(table.rows, [&](const MetricRow& row) { return beyond(row, *to); });
  TROUPE_TRY(write_table(path_, table));
  TROUPE_ASSIGN(file_, AppendFile::open(path_.string()));
  columns_ = names_.size();
  return {};
}

Result<std::vector<MetricRow>> read_csv_metrics(const std::filesystem::path& path) {
  TROUPE_ASSIGN(Table table, read_table(path));
  return std::move(table.rows);
}

}  // namespace troupe::apps
