#include <troupe/actors/runtime/instance_report.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include <troupe/messages/reports.hpp>

namespace troupe::actors {
namespace {

// A scalar's name is ROLE/INDEX/KIND/NAME; ROLE and INDEX are the same for all of one report.
constexpr std::string_view kTotal = "total";
constexpr std::string_view kNow = "now";
constexpr std::string_view kSum = "sum";
constexpr double kTotalMax = 9e18;

}  // namespace

Result<Frame> make_instance_report(messages::FramePool& pool, const InstanceReport& report) {
  MetricRow row;
  auto add = [&](std::string_view kind, const Scalar& scalar) {
    row.scalars.push_back({fmt::format("{}/{}/{}/{}", report.role, report.index, kind, scalar.name), scalar.value});
  };
  for (const Scalar& scalar : report.content.counters) add(kTotal, scalar);
  for (const Scalar& scalar : report.content.gauges) add(kNow, scalar);
  for (const Scalar& scalar : report.content.sums) add(kSum, scalar);
  return messages::make_metrics(pool, row);
}

Result<InstanceReport> read_instance_report(const Frame& frame) {
  TROUPE_ASSIGN(const MetricRow row, messages::read_metrics(frame));
  InstanceReport report;
  if (row.scalars.size() > kReportScalarsMax) {
    return Error{Code::kInvalidArgument,
                 fmt::format("report: got {} scalars, expected at most {}", row.scalars.size(), kReportScalarsMax)};
  }
  for (const Scalar& scalar : row.scalars) {
    const std::string_view name = scalar.name;
    const auto first = name.find('/');
    const auto second = first == name.npos ? name.npos : name.find('/', first + 1);
    const auto third = second == name.npos ? name.npos : name.find('/', second + 1);
    const std::string_view index = third == name.npos ? "" : name.substr(first + 1, second - first - 1);
    const std::string_view kind = third == name.npos ? "" : name.substr(second + 1, third - second - 1);
    const std::int64_t index_before = report.index;
    const auto parsed = std::from_chars(index.data(), index.data() + index.size(), report.index);
    const bool whole = parsed.ec == std::errc{} && parsed.ptr == index.data() + index.size() && report.index >= 0;
    if (index.empty() || !whole || (kind != kTotal && kind != kNow && kind != kSum)) {
      return Error{Code::kInvalidArgument,
                   fmt::format("report: scalar is named \"{}\", expected ROLE/INDEX/(total|now|sum)/NAME", name)};
    }
    const bool same =
        &scalar == &row.scalars.front() || (report.index == index_before && name.substr(0, first) == report.role);
    // Totals become whole numbers.
    if (!same || report.index < 0 || (kind == kTotal && !(std::abs(scalar.value) < kTotalMax))) {
      return Error{Code::kInvalidArgument,
                   fmt::format("report: scalar \"{}\" is {}, expected one of {}-{}, and a total below {:g}", name,
                               scalar.value, same ? name.substr(0, first) : report.role, index_before, kTotalMax)};
    }
    report.role = name.substr(0, first);
    auto& list = kind == kTotal ? report.content.counters : kind == kNow ? report.content.gauges : report.content.sums;
    list.push_back({std::string(name.substr(third + 1)), scalar.value});
  }
  return report;
}

}  // namespace troupe::actors
