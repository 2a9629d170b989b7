#pragma once
// Runs as Prometheus scrapes them: the text format 0.0.4. Every name begins with troupe_, every series has the label
// run. What is of an instance has node, role and index besides; never `instance`, which is the scraper's own. Steps,
// paths and texts of errors are no labels: each value of a label is a series for ever. docs/metrics.md has the names.
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/page/watched_run.hpp>

namespace troupe::page {

class Exposition {
 public:
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

  void add(const WatchedRun& run);
  /// All families in the order of their names.
  std::string text() const;

 private:
  using Labels = std::vector<std::pair<std::string, std::string>>;
  struct Family {
    std::string help, type, series;
  };
  void sample(const std::string& name, const char* help, const WatchedRun& run, const Labels& labels, double value);
  void add_metrics(const WatchedRun& run);
  void add_seen(const WatchedRun& run);

  std::map<std::string, Family> families_;
};

/// The name of a column's quantity there: "steps_per_s" is "troupe_steps_per_second".
std::string prometheus_name(std::string_view quantity);

}  // namespace troupe::page
