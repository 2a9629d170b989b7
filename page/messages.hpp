#pragma once
// What the page's server tells the page of one run, as JSON: all of it at first, and then what is new each second.
//   {"run", "directory", "state", "notes",
//    "seen": the run as its chief sees it, its instances summed up (page/overview.hpp),
//    "config", "summary", "pictures": when they have changed,
//    "log": the lines that are new,
//    "metrics", "evaluations": rows_of() the files}
// Used by page/page_server.hpp; read by page/assets/page.js.
#include <cstddef>
#include <cstdint>
#include <string>

#include <troupe/page/watched_run.hpp>

namespace troupe::page {

/// How far one page has been told.
struct Told {
  struct Table {
    std::uint64_t generation = 0;
    std::size_t rows = 0;
  };
  Table metrics, evaluations;
  std::uint64_t log_lines = 0;
  std::string config, summary;
  std::size_t pictures = static_cast<std::size_t>(-1);
};

/// The rows of a table that a page has not, which `told` then includes: {"all": true or absent, "names": [...] with it,
/// "columns": [[...], ...]}; "" when there are none.
std::string rows_of(const apps::FollowedCsv& table, Told::Table& told);

/// What has changed since `told`, which then includes it.
std::string news_of(const WatchedRun& run, Told& told);

}  // namespace troupe::page
