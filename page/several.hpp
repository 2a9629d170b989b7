#pragma once
// Several runs side by side, or a sweep: how far each is, what its evaluations say, and the curves of all together
// (run/comparison.hpp). Of each run only evaluations.csv and the names of its files are looked at.
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <troupe/core/clock.hpp>
#include <troupe/page/messages.hpp>
#include <troupe/run/comparison.hpp>
#include <troupe/run/followed_csv.hpp>
#include <troupe/run/run_directory.hpp>

namespace troupe::page {

/// Thread-safe.
class Several {
 public:
  /// Compares those runs that have been evaluated; may take seconds.
  using Compare = std::function<Result<apps::Comparison>()>;
  static constexpr Duration kCompareEvery = std::chrono::seconds(15);

  Several(std::vector<apps::RunDirectory> directories, Compare compare);

  /// How far one page has been told.
  struct Told {
    std::vector<page::Told::Table> evaluations;
    std::uint64_t comparison = 0;
    bool is_new = true;
  };
  /// {"runs": [{"name", "state", "evaluations": new rows or absent}], "groups": [...] when they have changed, "note"}
  std::string news(Told& told);

 private:
  struct Glance {
    apps::RunDirectory directory;
    apps::FollowedCsv evaluations;
    std::string state;
  };
  void look();
  void compare();

  Compare compare_;
  SteadyClock clock_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Glance>> runs_;
  Duration looked_at_{}, compared_at_{};
  std::uint64_t changes_ = 0, compared_changes_ = 0;  ///< rows of all runs, now and when they were compared
  std::uint64_t comparison_ = 0;                      ///< its number
  std::string groups_ = "[]", note_;
};

}  // namespace troupe::page
