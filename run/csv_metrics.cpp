#include <troupe/run/csv_metrics.hpp>

#include <fmt/core.h>

#include <array>
#include <utility>

namespace troupe::apps {
namespace {

using Kind = CsvColumn::Kind;

constexpr std::array kMetricsColumns = {CsvColumn{"wall_s"}, CsvColumn{"env_steps", Kind::kInteger},
                                        CsvColumn{"learner_steps", Kind::kInteger}};
constexpr std::array kChannelsColumns = {CsvColumn{"wall_s"},
                                         CsvColumn{"env_steps", Kind::kInteger},
                                         CsvColumn{"learner_steps", Kind::kInteger},
                                         CsvColumn{"role", Kind::kText},
                                         CsvColumn{"port", Kind::kText},
                                         CsvColumn{"frames_per_s"},
                                         CsvColumn{"bytes_per_s"},
                                         CsvColumn{"waiting"},
                                         CsvColumn{"refused_per_s"},
                                         CsvColumn{"depth", Kind::kNumberOrNothing}};
constexpr std::array kEvaluationsColumns = {CsvColumn{"wall_s"}, CsvColumn{"source", Kind::kText},
                                            CsvColumn{"step", Kind::kInteger}, CsvColumn{"env_steps", Kind::kInteger}};
constexpr std::size_t kWaitingMax = 1000;

std::vector<std::string> cells_of(const MetricRow& row) {
  return {csv_number(row.wall_s), std::to_string(row.env_steps), std::to_string(row.learner_steps)};
}

MetricRow row_of(CsvLine line) { return {line.number(0), line.integer(1), line.integer(2), std::move(line.values)}; }

CsvLine line_of(const MetricRow& row, const PortTraffic& port) {
  CsvLine line{cells_of(row)};
  line.cells.insert(line.cells.end(), {port.role, port.port, csv_number(port.frames_per_s),
                                       csv_number(port.bytes_per_s), csv_number(port.waiting),
                                       csv_number(port.refused_per_s), port.depth ? csv_number(*port.depth) : ""});
  return line;
}

Evaluation evaluation_of(CsvLine line) {
  return {line.number(0), line.cells[1], line.integer(2), line.integer(3), std::move(line.values)};
}

CsvLine line_of(const Evaluation& evaluation) {
  return {{csv_number(evaluation.wall_s), evaluation.source, std::to_string(evaluation.step),
           std::to_string(evaluation.env_steps)},
          evaluation.values};
}

}  // namespace

Result<CsvSink> CsvSink::open(const Paths& paths) {
  TROUPE_ASSIGN(CsvTable metrics, CsvTable::open(paths.metrics, kMetricsColumns));
  TROUPE_ASSIGN(CsvTable channels, CsvTable::open(paths.channels, kChannelsColumns));
  TROUPE_ASSIGN(CsvTable evaluations, CsvTable::open(paths.evaluations, kEvaluationsColumns));
  return CsvSink(std::move(metrics), std::move(channels), std::move(evaluations));
}

Status CsvSink::rewind(const RunPoint& to) {
  const auto row_stays = [&](const CsvLine& line) {
    return !beyond(MetricRow{line.number(0), line.integer(1), line.integer(2)}, to);
  };
  TROUPE_TRY(metrics_.keep(row_stays));
  TROUPE_TRY(channels_.keep(row_stays));
  std::erase_if(waiting_, [&](const Evaluation& evaluation) { return beyond(evaluation, to); });
  return evaluations_.keep([&](const CsvLine& line) { return !beyond(evaluation_of(line), to); });
}

Status CsvSink::write(const MetricRow& row) {
  TROUPE_TRY(metrics_.append({cells_of(row), row.scalars}));
  TROUPE_TRY(metrics_.flush());
  for (const PortTraffic& port : row.ports) TROUPE_TRY(channels_.append(line_of(row, port)));
  TROUPE_TRY(channels_.flush());
  return write_evaluations();
}

Status CsvSink::record(const Evaluation& evaluation) {
  if (waiting_.size() == kWaitingMax) waiting_.erase(waiting_.begin());
  waiting_.push_back(evaluation);
  return write_evaluations();
}

Status CsvSink::write_evaluations() {
  while (!waiting_.empty()) {
    TROUPE_TRY(evaluations_.append(line_of(waiting_.front())));
    TROUPE_TRY(evaluations_.flush());
    waiting_.erase(waiting_.begin());
  }
  return {};
}

Status CsvSink::flush() {
  TROUPE_TRY(write_evaluations());
  TROUPE_TRY(metrics_.flush());
  return channels_.flush();
}

Result<std::vector<MetricRow>> read_metrics_csv(const std::filesystem::path& path) {
  TROUPE_ASSIGN(std::vector<CsvLine> lines, read_csv(path, kMetricsColumns));
  std::vector<MetricRow> rows;
  for (CsvLine& line : lines) rows.push_back(row_of(std::move(line)));
  return rows;
}

Result<std::vector<Evaluation>> read_evaluations_csv(const std::filesystem::path& path) {
  TROUPE_ASSIGN(std::vector<CsvLine> lines, read_csv(path, kEvaluationsColumns));
  std::vector<Evaluation> evaluations;
  for (CsvLine& line : lines) evaluations.push_back(evaluation_of(std::move(line)));
  return evaluations;
}

Result<std::vector<CsvLine>> read_channels_csv(const std::filesystem::path& path) {
  return read_csv(path, kChannelsColumns);
}

}  // namespace troupe::apps
