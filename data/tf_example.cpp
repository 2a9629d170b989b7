#include <troupe/data/tf_example.hpp>

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace troupe::data {
namespace {

using Bytes = std::span<const std::uint8_t>;

Error corrupt_example(std::string_view what) {
  return Error{Code::kCorrupt, fmt::format("no tf.train.Example: {}", what)};
}

/// The fields of one message, one after the other.
class Fields {
 public:
  explicit Fields(Bytes bytes) : left_(bytes) {}
  bool empty() const { return left_.empty(); }

  struct Field {
    std::uint64_t number = 0;
    bool is_bytes = false;
    Bytes bytes;              // of a string, a message or packed values
    std::uint64_t value = 0;  // of a varint
  };
  /// The next field; fixed-size ones come without a value, since nothing here has them.
  Result<Field> next() {
    TROUPE_ASSIGN(const std::uint64_t key, varint());
    Field field{.number = key >> 3};
    if (field.number == 0) return corrupt_example("a field 0");
    switch (key & 7) {
      case 0: {
        TROUPE_ASSIGN(field.value, varint());
        return field;
      }
      case 1: {
        TROUPE_ASSIGN(field.bytes, take(8));
        return field;
      }
      case 2: {
        TROUPE_ASSIGN(const std::uint64_t size, varint());
        TROUPE_ASSIGN(field.bytes, take(size));
        field.is_bytes = true;
        return field;
      }
      case 5: {
        TROUPE_ASSIGN(field.bytes, take(4));
        return field;
      }
      default:
        return corrupt_example(fmt::format("wire type {}", key & 7));
    }
  }
  Result<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 10; ++i) {
      if (i == left_.size()) return corrupt_example("it ends within a number");
      value |= static_cast<std::uint64_t>(left_[i] & 0x7f) << (7 * i);
      if (left_[i] >= 0x80) continue;
      left_ = left_.subspan(i + 1);
      return value;
    }
    return corrupt_example("a number of more than ten bytes");
  }

 private:
  Result<Bytes> take(std::uint64_t size) {
    if (size > left_.size())
      return corrupt_example(fmt::format("a field of {} bytes, where {} are left", size, left_.size()));
    const Bytes taken = left_.first(size);
    left_ = left_.subspan(size);
    return taken;
  }
  Bytes left_;
};

/// The messages in field `number` of `bytes`, each handed to `visit`.
template <typename Visit>
Status each(Bytes bytes, std::uint64_t number, const Visit& visit) {
  for (Fields fields(bytes); !fields.empty();) {
    TROUPE_ASSIGN(const auto field, fields.next());
    if (field.number == number && field.is_bytes) TROUPE_TRY(visit(field.bytes));
  }
  return {};
}

constexpr std::uint64_t kBytesList = 1, kInt64List = 3;  // of Feature
constexpr std::string_view kEncoded = "image/encoded", kLabel = "image/class/label";

Status one(std::string_view name, std::int64_t count) {
  if (count == 1) return {};
  return corrupt_example(fmt::format("{} values of {}, expected one", count, name));
}

Result<Bytes> bytes_value(std::string_view name, Bytes feature) {
  Bytes value;
  std::int64_t count = 0;
  TROUPE_TRY(each(feature, kBytesList, [&](Bytes list) {
    return each(list, 1, [&](Bytes item) {
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
  TROUPE_TRY(each(feature, kInt64List, [&](Bytes list) -> Status {
    for (Fields fields(list); !fields.empty();) {
      TROUPE_ASSIGN(const auto field, fields.next());
      if (field.number != 1) continue;
      if (!field.is_bytes) {
        value = field.value;
        ++count;
        continue;
      }
      for (Fields packed(field.bytes); !packed.empty(); ++count) {
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
    Bytes key, feature;
    for (Fields fields(message); !fields.empty();) {
      TROUPE_ASSIGN(const auto field, fields.next());
      if (field.is_bytes && field.number == 1) key = field.bytes;
      if (field.is_bytes && field.number == 2) feature = field.bytes;
    }
    const std::string_view name(reinterpret_cast<const char*>(key.data()), key.size());
    if (name == kEncoded) {
      TROUPE_ASSIGN(example.encoded, bytes_value(kEncoded, feature));
      has_image = true;
    } else if (name == kLabel) {
      TROUPE_ASSIGN(example.label, int64_value(kLabel, feature));
      has_label = true;
    }
    return {};
  };
  TROUPE_TRY(each(bytes, 1, [&](Bytes features) { return each(features, 1, entry); }));
  for (const auto& [has, name] : {std::pair(has_image, kEncoded), std::pair(has_label, kLabel)}) {
    if (!has) return corrupt_example(fmt::format("no feature {}", name));
  }
  return example;
}

}  // namespace troupe::data
