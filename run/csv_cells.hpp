#pragma once
// The cells of a line of CSV (RFC 4180): for whoever reads a run's files whole (run/csv_table.hpp), and for whoever
// follows them (run/followed_csv.hpp).
#include <string>
#include <string_view>
#include <vector>

namespace troupe::apps {

/// Takes the next cell off a line, without its quotes, and its comma. False: there was none, so this was the last cell.
inline bool next_cell(std::string_view& line, std::string& cell) {
  cell.clear();
  if (line.starts_with('"')) {
    line.remove_prefix(1);
    while (!line.empty()) {
      const char c = line.front();
      line.remove_prefix(1);
      if (c != '"') {
        cell += c;
      } else if (line.starts_with('"')) {
        cell += '"';
        line.remove_prefix(1);
      } else {
        break;
      }
    }
  }
  const std::size_t comma = line.find(',');
  cell += line.substr(0, comma);
  const bool more = comma != std::string_view::npos;
  line.remove_prefix(more ? comma + 1 : line.size());
  return more;
}

/// All of them; an empty line has one empty cell.
inline std::vector<std::string> csv_cells(std::string_view line) {
  std::vector<std::string> cells;
  do cells.emplace_back();
  while (next_cell(line, cells.back()));
  return cells;
}

}  // namespace troupe::apps
