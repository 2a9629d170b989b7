// The only place that sees toml++.
#include <troupe/core/toml.hpp>

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include <fmt/core.h>

#include <troupe/core/config.hpp>
#include <troupe/core/text.hpp>

namespace troupe {
namespace {

constexpr std::size_t kLineBytesMax = 4096;
/// How many tables and lists may lie within each other: toml++ frees them, and to_value() reads them, by recursion.
constexpr std::size_t kLevelsMax = 64;

TomlValue to_value(const toml::node& node) {
  TomlValue out;
  out.line = node.source().begin.line;
  switch (node.type()) {
    case toml::node_type::boolean:
      out.value = **node.as_boolean();
      break;
    case toml::node_type::integer:
      out.value = **node.as_integer();
      break;
    case toml::node_type::floating_point:
      out.value = **node.as_floating_point();
      break;
    case toml::node_type::string:
      out.value = **node.as_string();
      break;
    case toml::node_type::array: {
      TomlValue::List list;
      for (const toml::node& element : *node.as_array()) list.push_back(to_value(element));
      out.value = std::move(list);
      break;
    }
    case toml::node_type::table: {
      TomlValue::Table table;
      for (const auto& [key, member] : *node.as_table()) {
        table.push_back({std::string(key.str()), key.source().begin.line, to_value(member)});
      }
      out.value = std::move(table);
      break;
    }
    default:
      break;
  }
  return out;
}

Status check_lines(std::string_view text, std::string_view name) {
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    if (length > kLineBytesMax) {
      return Error{Code::kInvalidArgument, fmt::format("{}:{}: line too long: got {} bytes, expected at most {}", name,
                                                       line, length, kLineBytesMax)};
    }
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return {};
}

/// Bytes of the string at the front of `rest`, with its quotes; up to where it must have ended if it does not.
std::size_t string_bytes(std::string_view rest) {
  const char quote = rest[0];
  const bool lines = rest.size() >= 3 && rest[1] == quote && rest[2] == quote;
  const std::string_view mark = rest.substr(0, lines ? 3 : 1);
  for (std::size_t i = mark.size(); i < rest.size(); ++i) {
    if (rest[i] == '\n' && !lines) return i;
    if (rest[i] == '\\' && quote == '"') {
      ++i;
    } else if (rest.substr(i).starts_with(mark)) {
      std::size_t end = i + mark.size();
      while (lines && end < rest.size() && end < i + 5 && rest[end] == quote) ++end;  // two more may belong to the text
      return end;
    }
  }
  return rest.size();
}

/// What nests is a bracket, and each dot of the name before it.
Status check_levels(std::string_view text, std::string_view name) {
  std::vector<std::size_t> dots = {0};  // of what stands before the place at hand, in each open bracket
  std::size_t levels = 0;               // all brackets and dots together
  const auto forget = [&] { levels -= std::exchange(dots.back(), 0); };
  std::size_t line = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const std::string_view string = text.substr(i, string_bytes(text.substr(i)));
      line += static_cast<std::size_t>(std::count(string.begin(), string.end(), '\n'));
      i += string.size() - 1;
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '.') {
      ++dots.back();
      ++levels;
    } else if (c == '[' || c == '{') {
      dots.push_back(0);
      ++levels;
    } else if ((c == ']' || c == '}') && dots.size() > 1) {
      forget();
      dots.pop_back();
      --levels;
    } else if (c == ',' || c == '\n') {
      forget();
      if (c == '\n') ++line;
    }
    if (levels > kLevelsMax) {
      return Error{Code::kInvalidArgument, fmt::format("{}:{}: nested by more than {} levels", name, line, kLevelsMax)};
    }
  }
  return {};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// The key that a line defines, as it is written: [key], [[key]] or key = value.
std::string_view key_of(std::string_view line) {
  line = trimmed(line);
  const bool table = line.starts_with('[');
  while (table && line.starts_with('[')) line.remove_prefix(1);
  char quote = 0;
  std::size_t end = 0;
  for (; end < line.size(); ++end) {
    const char c = line[end];
    if (quote != 0) {
      if (c == '\\' && quote == '"') ++end;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == (table ? ']' : '=')) {
      break;
    }
  }
  return trimmed(line.substr(0, std::min(end, line.size())));
}

/// What toml++ says, but that of a key which comes twice it quotes the bytes in its buffer, which are not the key where
/// that is quoted: then as the line has it.
std::string description_of(const toml::parse_error& error, std::string_view text) {
  const std::string description(error.description());
  const std::size_t about = description.find("cannot redefine existing ");
  const std::size_t begin = about == std::string::npos ? about : description.find('\'', about);
  const std::size_t end = description.rfind('\'');
  if (begin == std::string::npos || end == begin) return description;
  const std::vector<std::string_view> all = lines(text);
  const std::size_t line = error.source().begin.line;
  if (line == 0 || line > all.size()) return description;
  return fmt::format("{}'{}'{}", description.substr(0, begin), key_of(all[line - 1]), description.substr(end + 1));
}

}  // namespace

const TomlMember* TomlValue::find(std::string_view name) const {
  const Table* table = std::get_if<Table>(&value);
  if (table == nullptr) return nullptr;
  const auto found = std::find_if(table->begin(), table->end(), [&](const TomlMember& m) { return m.name == name; });
  return found == table->end() ? nullptr : &*found;
}

std::string_view type_name(const TomlValue& value) {
  static constexpr std::array<std::string_view, 7> kNames = {"a date or time", "a boolean", "an integer", "a number",
                                                             "a string",       "a list",    "a table"};
  return kNames[value.value.index()];
}

Result<TomlValue> parse_toml(std::string_view text, std::string_view name) {
  const std::string shown = printable(name, 4096);
  TROUPE_TRY(check_lines(text, shown));
  TROUPE_TRY(check_levels(text, shown));
  try {
    return to_value(toml::parse(text, name));
  } catch (const toml::parse_error& error) {
    // toml++ quotes the offending text, which may hold anything.
    return Error{Code::kInvalidArgument, fmt::format("{}:{}: syntax error: {}", shown, error.source().begin.line,
                                                     printable(description_of(error, text)))};
  }
}

Result<std::string> read_config_text(const std::filesystem::path& file) {
  const std::string name = printable(file.string(), 4096);
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) return Error{Code::kNotFound, fmt::format("{}: no such file", name)};
  if (!std::filesystem::is_regular_file(status)) {
    return Error{Code::kIo, fmt::format("{}: not a regular file", name)};
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return Error{Code::kIo, fmt::format("{}: cannot be opened for reading", name)};
  // One byte more than allowed: the size is judged by what is read, as the file may grow meanwhile.
  std::string text(kConfigBytesMax + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) return Error{Code::kIo, fmt::format("{}: cannot be read", name)};
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > kConfigBytesMax) {
    return Error{Code::kIo, fmt::format("{}: file too large: got more than {} bytes, expected a configuration", name,
                                        kConfigBytesMax)};
  }
  return text;
}

}  // namespace troupe
