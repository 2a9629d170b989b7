#include <troupe/run/comparison_table.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include <troupe/core/text.hpp>
#include <troupe/run/csv_table.hpp>
#include <troupe/run/units.hpp>

namespace troupe::apps {
namespace {

constexpr std::string_view kNothing = "-";

std::string exact(double value) { return std::isfinite(value) ? csv_number(value) : ""; }

/// Four digits, and never fewer than there are before the point.
std::string shown_return(double value) {
  if (!std::isfinite(value)) return std::string(kNothing);
  return std::fabs(value) >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string with_interval(double value, const Interval& interval) {
  if (!std::isfinite(interval.low)) return shown_return(value);
  return fmt::format("{} ({} to {})", shown_return(value), shown_return(interval.low), shown_return(interval.high));
}

std::string shown_count(double value) { return std::isfinite(value) ? format_count(value) : std::string(kNothing); }

std::string threshold_of(const Comparison& comparison) {
  const std::string text = to_string(comparison.options.threshold);
  return comparison.options.threshold.is_share ? text + " of the best" : text;
}

std::string seeds_of(const ComparedGroup& group) { return fmt::format("{}", fmt::join(group.seeds, " ")); }

std::vector<const ComparedGroup*> all_groups(const Comparison& comparison) {
  std::vector<const ComparedGroup*> all;
  for (const ComparedGroup& group : comparison.groups) all.push_back(&group);
  for (const ComparedGroup& group : comparison.totals) all.push_back(&group);
  return all;
}

struct Column {
  std::string name;
  std::function<std::string(const ComparedGroup&)> cell;
};

std::vector<Column> csv_columns(const Comparison& comparison) {
  const auto number = [](std::string name, auto of) {
    return Column{std::move(name), [of](const ComparedGroup& group) { return exact(of(group)); }};
  };
  std::vector<Column> columns = {
      {"task", [](const ComparedGroup& group) { return csv_text(printable(group.task)); }},
      {"setting", [](const ComparedGroup& group) { return csv_text(printable(group.setting)); }},
      {"runs", [](const ComparedGroup& group) { return std::to_string(group.seeds.size()); }},
      {"seeds", seeds_of},
      number("return_mean", [](const ComparedGroup& group) { return group.mean; }),
      number("return_mean_low", [](const ComparedGroup& group) { return group.mean_interval.low; }),
      number("return_mean_high", [](const ComparedGroup& group) { return group.mean_interval.high; }),
      number("return_std", [](const ComparedGroup& group) { return group.std; }),
      number("return_min", [](const ComparedGroup& group) { return group.min; }),
      number("return_max", [](const ComparedGroup& group) { return group.max; }),
      number("return_iqm", [](const ComparedGroup& group) { return group.iqm; }),
      number("return_iqm_low", [](const ComparedGroup& group) { return group.iqm_interval.low; }),
      number("return_iqm_high", [](const ComparedGroup& group) { return group.iqm_interval.high; })};
  for (std::size_t i = 0; i < comparison.options.at.size(); ++i) {
    columns.push_back(number(fmt::format("return_at_{}", comparison.options.at[i]),
                             [i](const ComparedGroup& group) { return group.at[i]; }));
  }
  const std::vector<Column> more = {
      number("threshold", [](const ComparedGroup& group) { return group.threshold; }),
      {"threshold_reached", [](const ComparedGroup& group) { return std::to_string(group.reached); }},
      number("threshold_env_steps", [](const ComparedGroup& group) { return group.threshold_env_steps; }),
      number("threshold_wall_s", [](const ComparedGroup& group) { return group.threshold_wall_s; }),
      number("env_steps", [](const ComparedGroup& group) { return group.env_steps; }),
      number("wall_s", [](const ComparedGroup& group) { return group.wall_s; }),
      number("env_steps_per_s", [](const ComparedGroup& group) { return group.env_steps_per_s; }),
      number("learner_steps_per_s", [](const ComparedGroup& group) { return group.learner_steps_per_s; })};
  columns.insert(columns.end(), more.begin(), more.end());
  return columns;
}

std::vector<Column> shown_columns(const Comparison& comparison) {
  std::vector<Column> columns = {{"task", [](const ComparedGroup& group) { return printable(group.task); }}};
  const bool told_apart = std::ranges::any_of(comparison.settings, [](const auto& text) { return !text.empty(); });
  if (told_apart) {
    columns.push_back({"setting", [](const ComparedGroup& group) { return printable(group.setting); }});
  }
  columns.insert(
      columns.end(),
      {{"runs", [](const ComparedGroup& group) { return std::to_string(group.seeds.size()); }},
       {"mean return (95 %)",
        [](const ComparedGroup& group) { return with_interval(group.mean, group.mean_interval); }},
       {"IQM (95 %)", [](const ComparedGroup& group) { return with_interval(group.iqm, group.iqm_interval); }},
       {"min to max",
        [](const ComparedGroup& group) {
          return fmt::format("{} to {}", shown_return(group.min), shown_return(group.max));
        }},
       {"deviation", [](const ComparedGroup& group) { return shown_return(group.std); }}});
  for (std::size_t i = 0; i < comparison.options.at.size(); ++i) {
    columns.push_back({fmt::format("at {} env steps", format_count(static_cast<double>(comparison.options.at[i]))),
                       [i](const ComparedGroup& group) { return shown_return(group.at[i]); }});
  }
  columns.insert(
      columns.end(),
      {{"reached " + threshold_of(comparison),
        [](const ComparedGroup& group) { return fmt::format("{}/{}", group.reached, group.seeds.size()); }},
       {"after env steps", [](const ComparedGroup& group) { return shown_count(group.threshold_env_steps); }},
       {"after time",
        [](const ComparedGroup& group) {
          return std::isfinite(group.threshold_wall_s) ? format_duration(group.threshold_wall_s)
                                                       : std::string(kNothing);
        }},
       {"env steps", [](const ComparedGroup& group) { return shown_count(group.env_steps); }},
       {"time", [](const ComparedGroup& group) { return format_duration(group.wall_s); }},
       {"env steps/s", [](const ComparedGroup& group) { return shown_count(group.env_steps_per_s); }},
       {"learner steps/s", [](const ComparedGroup& group) { return shown_count(group.learner_steps_per_s); }}});
  return columns;
}

std::string in_cell(const std::string& text) {
  std::string made;
  for (const char c : text) made += c == '|' ? std::string("\\|") : std::string(1, c);
  return made;
}

}  // namespace

std::string comparison_csv(const Comparison& comparison) {
  const std::vector<Column> columns = csv_columns(comparison);
  std::vector<std::string> cells;
  for (const Column& column : columns) cells.push_back(column.name);
  std::string csv = fmt::format("{}\n", fmt::join(cells, ","));
  for (const ComparedGroup* group : all_groups(comparison)) {
    cells.clear();
    for (const Column& column : columns) cells.push_back(column.cell(*group));
    csv += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return csv;
}

ShownTable shown_table(const Comparison& comparison) {
  const std::vector<Column> columns = shown_columns(comparison);
  ShownTable table;
  for (const Column& column : columns) table.headings.push_back(column.name);
  for (const ComparedGroup* group : all_groups(comparison)) {
    table.rows.emplace_back();
    for (const Column& column : columns) table.rows.back().push_back(column.cell(*group));
  }
  return table;
}

std::vector<std::string> notes_of(const Comparison& comparison) {
  std::vector<std::string> notes = {
      "Returns are those of each run's last evaluation, a mean over its episodes; the table's mean, least, greatest "
      "and "
      "deviation are over runs.",
      fmt::format("IQM is the mean of the middle half of the runs. In brackets are {:g} % bootstrap intervals of {} "
                  "resamples; those of several tasks together resample the runs of each task by themselves.",
                  BootstrapOptions{}.confidence * 100, BootstrapOptions{}.resamples),
      fmt::format("A run has reached {} with its first evaluation there{}; env steps and time until then are medians "
                  "over all runs, and there are none when fewer than half came so far.",
                  threshold_of(comparison),
                  comparison.options.threshold.is_share
                      ? ", where the best is the greatest mean return that a setting has in the task"
                      : "")};
  if (!comparison.options.at.empty()) {
    notes.emplace_back(
        "The return at a number of env steps is a mean of what lies, in each run, on the straight line between the "
        "evaluations before and after; a run that ended up to 5 % earlier has its last one.");
  }
  if (!comparison.totals.empty()) {
    notes.emplace_back("Returns of several tasks together are taken as they are, which needs tasks of one scale.");
  }
  const auto list = [&](std::string_view before, const std::vector<std::string>& all) {
    if (!all.empty()) notes.push_back(printable(fmt::format("{}{}.", before, fmt::join(all, "; ")), 4096));
  };
  list("Settings differ in ", comparison.keys);
  list("These keys differ as well and are not told apart: ", comparison.pooled);
  list("Stopped, or not at their ends yet: ", comparison.unfinished);
  list("Program: ", comparison.versions);
  list("Machine: ", comparison.machines);
  return notes;
}

std::string comparison_markdown(const Comparison& comparison) {
  const ShownTable table = shown_table(comparison);
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const std::string& cell : cells) text += fmt::format(" {} |", in_cell(cell));
    return text + "\n";
  };
  std::string text = line(table.headings) + "|";
  for (std::size_t i = 0; i < table.headings.size(); ++i) text += "---|";
  text += "\n";
  for (const auto& row : table.rows) text += line(row);
  text += "\n";
  for (const std::string& note : notes_of(comparison)) text += fmt::format("- {}\n", note);
  return text;
}

std::string comparison_text(const Comparison& comparison) {
  const ShownTable table = shown_table(comparison);
  std::vector<std::vector<std::string>> all = {table.headings};
  all.insert(all.end(), table.rows.begin(), table.rows.end());
  std::vector<std::size_t> widths(table.headings.size(), 0);
  for (const auto& row : all) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : all) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace troupe::apps
