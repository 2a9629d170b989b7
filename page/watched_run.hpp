#pragma once
// One run as somebody watches it, from its directory alone and, where it goes on over processes, from its chief too.
// The run knows nothing of it. Used by the page (page/server.hpp), the terminal and Prometheus.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/page/followed_text.hpp>
#include <troupe/page/seen_run.hpp>
#include <troupe/run/followed_csv.hpp>
#include <troupe/run/run_directory.hpp>

namespace troupe::page {

/// Asks the chief of a run over nodes for its status, as JSON; blocks for seconds at most. Errors: kNotFound: it is
/// none.
using AskChief = std::function<Result<std::string>(const apps::RunDirectory& run)>;

/// Not thread-safe.
class WatchedRun {
 public:
  enum class State {
    kTrains,
    kEnded,    ///< it has a summary
    kStopped,  ///< no process trains in it, and it has no summary
    kGone,     ///< the directory is not there any more
  };

  WatchedRun(apps::RunDirectory directory, AskChief ask, const Clock& clock);

  /// Looks at all files again. Takes milliseconds, but where a chief is asked that does not answer: then it asks again
  /// only after ten times the time that this took.
  void refresh();

  const apps::RunDirectory& directory() const { return directory_; }
  State state() const { return state_; }
  std::string name() const { return directory_.id(); }
  /// What cannot be read or asked, a line each.
  const std::vector<std::string>& notes() const { return notes_; }

  const apps::FollowedCsv& metrics() const { return metrics_; }
  const apps::FollowedCsv& evaluations() const { return evaluations_; }
  const FollowedText& log() const { return log_; }
  /// What went through the ports in the newest metrics period.
  const std::vector<PortTraffic>& traffic() const { return traffic_; }
  /// Nothing: the run is of a release that wrote no status.json, or has not begun.
  const std::optional<SeenRun>& seen() const { return seen_; }
  double seen_age_s() const { return seen_age_s_; }  ///< of seen(), when it was looked at
  const std::string& config() const { return config_; }
  const std::string& summary() const { return summary_; }  ///< JSON; empty: there is none
  /// Paths of the pictures and films in the run directory, relative to it, in their order: samples/gan/step-000001.png.
  const std::vector<std::string>& pictures() const { return pictures_; }

  /// The newest value of a column of metrics.csv; the newest row that has one counts.
  std::optional<double> newest(std::string_view column) const;

 private:
  void look_at_status();
  void look_at_channels();
  void look_at_state();
  void look_at_pictures();
  void note(const Status& status);

  apps::RunDirectory directory_;
  AskChief ask_;
  const Clock& clock_;
  apps::FollowedCsv metrics_, evaluations_;
  FollowedText log_, channels_;
  State state_ = State::kStopped;
  std::vector<std::string> notes_;
  std::vector<PortTraffic> traffic_;
  std::optional<SeenRun> seen_;
  double seen_age_s_ = 0;
  std::string config_, summary_;
  std::vector<std::string> pictures_;
  std::string chief_silent_;    ///< why the chief has not answered
  bool chief_answers_ = false;  ///< when it was last asked
  Duration ask_after_{}, lock_after_{}, files_after_{};
  bool locked_ = false;  ///< when it was last looked at
};

std::string_view to_string(WatchedRun::State state);

}  // namespace troupe::page
