#include <troupe/run/comparison_page.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>

#include <troupe/core/atomic_file.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/chart.hpp>
#include <troupe/run/comparison_table.hpp>

namespace troupe::apps {
namespace {

/// A group with the colour of its setting.
struct DrawnGroup {
  const ComparedGroup* group = nullptr;
  std::string color;
};

std::size_t runs_of(const ComparedGroup& group) { return group.seeds.size(); }

/// x_unit: by what values of the axis are divided.
ChartPanel panel(std::span<const DrawnGroup> groups, double ReturnPoint::*axis, double x_unit, std::string x_label) {
  ChartPanel made{.x = {.label = std::move(x_label)}, .y = {.label = "evaluation return"}};
  std::vector<ChartLine> means;
  const auto reach = [&](double x, double y) {
    made.x.reach(x);
    made.y.reach(y);
  };
  for (const auto& [group, color] : groups) {
    const bool one_task = group->returns.size() == 1;
    for (const auto& run : group->returns.front()) {
      if (!one_task || runs_of(*group) == 1) break;  // of many tasks they would cover everything
      ChartLine line{.style = ChartLine::Style::kThin, .color = color};
      for (const ReturnPoint& point : run) {
        line.points.push_back({point.*axis / x_unit, point.value});
        reach(point.*axis / x_unit, point.value);
      }
      made.lines.push_back(std::move(line));
    }
    ChartBand band{.color = color};
    ChartLine iqm{.color = color}, mean{.style = ChartLine::Style::kDashed, .color = color};
    for (const MeanCurve::Point& point : mean_curve(*group, axis).points) {
      const double x = point.x / x_unit;
      iqm.points.push_back({x, point.iqm});
      mean.points.push_back({x, point.mean});
      reach(x, point.iqm);
      reach(x, point.mean);
      if (!std::isfinite(point.interval.low)) continue;
      band.points.push_back({x, point.interval.low, point.interval.high});
      reach(x, point.interval.low);
      reach(x, point.interval.high);
    }
    made.bands.push_back(std::move(band));
    if (runs_of(*group) > 1) means.push_back(std::move(mean));
    means.push_back(std::move(iqm));
  }
  std::ranges::move(means, std::back_inserter(made.lines));  // above the single runs
  return made;
}

std::string draw(const std::string& title, std::span<const DrawnGroup> groups) {
  std::vector<ChartKey> keys;
  bool single_runs = false;
  for (const auto& [group, color] : groups) {
    const std::size_t runs = runs_of(*group);
    keys.push_back({color, fmt::format("{}{}{} run{}", group->setting, group->setting.empty() ? "" : ": ", runs,
                                       runs == 1 ? "" : "s")});
    single_runs |= runs > 1 && group->returns.size() == 1;
  }
  const ChartRow row = {
      .left = panel(groups, &ReturnPoint::env_steps, 1, "env steps"),
      .right = panel(groups, &ReturnPoint::wall_s, 60, "wall time (minutes)"),
      .note = fmt::format("strong: interquartile mean, with its 95 % bootstrap interval; dashed: mean; both as far as "
                          "all runs go{}",
                          single_runs ? "; thin: single runs" : "")};
  return chart_svg(title, {&row, 1}, keys);
}

/// The groups of one task, or the totals, each in the colour that its setting has everywhere.
std::vector<DrawnGroup> in_colors(const Comparison& comparison, const std::vector<ComparedGroup>& all,
                                  const std::string* task) {
  std::vector<DrawnGroup> drawn;
  for (const ComparedGroup& group : all) {
    if (task != nullptr && group.task != *task) continue;
    const auto setting = std::ranges::find(comparison.settings, group.setting);
    drawn.push_back(
        {&group, std::string(chart_color(static_cast<std::size_t>(setting - comparison.settings.begin())))});
  }
  return drawn;
}

std::string html_row(const std::vector<std::string>& cells, const char* tag) {
  std::string row = "<tr>";
  for (const std::string& cell : cells) row += fmt::format("<{0}>{1}</{0}>", tag, escaped(cell));
  return row + "</tr>\n";
}

constexpr const char* kStyle =
    "body { font: 15px/1.45 sans-serif; color: #222; background: #fff; margin: 2em auto; max-width: 1000px; padding: 0 "
    "1em }\n"
    "table { border-collapse: collapse; font-size: 13px } div { overflow-x: auto }\n"
    "th, td { border: 1px solid #ddd; padding: 4px 8px; text-align: left; white-space: nowrap } th { background: "
    "#f5f5f5 }\n"
    "svg { max-width: 100%; height: auto } li, p { max-width: 50em }\n";

}  // namespace

std::vector<NamedPicture> comparison_curves(const Comparison& comparison) {
  std::vector<NamedPicture> pictures;
  if (!comparison.totals.empty()) {
    pictures.push_back({"all-tasks", draw(fmt::format("all {} tasks", comparison.tasks.size()),
                                          in_colors(comparison, comparison.totals, nullptr))});
  }
  for (const std::string& task : comparison.tasks) {
    pictures.push_back({safe_name(task), draw(task, in_colors(comparison, comparison.groups, &task))});
  }
  return pictures;
}

std::string comparison_page(const Comparison& comparison, const PageText& text,
                            const std::vector<NamedPicture>& curves) {
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta "
      "charset=\"utf-8\">\n<title>{0}</title>\n<style>\n{1}</style>\n"
      "</head>\n<body>\n<h1>{0}</h1>\n",
      escaped(text.title), kStyle);
  for (const std::string& sentence : text.about) page += fmt::format("<p>{}</p>\n", escaped(sentence));
  const ShownTable table = shown_table(comparison);
  page += "<div><table>\n" + html_row(table.headings, "th");
  for (const auto& row : table.rows) page += html_row(row, "td");
  page += "</table></div>\n<ul>\n";
  for (const std::string& note : notes_of(comparison)) page += fmt::format("<li>{}</li>\n", escaped(note));
  page += "</ul>\n";
  for (const NamedPicture& picture : curves) page += picture.svg;
  return page + "</body>\n</html>\n";
}

Status write_comparison(const Comparison& comparison, const PageText& text, const std::filesystem::path& folder,
                        const std::string& page) {
  const std::vector<NamedPicture> curves = comparison_curves(comparison);
  std::error_code error;
  std::filesystem::create_directories(folder / "curves", error);
  if (error) {
    return Error{Code::kIo, fmt::format("{}: {}", printable((folder / "curves").string()), error.message())};
  }
  TROUPE_TRY(write_file_atomic((folder / "table.csv").string(), comparison_csv(comparison)));
  TROUPE_TRY(write_file_atomic((folder / "table.md").string(), comparison_markdown(comparison)));
  for (const NamedPicture& picture : curves) {
    TROUPE_TRY(write_file_atomic((folder / "curves" / (picture.name + ".svg")).string(), picture.svg));
  }
  return write_file_atomic((folder / page).string(), comparison_page(comparison, text, curves));
}

}  // namespace troupe::apps
