#include <troupe/page/screen.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/core/text.hpp>
#include <troupe/page/overview.hpp>
#include <troupe/run/units.hpp>

namespace troupe::page {
namespace {

using apps::format_count;
using apps::format_duration;

enum class Tone { kPlain, kStrong, kQuiet, kWarn, kBad };

struct ScreenLine {
  std::string text;
  Tone tone = Tone::kPlain;
};

std::string_view code_of(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return "";
    case Tone::kStrong:
      return "\x1b[1m";
    case Tone::kQuiet:
      return "\x1b[2m";
    case Tone::kWarn:
      return "\x1b[33m";
    case Tone::kBad:
      return "\x1b[31m";
  }
  return "";
}

/// The newest evaluations as bars of eighths, the oldest at the left: each column of the screen the mean of its share.
std::string spark_of(const std::vector<double>& values, std::size_t columns) {
  constexpr std::string_view kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const auto [low, high] = std::ranges::minmax(values);
  const std::size_t count = std::min(columns, values.size());
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t from = i * values.size() / count, to = (i + 1) * values.size() / count;
    double sum = 0;
    for (std::size_t at = from; at < to; ++at) sum += values[at];
    const double share = high > low ? (sum / static_cast<double>(to - from) - low) / (high - low) : 0.5;
    text += kBars[static_cast<std::size_t>(std::clamp(share * 8, 0.0, 7.0))];
  }
  return text;
}

void add_evaluations(std::vector<ScreenLine>& lines, const WatchedRun& run, std::size_t columns) {
  const apps::FollowedCsv& table = run.evaluations();
  const std::size_t source = table.find("source");
  for (const char* name : {"return", "frechet_distance", "inception_score", "accuracy"}) {
    const std::size_t column = table.find(name);
    if (column == table.names().size() || source == table.names().size()) continue;
    std::vector<std::pair<std::string, std::vector<double>>> series;
    for (std::size_t row = 0; row < table.rows(); ++row) {
      if (std::isnan(table.cell(row, column))) continue;
      const std::string& who = table.text(table.cell(row, source));
      auto found = std::ranges::find(series, who, &std::pair<std::string, std::vector<double>>::first);
      if (found == series.end()) found = series.insert(series.end(), {who, {}});
      found->second.push_back(table.cell(row, column));
    }
    for (const auto& [who, values] : series) {
      const std::string head = fmt::format("{:<18} {:>8.4g}  ", fmt::format("{} {}", who, name), values.back());
      lines.push_back({head + spark_of(values, columns > head.size() ? columns - head.size() : 0), Tone::kStrong});
    }
  }
}

std::string state_of_role(const RoleView& role) {
  std::string states;
  for (const auto& [state, count] : role.states) {
    states +=
        fmt::format("{}{}{}", states.empty() ? "" : ", ", role.instances > 1 ? fmt::format("{} ", count) : "", state);
  }
  return states;
}

void add_roles(std::vector<ScreenLine>& lines, const Overview& overview) {
  lines.push_back(
      {fmt::format("{:<24} {:<18} {:>8} {:>9}  {}", "role", "state", "restarts", "staleness", "waits"), Tone::kQuiet});
  for (const RoleView& role : overview.roles) {
    const bool down = std::ranges::any_of(role.states, [](const auto& state) {
      return state.first == "restarting" || state.first == "quarantined" || state.first == "waiting for its node";
    });
    std::string waits;
    if (role.waiting > 0) {
      waits =
          fmt::format("{}{} on {}", role.instances > 1 ? fmt::format("{} of {}, ", role.waiting, role.instances) : "",
                      format_duration(role.longest_idle_s), role.waits_for.empty() ? role.why : role.waits_for);
    }
    const std::string name = role.instances > 1 ? fmt::format("{} x{}", role.name, role.instances) : role.name;
    lines.push_back({fmt::format("{:<24} {:<18} {:>8} {:>9}  {}", name, state_of_role(role), role.restarts,
                                 role.staleness < 0 ? "" : std::to_string(role.staleness), waits),
                     down               ? Tone::kBad
                     : role.waiting > 0 ? Tone::kWarn
                                        : Tone::kPlain});
  }
}

void add_channels(std::vector<ScreenLine>& lines, const Overview& overview) {
  lines.push_back({fmt::format("{:<46} {:>9} {:>9} {:>9}", "channel", "frames/s", "MB/s", "depth"), Tone::kQuiet});
  for (const ChannelView& view : overview.channels) {
    const SeenChannel& channel = view.channel;
    lines.push_back({fmt::format("{:<46} {:>9} {:>9.2f} {:>9}{}",
                                 fmt::format("{}.{} > {}", channel.from, channel.from_port, channel.to),
                                 format_count(view.frames_per_s), view.bytes_per_s / 1e6, format_count(view.depth),
                                 view.producers_waiting > 0 ? "  full" : ""),
                     view.producers_waiting > 0 ? Tone::kWarn : Tone::kPlain});
  }
}

}  // namespace

std::string screen_of(const WatchedRun& run, const ScreenOptions& options) {
  std::vector<ScreenLine> lines;
  std::string head = fmt::format("{}  {}", run.name(), to_string(run.state()));
  if (const auto wall_s = run.newest("wall_s")) head += fmt::format("  {}", format_duration(*wall_s));
  if (const auto steps = run.newest("env_steps"); steps && *steps > 0)
    head += fmt::format("  env {}", format_count(*steps));
  if (const auto steps = run.newest("learner_steps")) head += fmt::format("  learner {}", format_count(*steps));
  lines.push_back({std::move(head), Tone::kStrong});
  add_evaluations(lines, run, options.columns);
  for (const std::string& note : run.notes()) lines.push_back({note, Tone::kWarn});
  if (run.seen()) {
    const Overview overview = overview_of(*run.seen(), run.traffic());
    for (const std::string& alarm : alarms_of(*run.seen())) lines.push_back({alarm, Tone::kBad});
    lines.push_back({});
    add_roles(lines, overview);
    lines.push_back({});
    add_channels(lines, overview);
    if (!run.seen()->waits.empty()) lines.push_back({});
    for (const std::string& line : run.seen()->waits) lines.push_back({line, Tone::kQuiet});
  } else {
    lines.push_back({"no topology is recorded: the run has not begun, or is of an older release", Tone::kQuiet});
  }
  if (lines.size() > options.rows) lines.resize(options.rows);
  std::string text;
  for (const ScreenLine& line : lines) {
    const std::string_view code = options.color ? code_of(line.tone) : "";
    // A bar is one column and three bytes.
    std::string shown;
    std::size_t column = 0;
    for (const char c : line.text) {
      if ((c & 0xc0) != 0x80 && ++column > options.columns) break;
      shown += c;
    }
    text += fmt::format("{}{}{}\n", code, shown, code.empty() ? "" : "\x1b[0m");
  }
  return text;
}

}  // namespace troupe::page
