#pragma once
// Reads protobuf's wire format (protobuf.dev/programming-guides/encoding) by field numbers, the counterpart of
// proto_writer.hpp. Bytes may come from outside: whatever they are, reading them ends, and within them.
#include <cstdint>
#include <span>
#include <string_view>

#include <troupe/core/error.hpp>

namespace troupe {

/// The fields of one message, one after the other. Errors of all: kCorrupt, beginning with `where`, which outlives it.
class ProtoReader {
 public:
  using Bytes = std::span<const std::uint8_t>;
  ProtoReader(Bytes bytes, std::string_view where) : left_(bytes), where_(where) {}

  bool empty() const { return left_.empty(); }
  struct Field {
    std::uint64_t number = 0;
    bool is_bytes = false;
    Bytes bytes{};            ///< of a string, a message, packed values, or a number of fixed size
    std::uint64_t value = 0;  ///< of a varint
    std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
  };
  Result<Field> next();
  Result<std::uint64_t> varint();

 private:
  Error corrupt(std::string_view what) const;
  Result<Bytes> take(std::uint64_t size);
  Bytes left_;
  std::string_view where_;
};

/// The messages in field `number` of `bytes`, each handed to `visit`, whose first error ends it.
template <typename Visit>
Status each_message(ProtoReader::Bytes bytes, std::uint64_t number, std::string_view where, const Visit& visit) {
  for (ProtoReader fields(bytes, where); !fields.empty();) {
    TROUPE_ASSIGN(const auto field, fields.next());
    if (field.number == number && field.is_bytes) TROUPE_TRY(visit(field.bytes));
  }
  return {};
}

}  // namespace troupe
