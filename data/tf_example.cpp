#include <troupe/data/tf_example.hpp>

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include <troupe/core/proto_reader.hpp>

namespace troupe::data {
namespace {

using Bytes = std::span<const std::uint8_t>;
constexpr std::string_view kWhere = "no tf.train.Example";

Error corrupt_example(std::string_view what) { return Error{Code::kCorrupt, fmt::format("{}: {}", kWhere, what)}; }

constexpr std::uint64_t kBytesList = 1, kInt64List = 3;  // of Feature
constexpr std::string_view kEncoded = "image/encoded", kLabel = "image/class/label";

Status one(std::string_view name, std::int64_t count) {
  if (count == 1) return {};
  return corrupt_example(fmt::format("{} values of {}, expected one", count, name));
}

Result<Bytes> bytes_value(std::string_view name, Bytes feature) {
  Bytes value;
  std::int64_t count = 0;
  TROUPE_TRY(each_message(feature, kBytesList, kWhere, [&](Bytes list) {
    return each_message(list, 1, kWhere, [&](Bytes item) {
      value = item;
      ++count;
      return Status();
    });
  }));
  TROUPE_TRY(one(name, count));
  return value;
}

/// Numbers come packed or one by one.
Result<std::int64_t> int64_value(std::string_view name, Bytes feature) {
  std::uint64_t value = 0;
  std::int64_t count = 0;
  TROUPE_TRY(each_message(feature, kInt64List, kWhere, [&](Bytes list) -> Status {
    for (ProtoReader fields(list, kWhere); !fields.empty();) {
      TROUPE_ASSIGN(const auto field, fields.next());
      if (field.number != 1) continue;
      if (!field.is_bytes) {
        value = field.value;
        ++count;
        continue;
      }
      for (ProtoReader packed(field.bytes, kWhere); !packed.empty(); ++count) {
        TROUPE_ASSIGN(value, packed.varint());
      }
    }
    return {};
  }));
  TROUPE_TRY(one(name, count));
  return static_cast<std::int64_t>(value);
}

}  // namespace

Result<ImageExample> parse_image_example(Bytes bytes) {
  ImageExample example;
  bool has_image = false, has_label = false;
  const auto entry = [&](Bytes message) -> Status {
    std::string_view name;
    Bytes feature;
    for (ProtoReader fields(message, kWhere); !fields.empty();) {
      TROUPE_ASSIGN(const auto field, fields.next());
      if (field.is_bytes && field.number == 1) name = field.text();
      if (field.is_bytes && field.number == 2) feature = field.bytes;
    }
    if (name == kEncoded) {
      TROUPE_ASSIGN(example.encoded, bytes_value(kEncoded, feature));
      has_image = true;
    } else if (name == kLabel) {
      TROUPE_ASSIGN(example.label, int64_value(kLabel, feature));
      has_label = true;
    }
    return {};
  };
  TROUPE_TRY(each_message(bytes, 1, kWhere, [&](Bytes features) { return each_message(features, 1, kWhere, entry); }));
  for (const auto& [has, name] : {std::pair(has_image, kEncoded), std::pair(has_label, kLabel)}) {
    if (!has) return corrupt_example(fmt::format("no feature {}", name));
  }
  return example;
}

}  // namespace troupe::data
