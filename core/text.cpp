#include <troupe/core/text.hpp>

#include <fmt/core.h>

namespace troupe {
namespace {

/// Bytes of the well-formed UTF-8 character at the start of `text` (Unicode 15, table 3-7), or 0.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto tail = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!tail(1) || !tail(2)) return 0;
    const bool overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = lead == 0xED && byte(1) > 0x9F;
    return overlong || surrogate ? 0 : 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    const bool overlong = lead == 0xF0 && byte(1) < 0x90;
    const bool too_large = lead == 0xF4 && byte(1) > 0x8F;
    return overlong || too_large ? 0 : 4;
  }
  return 0;
}

/// U+0080 .. U+009F: some terminals take them for escape sequences.
bool is_c1_control(std::string_view character) {
  return character.size() == 2 && character[0] == '\xC2' && static_cast<unsigned char>(character[1]) < 0xA0;
}

}  // namespace

std::string printable(std::string_view text, std::size_t bytes_max) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    std::string piece;
    if (character == "\n") {
      piece = "\\n";
    } else if (character == "\t") {
      piece = "\\t";
    } else if (length == 0 || static_cast<unsigned char>(character[0]) < 0x20 || character == "\x7F" ||
               is_c1_control(character)) {
      for (const char c : character) piece += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      piece = character;
    }
    if (out.size() + piece.size() > bytes_max) return out + "...";
    out += piece;
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace troupe
