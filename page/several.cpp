#include <troupe/page/several.hpp>

#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <system_error>
#include <utility>

#include <troupe/core/text.hpp>
#include <troupe/page/watched_run.hpp>

namespace troupe::page {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::size_t kGlanceRowsMax = 300;
constexpr Duration kLookEvery = std::chrono::milliseconds(1900);
/// A run over nodes writes its status.json each ten seconds.
constexpr auto kFresh = std::chrono::seconds(15);

WatchedRun::State state_of(const apps::RunDirectory& run) {
  std::error_code error;
  if (!fs::is_directory(run.path, error)) return WatchedRun::State::kGone;
  const auto written = fs::last_write_time(run.status(), error);
  const bool fresh = !error && fs::file_time_type::clock::now() - written < kFresh;
  const auto summed_up = fs::last_write_time(run.summary(), error);
  if (!error && (!fresh || summed_up >= written)) return WatchedRun::State::kEnded;
  return fresh ? WatchedRun::State::kTrains : WatchedRun::State::kStopped;
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json curve_json(const apps::ComparedGroup& group, double apps::ReturnPoint::*axis) {
  Json x = Json::array(), iqm = Json::array(), low = Json::array(), high = Json::array();
  for (const auto& point : apps::mean_curve(group, axis).points) {
    x.push_back(number(point.x));
    iqm.push_back(number(point.iqm));
    low.push_back(number(point.interval.low));
    high.push_back(number(point.interval.high));
  }
  return {{"x", x}, {"iqm", iqm}, {"low", low}, {"high", high}};
}

Json group_json(const apps::ComparedGroup& group) {
  return {{"task", group.task},
          {"setting", group.setting},
          {"runs", group.seeds.size()},
          {"reached", group.reached},
          {"threshold", number(group.threshold)},
          {"iqm", number(group.iqm)},
          {"low", number(group.iqm_interval.low)},
          {"high", number(group.iqm_interval.high)},
          {"threshold_wall_s", number(group.threshold_wall_s)},
          {"env_steps_per_s", number(group.env_steps_per_s)},
          {"by_env_steps", curve_json(group, &apps::ReturnPoint::env_steps)},
          {"by_wall_s", curve_json(group, &apps::ReturnPoint::wall_s)}};
}

}  // namespace

Several::Several(std::vector<apps::RunDirectory> directories, Compare compare) : compare_(std::move(compare)) {
  for (apps::RunDirectory& directory : directories) {
    const fs::path evaluations = directory.evaluations();
    runs_.push_back(std::unique_ptr<Glance>(new Glance{std::move(directory), {evaluations, kGlanceRowsMax}, ""}));
  }
}

void Several::look() {
  const Duration now = clock_.now();
  if (looked_at_ != Duration{} && now - looked_at_ < kLookEvery) return;
  looked_at_ = now;
  changes_ = 0;
  note_.clear();
  for (const auto& run : runs_) {
    if (const Status read = run->evaluations.poll(); !read.ok()) note_ = printable(read.error().message);
    run->state = to_string(state_of(run->directory));
    changes_ += run->evaluations.generation() * 1'000'003 + run->evaluations.rows();
  }
}

void Several::compare() {
  const bool first = compared_at_ == Duration{};
  if (!compare_ || changes_ == compared_changes_ || (!first && clock_.now() - compared_at_ < kCompareEvery)) return;
  compared_changes_ = changes_;
  const auto compared = compare_();
  compared_at_ = clock_.now();
  if (!compared.ok()) {
    note_ = printable(compared.error().message);
    return;
  }
  Json groups = Json::array();
  for (const apps::ComparedGroup& group : compared->groups) groups.push_back(group_json(group));
  groups_ = groups.dump(-1, ' ', true, Json::error_handler_t::replace);
  ++comparison_;
}

std::string Several::news(Told& told) {
  const std::lock_guard lock(mutex_);
  look();
  told.evaluations.resize(runs_.size());
  std::string text = "{\"runs\":[";
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const Json one = {{"name", runs_[i]->directory.id()}, {"state", runs_[i]->state}};
    std::string json = one.dump();
    json.pop_back();
    if (const std::string rows = rows_of(runs_[i]->evaluations, told.evaluations[i]); !rows.empty()) {
      json += ",\"evaluations\":" + rows;
    }
    text += (i == 0 ? "" : ",") + json + '}';
  }
  text += "]";
  // The first picture does not wait for the comparison, which comes with the next.
  if (told.is_new) {
    told.is_new = false;
  } else {
    compare();
    if (told.comparison != comparison_) text += ",\"groups\":" + groups_;
    told.comparison = comparison_;
  }
  text += ",\"note\":" + Json(note_).dump() + '}';
  return text;
}

}  // namespace troupe::page
