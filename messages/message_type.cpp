#include <troupe/messages/message_type.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include <troupe/core/text.hpp>

namespace troupe::messages {
namespace {

constexpr std::size_t kNameBytesMax = 64;

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

}  // namespace

Status check_type_name(std::string_view name) {
  const bool good = !name.empty() && name.size() <= kNameBytesMax && is_letter(name[0]) &&
                    std::isupper(static_cast<unsigned char>(name[0])) != 0 && std::ranges::all_of(name, [](char c) {
                      return is_letter(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
                    });
  if (!good) {
    return Error{Code::kInvalidArgument,
                 fmt::format("message \"{}\": expected 1 .. {} letters and digits, a capital letter first",
                             printable(name), kNameBytesMax)};
  }
  if (is_kind_name(name)) {
    return Error{Code::kAlreadyExists, fmt::format("message \"{}\": Troupe has a message of this name", name)};
  }
  return {};
}

Status check_size(const MessageType& type, const Frame& frame) {
  const std::size_t bytes = frame.size();
  if (bytes > 0 && bytes <= type.max_bytes) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{}: got {} bytes, expected 1 .. {}", type.name, bytes, type.max_bytes)};
}

Status check_message(const MessageType& type, const Frame& frame) {
  TROUPE_TRY(check_size(type, frame));
  if (type.opaque()) return {};
  const Status good = type.check(frame.bytes());
  return good.ok() ? good : Error{good.error().code, fmt::format("{}: {}", type.name, good.error().message)};
}

}  // namespace troupe::messages
