#include <troupe/run/tensorboard.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/proto_writer.hpp>
#include <troupe/core/text.hpp>
#include <troupe/core/tf_record.hpp>
#include <troupe/run/evaluations.hpp>
#include <troupe/run/pictures/png_writer.hpp>

namespace troupe::apps {
namespace {

/// Field numbers of event.proto and summary.proto.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2, kImage = 4 };
enum ImageField { kHeight = 1, kWidth = 2, kColorspace = 3, kEncodedImage = 4 };
constexpr std::int64_t kRgb = 3;
enum SessionLogField { kStatus = 1 };
constexpr std::int64_t kSessionStart = 1;

void add_scalar(ProtoWriter& summary, std::string_view name, double value) {
  ProtoWriter entry;
  entry.add_string(kTag, name);
  entry.add_float(kSimpleValue, static_cast<float>(value));
  summary.add_message(kValue, entry);
}

std::string event(double wall_time, std::int64_t step, int field, const ProtoWriter& content) {
  ProtoWriter made;
  made.add_double(kWallTime, wall_time);
  made.add_int(kStep, step);
  made.add_message(field, content);
  return tf_record(made.bytes());
}

}  // namespace

Result<TensorBoardSink> TensorBoardSink::create(const std::filesystem::path& directory, double start_unix_s) {
  std::filesystem::path path;
  for (int n = 0; path.empty() || std::filesystem::exists(path); ++n) {
    path = directory / fmt::format("events.out.tfevents.{:.0f}.troupe.{}", start_unix_s, n);
  }
  TROUPE_ASSIGN(AppendFile file, AppendFile::open(path.string()));
  ProtoWriter version;
  version.add_double(kWallTime, start_unix_s);
  version.add_string(kFileVersion, "brain.Event:2");
  TROUPE_TRY(file.append(tf_record(version.bytes())));
  return TensorBoardSink(std::move(file), start_unix_s);
}

Status TensorBoardSink::rewind(const RunPoint& to) {
  const std::lock_guard lock(*mutex_);
  goes_on_from_ = to.learner_steps + 1;
  for (const auto& [source, steps] : to.evaluated_steps) goes_on_from_ = std::max(goes_on_from_, steps + 1);
  return {};
}

Result<double> TensorBoardSink::stamp(double wall_s) {
  if (!started_) first_wall_s_ = wall_s;
  last_wall_time_ = start_unix_s_ + wall_s - first_wall_s_;
  if (!std::exchange(started_, true) && goes_on_from_ > 0) {
    ProtoWriter session;
    session.add_int(kStatus, kSessionStart);
    TROUPE_TRY(file_.append(event(last_wall_time_, goes_on_from_, kSessionLog, session)));
  }
  return last_wall_time_;
}

Status TensorBoardSink::write(const MetricRow& row) {
  const std::lock_guard lock(*mutex_);
  TROUPE_ASSIGN(const double wall_time, stamp(row.wall_s));
  ProtoWriter summary;
  add_scalar(summary, "run/env_steps", static_cast<double>(row.env_steps));
  add_scalar(summary, "run/wall_s", row.wall_s);
  for (const Scalar& scalar : row.scalars) add_scalar(summary, printable(scalar.name), scalar.value);
  for (const PortTraffic& port : row.ports) {
    const auto add = [&](std::string_view name, double value) {
      add_scalar(summary, printable(fmt::format("channels/{}.{}.{}", port.role, port.port, name)), value);
    };
    add("frames_per_s", port.frames_per_s);
    add("bytes_per_s", port.bytes_per_s);
    add("waiting", port.waiting);
    add("refused_per_s", port.refused_per_s);
    if (port.depth) add("depth", *port.depth);
  }
  TROUPE_TRY(file_.append(event(wall_time, row.learner_steps, kSummary, summary)));
  return file_.flush();
}

Status TensorBoardSink::record(const Evaluation& evaluation) {
  const std::lock_guard lock(*mutex_);
  TROUPE_ASSIGN(const double wall_time, stamp(evaluation.wall_s));
  const std::string who = evaluated(evaluation.source);  // the last evaluation stands with the others
  const std::string group = who.empty() ? "evaluator" : who + "-evaluator";
  ProtoWriter summary;
  for (const Scalar& value : evaluation.values)
    add_scalar(summary, printable(fmt::format("{}/{}", group, value.name)), value.value);
  TROUPE_TRY(file_.append(event(wall_time, evaluation.step, kSummary, summary)));
  return file_.flush();
}

Status TensorBoardSink::write(const Picture& picture, const Image& image) {
  TROUPE_ASSIGN(const std::vector<std::byte> png, png_bytes(image));
  ProtoWriter content, entry, summary;
  content.add_int(kHeight, image.height);
  content.add_int(kWidth, image.width);
  content.add_int(kColorspace, kRgb);
  content.add_bytes(kEncodedImage, png);
  entry.add_string(kTag, printable(picture.source + "/" + picture.name));
  entry.add_message(kImage, content);
  summary.add_message(kValue, entry);
  const std::lock_guard lock(*mutex_);
  TROUPE_TRY(file_.append(event(last_wall_time_, picture.step, kSummary, summary)));
  return file_.flush();
}

Status TensorBoardSink::flush() {
  const std::lock_guard lock(*mutex_);
  return file_.flush();
}

}  // namespace troupe::apps
