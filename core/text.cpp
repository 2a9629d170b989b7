#include <troupe/core/text.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include <troupe/core/sha256.hpp>

namespace troupe {
namespace {

constexpr std::size_t kNameHashDigits = 12;

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_in_safe_name(char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-'; }

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

/// What changes how the rest of a line looks: U+0080 .. U+009F, which some terminals take for escape sequences, the
/// ends of lines and paragraphs, and what turns the direction of writing (Unicode 15, section 23.2).
bool is_control(std::string_view character) {
  if (character.size() == 2) return (character >= "\u0080" && character <= "\u009F") || character == "\u061C";
  return (character >= "\u200E" && character <= "\u200F") || (character >= "\u2028" && character <= "\u202E") ||
         (character >= "\u2066" && character <= "\u2069");
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
               is_control(character)) {
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

std::string safe_name(std::string_view text) {
  if (!text.empty() && text.size() <= kSafeNameBytesMax && is_letter_or_digit(text.front()) &&
      std::ranges::all_of(text, is_in_safe_name)) {
    return std::string(text);
  }
  std::string name;
  for (const char c : text) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (is_letter_or_digit(lower)) {
      name += lower;
    } else if (!name.empty() && name.back() != '-') {
      name += is_in_safe_name(lower) ? lower : '-';
    }
    if (name.size() + 1 + kNameHashDigits == kSafeNameBytesMax) break;
  }
  if (!name.empty() && name.back() != '-') name += '-';
  return name + sha256_hex(std::as_bytes(std::span(text))).substr(0, kNameHashDigits);
}

std::vector<std::string_view> lines(std::string_view text) {
  std::vector<std::string_view> all;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    all.push_back(text.substr(0, length));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return all;
}

std::string_view shortened(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  std::size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end == 0 ? bytes_max : end);  // all of it within characters: no UTF-8
}

}  // namespace troupe
