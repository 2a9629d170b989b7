#include <troupe/core/proto_reader.hpp>

#include <fmt/format.h>

namespace troupe {

Error ProtoReader::corrupt(std::string_view what) const {
  return Error{Code::kCorrupt, fmt::format("{}: {}", where_, what)};
}

Result<ProtoReader::Field> ProtoReader::next() {
  enum : std::uint64_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };
  TROUPE_ASSIGN(const std::uint64_t key, varint());
  Field field{.number = key >> 3};
  if (field.number == 0) return corrupt("a field 0");
  switch (key & 7) {
    case kVarint: {
      TROUPE_ASSIGN(field.value, varint());
      return field;
    }
    case kFixed64: {
      TROUPE_ASSIGN(field.bytes, take(8));
      return field;
    }
    case kLengthDelimited: {
      TROUPE_ASSIGN(const std::uint64_t size, varint());
      TROUPE_ASSIGN(field.bytes, take(size));
      field.is_bytes = true;
      return field;
    }
    case kFixed32: {
      TROUPE_ASSIGN(field.bytes, take(4));
      return field;
    }
    default:
      return corrupt(fmt::format("wire type {}", key & 7));
  }
}

Result<std::uint64_t> ProtoReader::varint() {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 10; ++i) {
    if (i == left_.size()) return corrupt("it ends within a number");
    value |= static_cast<std::uint64_t>(left_[i] & 0x7f) << (7 * i);
    if (left_[i] >= 0x80) continue;
    left_ = left_.subspan(i + 1);
    return value;
  }
  return corrupt("a number of more than ten bytes");
}

Result<ProtoReader::Bytes> ProtoReader::take(std::uint64_t size) {
  if (size > left_.size()) {
    return corrupt(fmt::format("a field of {} bytes, where {} are left", size, left_.size()));
  }
  const Bytes taken = left_.first(size);
  left_ = left_.subspan(size);
  return taken;
}

}  // namespace troupe
