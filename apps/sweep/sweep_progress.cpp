#include <troupe/apps/sweep/sweep_progress.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <troupe/core/text.hpp>
#include <troupe/run/evaluations.hpp>
#include <troupe/run/units.hpp>

namespace troupe::apps {
namespace {

constexpr std::size_t kRowsHeld = 64;

/// The newest value of every column from `first` on.
std::vector<Scalar> newest_of(const FollowedCsv& table, std::size_t first) {
  std::vector<Scalar> values;
  for (std::size_t column = first; column < table.names().size(); ++column) {
    for (std::size_t row = table.rows(); row-- > 0;) {
      if (std::isnan(table.cell(row, column))) continue;
      values.push_back({table.names()[column], table.cell(row, column)});
      break;
    }
  }
  return values;
}

/// What a file that is not there yet, or cannot be read, would have said is left out of the line.
void look_at(FollowedCsv& metrics, FollowedCsv& evaluations, ProgressState& recorded) {
  if (metrics.poll().ok() && metrics.rows() > 0 && metrics.names().size() >= 3) {
    const std::size_t last = metrics.rows() - 1;
    const auto count = [&](std::size_t column) { return static_cast<std::int64_t>(metrics.cell(last, column)); };
    recorded.update(MetricRow{metrics.cell(last, 0), count(1), count(2), newest_of(metrics, 3)});
  }
  if (!evaluations.poll().ok()) return;
  const std::size_t source = evaluations.find("source"), mean = evaluations.find(kReturn);
  if (std::max(source, mean) >= evaluations.names().size()) return;
  for (std::size_t row = 0; row < evaluations.rows(); ++row) {
    recorded.update(Evaluation{.source = evaluations.text(evaluations.cell(row, source)),
                               .values = {{std::string(kReturn), evaluations.cell(row, mean)}}});
  }
}

std::optional<double> mean_of(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

void SweepProgress::add(std::string name, std::string config, RunDirectory directory, RunLimits limits) {
  runs_.push_back({std::move(name), std::move(config), std::move(directory), std::move(limits)});
}

void SweepProgress::begins(std::size_t number) {
  Run& run = runs_.at(number);
  run.state = Run::State::kRuns;
  run.begun = clock_.now();
  run.metrics = std::make_unique<FollowedCsv>(run.directory.metrics(), kRowsHeld);
  run.evaluations = std::make_unique<FollowedCsv>(run.directory.evaluations(), kRowsHeld);
  run.recorded.emplace(run.limits);
}

void SweepProgress::ends(std::size_t number, bool done) {
  Run& run = runs_.at(number);
  run.state = Run::State::kEnded;
  if (done) run.took_s = seconds(clock_.now() - run.begun);
  run.metrics.reset(), run.evaluations.reset(), run.recorded.reset();
}

void SweepProgress::look() {
  for (Run& run : runs_) {
    if (run.state == Run::State::kRuns) look_at(*run.metrics, *run.evaluations, *run.recorded);
  }
}

std::optional<double> SweepProgress::left_s(const Run& run) const {
  // By all of its time so far: its rate of the moment is another whenever it judges itself.
  const double done = run.recorded->share_done().value_or(0);
  return done > 0 ? std::optional(run.recorded->wall_s() * (1 - done) / done) : std::nullopt;
}

std::optional<double> SweepProgress::takes_s(const Run& run) const {
  if (run.state != Run::State::kRuns) return run.took_s;
  const auto left = left_s(run);
  return left ? std::optional(seconds(clock_.now() - run.begun) + *left) : std::nullopt;
}

std::optional<double> SweepProgress::left_s() const {
  const auto expected = [this](const Run& of) {
    std::vector<double> same, all;
    for (const Run& run : runs_) {
      const auto takes = takes_s(run);
      if (!takes) continue;
      all.push_back(*takes);
      if (run.config == of.config) same.push_back(*takes);
    }
    return mean_of(same.empty() ? all : same);
  };
  std::vector<double> places(jobs_, 0.0);  // when each is free
  std::size_t place = 0;
  for (const Run& run : runs_) {
    if (run.state != Run::State::kRuns) continue;
    auto left = left_s(run);
    if (const auto takes = expected(run); !left && takes) {
      left = std::max(*takes - seconds(clock_.now() - run.begun), 0.0);
    }
    if (!left) return std::nullopt;
    places[place++ % jobs_] += *left;
  }
  for (const Run& run : runs_) {
    if (run.state != Run::State::kWaits) continue;
    const auto takes = expected(run);
    if (!takes) return std::nullopt;
    *std::ranges::min_element(places) += *takes;
  }
  return *std::ranges::max_element(places);
}

std::string SweepProgress::in_words(const Run& run) const {
  std::string words = printable(run.name) + ": ";
  if (const auto done = run.recorded->share_done(); done && run.recorded->wall_s() > 0) {
    words += fmt::format("{:.0f} %", std::floor(100 * *done));
  } else {
    words += run.recorded->wall_s() == 0 ? "begins" : format_duration(run.recorded->wall_s());
  }
  if (const auto mean = run.recorded->mean_return()) words += fmt::format(", return {:.1f}", *mean);
  return words;
}

std::string SweepProgress::line(std::size_t columns_max) const {
  const auto left = left_s();
  std::string text = format_duration(seconds(clock_.now() - begun_)) +
                     (left ? fmt::format(" (about {} left)", format_duration(*left)) : "");
  std::size_t named = 0, more = 0;
  const auto append = [&](const std::string& part) {
    const bool fits = text.size() + 2 + part.size() <= columns_max;
    if (fits) text += "  " + part;
    return fits;
  };
  for (const Run& run : runs_) {
    if (run.state == Run::State::kRuns) ++(append(in_words(run)) ? named : more);
  }
  if (more > 0) append(named > 0 ? fmt::format("and {} more", more) : fmt::format("{} at work", more));
  return text;
}

}  // namespace troupe::apps
