#pragma once
// The cells of a line of CSV (RFC 4180), one at a time. Used by what follows a run's files.
#include <algorithm>
#include <string>
#include <string_view>

namespace troupe::page {

/// The next cell of a line, without its quotes; takes it and its comma away.
inline std::string next_cell(std::string_view& line) {
  std::string cell;
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
  const std::size_t end = std::min(line.find(','), line.size());
  cell += line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return cell;
}

}  // namespace troupe::page
