#include <troupe/run/csv_table.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/check.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/csv_cells.hpp>

namespace troupe::apps {
namespace {

constexpr std::uint64_t kFileBytesMax = 4ull << 30;

template <typename T>
bool parse_cell(const std::string& cell, T& value) {
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error == std::errc() && end == cell.data() + cell.size();
}

bool fits(const std::string& cell, CsvColumn::Kind kind) {
  double number = 0;
  std::int64_t integer = 0;
  switch (kind) {
    case CsvColumn::Kind::kNumber:
      return parse_cell(cell, number);
    case CsvColumn::Kind::kInteger:
      return parse_cell(cell, integer);
    case CsvColumn::Kind::kText:
      return true;
    case CsvColumn::Kind::kNumberOrNothing:
      return cell.empty() || parse_cell(cell, number);
  }
  return false;
}

std::optional<CsvLine> parse_line(std::string_view text, std::span<const CsvColumn> fixed,
                                  const std::vector<std::string>& names) {
  std::vector<std::string> cells = csv_cells(text);
  if (cells.size() != fixed.size() + names.size()) return std::nullopt;
  CsvLine line;
  for (std::size_t i = 0; i < fixed.size(); ++i) {
    if (!fits(cells[i], fixed[i].kind)) return std::nullopt;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& cell = cells[fixed.size() + i];
    if (cell.empty()) continue;
    Scalar value{.name = names[i]};
    if (!parse_cell(cell, value.value)) return std::nullopt;
    line.values.push_back(std::move(value));
  }
  cells.resize(fixed.size());
  line.cells = std::move(cells);
  return line;
}

std::string line_text(const CsvLine& line, const std::vector<std::string>& names) {
  std::vector<std::string> cells;
  for (const std::string& cell : line.cells) cells.push_back(csv_text(cell));
  const std::size_t fixed = cells.size();
  cells.resize(fixed + names.size());
  for (const Scalar& value : line.values) {
    const auto column = std::ranges::find(names, value.name);
    TROUPE_CHECK(column != names.end(), "{} has no column", value.name);
    cells[fixed + static_cast<std::size_t>(column - names.begin())] = csv_number(value.value);
  }
  return fmt::format("{}\n", fmt::join(cells, ","));
}

std::string header_of(std::span<const CsvColumn> fixed) {
  std::vector<std::string_view> names;
  for (const CsvColumn& column : fixed) names.push_back(column.name);
  return fmt::format("{}", fmt::join(names, ","));
}

struct Contents {
  std::vector<std::string> names;
  std::vector<CsvLine> lines;
};

Result<Contents> read_contents(const std::filesystem::path& path, std::span<const CsvColumn> fixed) {
  const auto bytes = read_file(path.string(), kFileBytesMax);
  // What is no file, or is too long, is as damaged as one with other columns.
  if (!bytes.ok() && bytes.error().code == Code::kInvalidArgument) return Error{Code::kCorrupt, bytes.error().message};
  if (!bytes.ok()) return bytes.error();
  std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  const std::string header = header_of(fixed);
  Contents contents;
  for (std::size_t number = 1;; ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return contents;  // what has no line end was cut short by a crash
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (number == 1) {
      const std::vector<std::string> cells = csv_cells(line);
      if (!line.starts_with(header) || cells.size() < fixed.size() || cells[fixed.size() - 1] != fixed.back().name) {
        return Error{Code::kCorrupt, fmt::format("{}:1: got \"{}\", expected columns that begin with \"{}\"",
                                                 path.string(), printable(line), header)};
      }
      contents.names.assign(cells.begin() + static_cast<std::ptrdiff_t>(fixed.size()), cells.end());
      continue;
    }
    std::optional<CsvLine> parsed = parse_line(line, fixed, contents.names);
    if (!parsed) {
      return Error{Code::kCorrupt, fmt::format("{}:{}: got \"{}\", expected {} cells: {}{}", path.string(), number,
                                               printable(line), fixed.size() + contents.names.size(), header,
                                               contents.names.empty() ? "" : ", and numbers or nothing")};
    }
    contents.lines.push_back(std::move(*parsed));
  }
}

Status write_contents(const std::filesystem::path& path, std::span<const CsvColumn> fixed, const Contents& contents) {
  std::string text = header_of(fixed);
  for (const std::string& name : contents.names) text += ',' + csv_text(name);
  text += '\n';
  for (const CsvLine& line : contents.lines) text += line_text(line, contents.names);
  // Without a line there is nothing that a power cut could take, and a run's first rows need not wait for the disk.
  return contents.lines.empty() ? replace_file(path.string(), text) : write_file_atomic(path.string(), text);
}

}  // namespace

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string made = "\"";
  for (const char c : text) made += c == '"' ? std::string("\"\"") : std::string(1, c);
  return made + '"';
}

