#include <troupe/apps/run/tensorboard.hpp>

#include <fmt/core.h>

#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include <troupe/apps/pictures/png_writer.hpp>
#include <troupe/core/crc32c.hpp>
#include <troupe/core/text.hpp>

namespace troupe::apps {
namespace {

static_assert(std::endian::native == std::endian::little, "TFRecords and protocol buffers are little endian");

template <typename T>
std::string bytes_of(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::uint32_t masked_checksum(std::string_view data) { return masked_crc32c(crc32c(std::as_bytes(std::span(data)))); }

/// Protocol buffer fields (protobuf.dev/programming-guides/encoding): a tag of (number << 3 | wire type), the value.
class Message {
 public:
  Message& varint(int field, std::uint64_t value) {
    tag(field, 0);
    raw_varint(value);
    return *this;
  }
  Message& fixed64(int field, double value) {
    tag(field, 1);
    bytes_ += bytes_of(value);
    return *this;
  }
  Message& fixed32(int field, float value) {
    tag(field, 5);
    bytes_ += bytes_of(value);
    return *this;
  }
  Message& text(int field, std::string_view value) {
    tag(field, 2);
    raw_varint(value.size());
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int wire_type) {
    raw_varint(static_cast<std::uint64_t>(field) << 3 | static_cast<unsigned>(wire_type));
  }
  void raw_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

/// Field numbers of event.proto and summary.proto.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2, kImage = 4 };
enum ImageField { kHeight = 1, kWidth = 2, kColorspace = 3, kEncodedImage = 4 };
constexpr std::uint64_t kRgb = 3;
enum SessionLogField { kStatus = 1 };
constexpr std::uint64_t kSessionStart = 1;

void add_scalar(Message& summary, std::string_view name, double value) {
  Message entry;
  entry.text(kTag, name).fixed32(kSimpleValue, static_cast<float>(value));
  summary.text(kValue, entry.bytes());
}

}  // namespace

std::string tf_record(std::string_view data) {
  const std::string length = bytes_of(static_cast<std::uint64_t>(data.size()));
  return length + bytes_of(masked_checksum(length)) + std::string(data) + bytes_of(masked_checksum(data));
}

Result<TensorBoardSink> TensorBoardSink::create(const std::filesystem::path& directory, double start_unix_s) {
  std::filesystem::path path;
  for (int n = 0; path.empty() || std::filesystem::exists(path); ++n) {
    path = directory / fmt::format("events.out.tfevents.{:.0f}.troupe.{}", start_unix_s, n);
  }
  TROUPE_ASSIGN(AppendFile file, AppendFile::open(path.string()));
  Message version;
  version.fixed64(kWallTime, start_unix_s).text(kFileVersion, "brain.Event:2");
  TROUPE_TRY(file.append(tf_record(version.bytes())));
  return TensorBoardSink(std::move(file), start_unix_s);
}

Status TensorBoardSink::write(const MetricRow& row) {
  const std::lock_guard lock(*mutex_);
  if (!started_) first_wall_s_ = row.wall_s;
  const double wall_time = last_wall_time_ = start_unix_s_ + row.wall_s - first_wall_s_;
  const auto step = static_cast<std::uint64_t>(row.learner_steps);
  if (!started_) {
    Message session;
    session.varint(kStatus, kSessionStart);
    Message start;
    start.fixed64(kWallTime, wall_time).varint(kStep, step).text(kSessionLog, session.bytes());
    TROUPE_TRY(file_.append(tf_record(start.bytes())));
    started_ = true;
  }
  Message summary;
  add_scalar(summary, "run/env_steps", static_cast<double>(row.env_steps));
  add_scalar(summary, "run/wall_s", row.wall_s);
  for (const Scalar& scalar : row.scalars) add_scalar(summary, printable(scalar.name), scalar.value);
  Message event;
  event.fixed64(kWallTime, wall_time).varint(kStep, step).text(kSummary, summary.bytes());
  TROUPE_TRY(file_.append(tf_record(event.bytes())));
  return file_.flush();
}

Status TensorBoardSink::write(const Picture& picture, const Image& image) {
  TROUPE_ASSIGN(const std::vector<std::byte> png, png_bytes(image));
  Message content;
  content.varint(kHeight, static_cast<std::uint64_t>(image.height))
      .varint(kWidth, static_cast<std::uint64_t>(image.width));
  content.varint(kColorspace, kRgb).text(kEncodedImage, {reinterpret_cast<const char*>(png.data()), png.size()});
  Message entry, summary, event;
  entry.text(kTag, printable(picture.source + "/" + picture.name)).text(kImage, content.bytes());
  summary.text(kValue, entry.bytes());
  const std::lock_guard lock(*mutex_);
  event.fixed64(kWallTime, last_wall_time_).varint(kStep, static_cast<std::uint64_t>(picture.step));
  event.text(kSummary, summary.bytes());
  TROUPE_TRY(file_.append(tf_record(event.bytes())));
  return file_.flush();
}

Status TensorBoardSink::flush() {
  const std::lock_guard lock(*mutex_);
  return file_.flush();
}

}  // namespace troupe::apps
