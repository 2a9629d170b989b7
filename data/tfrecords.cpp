#include <troupe/data/tfrecords.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <regex>
#include <span>
#include <utility>

#include <troupe/core/crc32c.hpp>
#include <troupe/core/log.hpp>
#include <troupe/data/detail/file.hpp>
#include <troupe/data/tf_example.hpp>

namespace troupe::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHeaderBytes = 12, kFooterBytes = 4;
constexpr std::size_t kShardsMax = 100'000;

template <typename T>
T little_endian(const std::uint8_t* bytes) {
  T value = 0;
  for (std::size_t i = sizeof(T); i > 0; --i) value = static_cast<T>(value << 8 | bytes[i - 1]);
  return value;
}

std::uint32_t checksum(std::span<const std::uint8_t> bytes) { return masked_crc32c(crc32c(std::as_bytes(bytes))); }

/// The shards of a split, all of them, in order.
Result<std::vector<fs::path>> shards_of(const fs::path& directory, Split split) {
  const std::string prefix = split == Split::kTrain ? "train" : "validation";
  const std::regex pattern(prefix + "-([0-9]{5,6})-of-([0-9]{5,6})");
  std::error_code error;
  fs::directory_iterator entries(directory, error);
  if (error)
    return Error{Code::kNotFound, fmt::format("{}: no folder of TFRecords: {}", directory.string(), error.message())};
  std::map<std::string, std::map<std::size_t, fs::path>> found;  // by the number of shards
  for (; entries != fs::directory_iterator(); entries.increment(error)) {
    std::smatch parts;
    const std::string name = entries->path().filename().string();
    if (std::regex_match(name, parts, pattern)) found[parts[2]][std::stoul(parts[1])] = entries->path();
  }
  if (error) return Error{Code::kIo, fmt::format("{}: {}", directory.string(), error.message())};
  if (found.empty()) {
    return Error{Code::kNotFound,
                 fmt::format("{}: no TFRecords, expected files {}-00000-of-NNNNN ...", directory.string(), prefix)};
  }
  const auto& [total, shards] = *found.begin();
  const std::size_t count = std::stoul(total);
  if (found.size() > 1 || count == 0 || count > kShardsMax) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: {}, expected the shards of one set", directory.string(),
                             found.size() > 1 ? "shards of several sets" : "a shard of " + total)};
  }
  std::vector<fs::path> all;
  for (std::size_t i = 0; i < count; ++i) {
    const auto shard = shards.find(i);
    if (shard == shards.end()) {
      return Error{Code::kNotFound,
                   fmt::format("{}: missing",
                               (directory / fmt::format("{}-{:0{}}-of-{}", prefix, i, total.size(), total)).string())};
    }
    all.push_back(shard->second);
  }
  return all;
}

}  // namespace

Status TfRecords::find(const fs::path& directory, Split split) {
  const auto shards = shards_of(directory, split);
  return shards.ok() ? Status() : shards.error();
}

Result<std::shared_ptr<const TfRecords>> TfRecords::open(const fs::path& directory, Split split,
                                                         const TfRecordOptions& options) {
  auto set = std::make_shared<TfRecords>();
  set->options_ = options;
  TROUPE_ASSIGN(set->shards_, shards_of(directory, split));
  for (std::uint32_t shard = 0; shard < set->shards_.size(); ++shard) {
    set->first_.push_back(set->count());
    const Status indexed = set->index(shard);
    if (indexed.ok()) continue;
    if (!options.skip_damaged || indexed.error().code != Code::kCorrupt) return indexed.error();
    log::warn("the rest of a shard is left out: {}", indexed.error().message);
    ++set->damaged_;
  }
  if (set->records_.empty()) return Error{Code::kCorrupt, fmt::format("{}: no records", set->shards_.front().string())};
  return std::shared_ptr<const TfRecords>(std::move(set));
}

Status TfRecords::index(std::uint32_t shard) {
  TROUPE_ASSIGN(const detail::File file, detail::File::open(shards_[shard]));
  std::array<std::uint8_t, kHeaderBytes> header{};
  for (std::uint64_t at = 0; at < file.bytes();) {
    const auto corrupt = [&](std::string what) {
      return Error{Code::kCorrupt,
                   fmt::format("{}: record {}: {}", shards_[shard].string(), count() - first_[shard], what)};
    };
    const std::uint64_t left = file.bytes() - at;
    if (left < kHeaderBytes) return corrupt(fmt::format("the file ends within its header, after {} bytes", left));
    TROUPE_TRY(file.read_at(at, header));
    const auto length = std::span(header).first<8>();
    const auto bytes = little_endian<std::uint64_t>(length.data());
    if (checksum(length) != little_endian<std::uint32_t>(&header[8])) {
      return corrupt("the checksum of its length is wrong");
    }
    if (bytes > kRecordBytesMax) return corrupt(fmt::format("{} bytes, expected at most {}", bytes, kRecordBytesMax));
    if (bytes + kHeaderBytes + kFooterBytes > left) {
      return corrupt(fmt::format("{} bytes, but the file ends after {} of them", bytes, left - kHeaderBytes));
    }
    records_.push_back({at + kHeaderBytes, static_cast<std::uint32_t>(bytes), shard});
    at += kHeaderBytes + bytes + kFooterBytes;
  }
  return {};
}

Status TfRecords::read(std::int64_t index, Sample& sample) const {
  const auto corrupt = [&](std::string_view what) {
    return Error{Code::kCorrupt, fmt::format("{}: {}", name(index), what)};
  };
  const Record& record = records_[static_cast<std::size_t>(index)];
  // Opened each time: a thousand shards are more files than a process may hold open.
  TROUPE_ASSIGN(const detail::File file, detail::File::open(shards_[record.shard]));
  sample.storage.resize(record.bytes + kFooterBytes);
  TROUPE_TRY(file.read_at(record.offset, sample.storage));
  const auto data = std::span(sample.storage).first(record.bytes);
  if (checksum(data) != little_endian<std::uint32_t>(&sample.storage[record.bytes])) {
    return corrupt("its checksum is wrong");
  }
  const Result<ImageExample> example = parse_image_example(data);
  if (!example.ok()) return corrupt(example.error().message);
  if (example->label < 1 || example->label > options_.classes) {
    return corrupt(fmt::format("label {}, expected 1 .. {}", example->label, options_.classes));
  }
  sample.label = static_cast<std::int32_t>(example->label - 1);
  sample.shape = {};
  sample.bytes = example->encoded;
  return {};
}

std::string TfRecords::name(std::int64_t index) const {
  const Record& record = records_[static_cast<std::size_t>(index)];
  return fmt::format("{}: record {}", shards_[record.shard].string(), index - first_[record.shard]);
}

}  // namespace troupe::data