std::string csv_number(double value) { return fmt::format("{}", value); }

double CsvLine::number(std::size_t cell) const {
  double value = 0;
  return parse_cell(cells.at(cell), value) ? value : std::nan("");
}

std::int64_t CsvLine::integer(std::size_t cell) const {
  std::int64_t value = 0;
  parse_cell(cells.at(cell), value);
  return value;
}

Result<std::vector<CsvLine>> read_csv(const std::filesystem::path& path, std::span<const CsvColumn> fixed) {
  TROUPE_ASSIGN(Contents contents, read_contents(path, fixed));
  return std::move(contents.lines);
}

Result<CsvTable> CsvTable::open(std::filesystem::path path, std::span<const CsvColumn> fixed) {
  Contents contents;
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (error) return Error{Code::kIo, fmt::format("{}: {}", path.string(), error.message())};
  if (there) {
    TROUPE_ASSIGN(contents, read_contents(path, fixed));
  }
  TROUPE_TRY(write_contents(path, fixed, contents));
  TROUPE_ASSIGN(AppendFile file, AppendFile::open(path.string()));
  return CsvTable(std::move(path), fixed, std::move(file), std::move(contents.names));
}

Status CsvTable::append(const CsvLine& from) {
  CsvLine line = from;
  for (std::string& cell : line.cells) cell = printable(cell);  // a line break would end the line
  for (Scalar& value : line.values) {
    value.name = printable(value.name);
    if (std::ranges::find(names_, value.name) == names_.end()) names_.push_back(value.name);
  }
  std::error_code gone;  // or emptied, by somebody else
  const bool there = std::filesystem::file_size(path_, gone) > 0 && !gone;
  if (names_.size() > columns_ || !there) TROUPE_TRY(rewrite([](const CsvLine&) { return true; }));
  return file_.append(line_text(line, names_));
}

Status CsvTable::keep(const std::function<bool(const CsvLine&)>& wanted) { return rewrite(wanted); }

Status CsvTable::rewrite(const std::function<bool(const CsvLine&)>& wanted) {
  TROUPE_TRY(file_.flush());
  Contents contents;
  std::error_code unknown;
  if (std::filesystem::exists(path_, unknown)) {  // else somebody has removed it, and the rows to come are in a new one
    TROUPE_ASSIGN(contents, read_contents(path_, fixed_));
  }
  for (const std::string& name : contents.names) {
    if (std::ranges::find(names_, name) != names_.end()) continue;
    return Error{Code::kCorrupt,
                 fmt::format("{}: has a column \"{}\" that this run did not write: another one writes there",
                             path_.string(), printable(name))};
  }
  contents.names = names_;
  std::erase_if(contents.lines, [&](const CsvLine& line) { return !wanted(line); });
  TROUPE_TRY(write_contents(path_, fixed_, contents));
  TROUPE_ASSIGN(file_, AppendFile::open(path_.string()));
  columns_ = names_.size();
  return {};
}

}  // namespace troupe::apps
