#include <troupe/apps/run/progress.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <troupe/apps/run/evaluations.hpp>
#include <troupe/apps/run/units.hpp>

namespace troupe::apps {
namespace {

using std::chrono::milliseconds;
constexpr Duration kLivePeriod = milliseconds(250);
constexpr Duration kPlainPeriod = milliseconds(5000);
constexpr double kUnknown = -1;

}  // namespace

void ProgressState::update(const MetricRow& row) {
  for (const Scalar& scalar : row.scalars) values_[scalar.name] = scalar.value;
  last_ = row;
}

double ProgressState::value(const std::string& name, double otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second;
}

double ProgressState::left_s() const {
  double left = std::numeric_limits<double>::infinity();
  const auto limit = [&](double remaining, double rate) {
    if (rate > 0) left = std::min(left, std::max(remaining, 0.0) / rate);
  };
  if (limits_.max_minutes > 0) limit(limits_.max_minutes * 60 - last_.wall_s, 1);
  if (limits_.max_env_steps > 0) {
    limit(static_cast<double>(limits_.max_env_steps - last_.env_steps), value("actor/steps_per_s", 0));
  }
  if (limits_.max_learner_steps > 0) {
    limit(static_cast<double>(limits_.max_learner_steps - last_.learner_steps), value("learner/steps_per_s", 0));
  }
  return left;
}

std::string ProgressState::line() const {
  std::string text = format_duration(last_.wall_s);
  const auto with_rate = [&](std::string_view name, std::int64_t count, double rate) {
    text += fmt::format("  {} {}", name, format_count(static_cast<double>(count)));
    if (rate != kUnknown) text += fmt::format(" ({}/s)", format_count(rate));
  };
  with_rate("env", last_.env_steps, value("actor/steps_per_s", kUnknown));
  with_rate("learner", last_.learner_steps, value("learner/steps_per_s", kUnknown));
  if (values_.count("evaluator/return") > 0) text += fmt::format("  return {:.1f}", values_.at("evaluator/return"));
  if (values_.count("replay/items") > 0) text += fmt::format("  replay {}", format_count(values_.at("replay/items")));
  if (values_.count("parameters/staleness_mean") > 0) {
    text += fmt::format("  staleness {:.1f}", values_.at("parameters/staleness_mean"));
  }
  if (std::isfinite(left_s())) text += fmt::format("  left {}", format_duration(left_s()));
  return text;
}

Status ProgressSink::write(const MetricRow& row) {
  state_.update(row);
  const Duration now = clock_.now();
  const Duration period = style_ == ProgressStyle::kLive ? kLivePeriod : kPlainPeriod;
  if (!drawn_ || now - drawn_at_ >= period || evaluation_of(row).has_value()) {
    drawn_ = true;
    drawn_at_ = now;
    draw();
  }
  return {};
}

void ProgressSink::draw() {
  std::string line = state_.line();
  if (style_ == ProgressStyle::kPlain) {
    line += '\n';
  } else {
    // One column stays free: writing into the last one would wrap on some terminals.
    if (columns_ > 1) line.resize(std::min(line.size(), static_cast<std::size_t>(columns_ - 1)));
    line = "\r" + line + "\x1b[K";  // erases what the line before had more
    line_open_ = true;
  }
  std::fputs(line.c_str(), out_);
  std::fflush(out_);
}

Status ProgressSink::flush() {
  std::fflush(out_);
  return {};
}

void ProgressSink::finish() {
  if (line_open_) std::fputs("\n", out_);
  line_open_ = false;
  std::fflush(out_);
}

}  // namespace troupe::apps
