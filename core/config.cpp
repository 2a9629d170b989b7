#include <troupe/core/config.hpp>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <cmath>

#include <troupe/core/check.hpp>

namespace troupe {
namespace {

std::string to_toml(double value) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string text(digits.data(), end);
  // TOML tells floats from integers by the dot or the exponent.
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string to_toml(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      text += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      text += c;
    }
  }
  return text + '"';
}

std::string to_toml(bool value) { return value ? "true" : "false"; }
std::string to_toml(std::int64_t value) { return std::to_string(value); }

template <typename T>
std::string to_toml(const std::vector<T>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    text += to_toml(values[i]);
  }
  return text + "]";
}

/// Bounds of integer keys are printed without a decimal point.
std::string bound_text(double bound) { return fmt::format("{:.15g}", bound); }

}  // namespace

std::string_view type_name(const ConfigValue& value) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "a boolean",          "an integer",        "a number",         "a string",
      "a list of integers", "a list of numbers", "a list of strings"};
  return kNames[value.index()];
}

std::string to_toml(const ConfigValue& value) {
  return std::visit([](const auto& alternative) { return to_toml(alternative); }, value);
}

std::string allowed_values(const ConfigKey& key) {
  if (!key.choices.empty()) return fmt::format("one of {}", fmt::join(key.choices, ", "));
  const bool has_min = std::isfinite(key.min);
  const bool has_max = std::isfinite(key.max);
  if (has_min && has_max) return fmt::format("{} .. {}", bound_text(key.min), bound_text(key.max));
  if (has_min) return fmt::format(">= {}", bound_text(key.min));
  if (has_max) return fmt::format("<= {}", bound_text(key.max));
  return "";
}

const Config::Entry& Config::entry(std::string_view path) const {
  const auto found = entries_.find(path);
  TROUPE_CHECK(found != entries_.end(), "the schema has no key {}", path);
  return found->second;
}

namespace {

template <typename T>
const T& typed(const ConfigValue& value, std::string_view path) {
  const T* of_type = std::get_if<T>(&value);
  TROUPE_CHECK(of_type != nullptr, "{} is {}, got asked for {}", path, type_name(value), type_name(ConfigValue(T{})));
  return *of_type;
}

}  // namespace

template <typename T>
const T& Config::get(std::string_view path) const {
  return typed<T>(entry(path).value, path);
}

template <typename T>
const T& ConfigSection::get(std::string_view key) const {
  const auto found = values_.find(key);
  TROUPE_CHECK(found != values_.end(), "section {} has no key {}", name_, key);
  return typed<T>(found->second, key);
}

template const bool& Config::get(std::string_view) const;
template const std::int64_t& Config::get(std::string_view) const;
template const double& Config::get(std::string_view) const;
template const std::string& Config::get(std::string_view) const;
template const std::vector<std::int64_t>& Config::get(std::string_view) const;
template const std::vector<double>& Config::get(std::string_view) const;
template const std::vector<std::string>& Config::get(std::string_view) const;
template const bool& ConfigSection::get(std::string_view) const;
template const std::int64_t& ConfigSection::get(std::string_view) const;
template const double& ConfigSection::get(std::string_view) const;
template const std::string& ConfigSection::get(std::string_view) const;
template const std::vector<std::int64_t>& ConfigSection::get(std::string_view) const;
template const std::vector<double>& ConfigSection::get(std::string_view) const;
template const std::vector<std::string>& ConfigSection::get(std::string_view) const;

const std::vector<std::string>& Config::names(std::string_view section) const {
  static const std::vector<std::string> kNone;
  const auto found = names_.find(section);
  return found == names_.end() ? kNone : found->second;
}

std::size_t Config::count(std::string_view list) const {
  const auto found = counts_.find(list);
  return found == counts_.end() ? 0 : found->second;
}

ConfigSection Config::section(std::string_view section) const {
  const std::string prefix = std::string(section) + ".";
  std::map<std::string, ConfigValue, std::less<>> values;
  for (auto at = entries_.lower_bound(prefix); at != entries_.end() && at->first.starts_with(prefix); ++at) {
    std::string key = at->first.substr(prefix.size());
    if (key.find('.') == std::string::npos) values.emplace(std::move(key), at->second.value);
  }
  return {std::string(section), std::move(values)};
}

const std::string& Config::where(std::string_view path) const { return entry(path).where; }

std::string Config::to_toml() const {
  std::string text;
  std::string section;
  for (const ConfigKey& key : schema_) {
    const std::size_t dot = key.path.rfind('.');
    const std::string key_section = dot == std::string::npos ? "" : key.path.substr(0, dot);
    if (key_section != section) {
      // A table of a list is numbered here and not in the file.
      text += key_section.ends_with(']') ? fmt::format("\n[[{}]]\n", key_section.substr(0, key_section.find('[')))
                                         : fmt::format("\n[{}]\n", key_section);
      section = key_section;
    }
    std::string note = key.unit;
    if (const std::string allowed = allowed_values(key); !allowed.empty()) {
      note += (note.empty() ? "" : "; ") + allowed;
    }
    text += fmt::format("# {}{}\n{} = {}\n", key.doc, note.empty() ? "" : fmt::format(" ({})", note),
                        dot == std::string::npos ? key.path : key.path.substr(dot + 1),
                        troupe::to_toml(entry(key.path).value));
  }
  return text;
}

std::string Config::hash() const {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&hash](std::string_view bytes) {
    for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  };
  for (const auto& [path, entry] : entries_) {  // a sorted map: the schema's order does not matter
    mix(path);
    mix("=");
    mix(troupe::to_toml(entry.value));
    mix("\n");
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace troupe
