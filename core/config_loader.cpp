// The reading half of core/config.hpp, and the only place that sees toml++.
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <set>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <troupe/core/check.hpp>
#include <troupe/core/config.hpp>
#include <troupe/core/nearest.hpp>
#include <troupe/core/text.hpp>

namespace troupe {
namespace {

constexpr std::size_t kListItemsMax = 64;
constexpr std::size_t kStringBytesMax = 256;
/// Bounds how deep a.b.c... can nest: toml++ frees its tables by recursion, so a deep one would overflow the stack.
constexpr std::size_t kLineBytesMax = 4096;

std::string_view node_type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::boolean:
      return "a boolean";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

std::size_t line_of(const toml::source_region& region) { return region.begin.line; }

std::string suggestion(std::string_view got, std::span<const std::string> known, std::string_view quote) {
  const std::vector<std::string> names = nearest(got, known, 1);
  return names.empty() ? "" : fmt::format(" (did you mean {}{}{}?)", quote, names[0], quote);
}

/// A value that was accepted, or what is wrong with it: "wrong type: got a string, expected an integer".
using Converted = Result<ConfigValue>;

Error wrong(std::string what) { return Error{Code::kInvalidArgument, std::move(what)}; }

Result<double> in_range(double value, const std::string& text, const ConfigKey& key) {
  if (!std::isfinite(value)) return wrong(fmt::format("out of range: got {}, expected a finite number", text));
  if (value < key.min || value > key.max) {
    return wrong(fmt::format("out of range: got {}, expected {}", text, allowed_values(key)));
  }
  return value;
}

Error wrong_type(const toml::node& node, std::string_view expected) {
  return wrong(fmt::format("wrong type: got {}, expected {}", node_type_name(node), expected));
}

Result<std::int64_t> to_int(const toml::node& node, const ConfigKey& key, std::string_view expected) {
  if (!node.is_integer()) return wrong_type(node, expected);
  const std::int64_t value = **node.as_integer();
  TROUPE_TRY(in_range(static_cast<double>(value), std::to_string(value), key));
  return value;
}

/// An integer is a fine number; nothing else is converted.
Result<double> to_float(const toml::node& node, const ConfigKey& key, std::string_view expected) {
  if (!node.is_number()) return wrong_type(node, expected);
  const double value = *node.value<double>();
  return in_range(value, fmt::format("{}", value), key);
}

Result<std::string> to_string(const std::string& value, const ConfigKey& key) {
  if (value.size() > kStringBytesMax) {
    return wrong(fmt::format("string too long: got {} bytes, expected at most {}", value.size(), kStringBytesMax));
  }
  if (printable(value) != value) return wrong(fmt::format("control character in \"{}\"", printable(value)));
  if (!key.choices.empty() && std::find(key.choices.begin(), key.choices.end(), value) == key.choices.end()) {
    return wrong(fmt::format("unknown value \"{}\"{}, expected {}", value, suggestion(value, key.choices, "\""),
                             allowed_values(key)));
  }
  return value;
}

template <typename T, typename Convert>
Converted to_list(const toml::node& node, std::string_view expected, Convert convert) {
  if (!node.is_array()) return wrong_type(node, expected);
  const toml::array& array = *node.as_array();
  if (array.empty() || array.size() > kListItemsMax) {
    return wrong(fmt::format("wrong length: got {} elements, expected 1 .. {}", array.size(), kListItemsMax));
  }
  std::vector<T> values;
  for (const toml::node& element : array) {
    TROUPE_ASSIGN(const T value, convert(element));
    values.push_back(value);
  }
  return ConfigValue(std::move(values));
}

Converted convert(const toml::node& node, const ConfigKey& key) {
  const std::string_view expected = type_name(key.default_value);
  const auto as_int = [&](const toml::node& n) { return to_int(n, key, expected); };
  const auto as_float = [&](const toml::node& n) { return to_float(n, key, expected); };
  if (std::holds_alternative<bool>(key.default_value)) {
    if (!node.is_boolean()) return wrong_type(node, expected);
    return ConfigValue(**node.as_boolean());
  }
  if (std::holds_alternative<std::int64_t>(key.default_value)) {
    TROUPE_ASSIGN(const std::int64_t value, as_int(node));
    return ConfigValue(value);
  }
  if (std::holds_alternative<double>(key.default_value)) {
    TROUPE_ASSIGN(const double value, as_float(node));
    return ConfigValue(value);
  }
  if (std::holds_alternative<std::string>(key.default_value)) {
    if (!node.is_string()) return wrong_type(node, expected);
    TROUPE_ASSIGN(std::string value, to_string(**node.as_string(), key));
    return ConfigValue(std::move(value));
  }
  if (std::holds_alternative<std::vector<std::int64_t>>(key.default_value)) {
    return to_list<std::int64_t>(node, expected, as_int);
  }
  return to_list<double>(node, expected, as_float);
}

}  // namespace

/// Gathers values and mistakes; finish() hands out one or the other.
class ConfigLoader {
 public:
  explicit ConfigLoader(const ConfigSchema& schema) {
    config_.schema_ = schema;
    for (const ConfigKey& key : config_.schema_) {
      const std::size_t dot = key.path.find('.');
      TROUPE_CHECK(dot == key.path.rfind('.'), "config key {} has more than one dot", key.path);
      TROUPE_CHECK(keys_.emplace(key.path, &key).second, "config key {} appears twice", key.path);
      paths_.push_back(key.path);
      if (dot != std::string::npos) sections_.insert(key.path.substr(0, dot));
    }
  }
  ConfigLoader(const ConfigLoader&) = delete;
  ConfigLoader& operator=(const ConfigLoader&) = delete;

  void read_text(std::string_view text, const std::string& name) {
    name_ = printable(name);
    if (!lines_short(text)) return;
    try {
      const toml::table table = toml::parse(text, name);
      read_table(table, "");
      for (const ConfigKey& key : config_.schema_) {
        if (key.required) required_.insert(key.path);
      }
    } catch (const toml::parse_error& error) {
      // toml++ quotes the offending text, which may hold anything.
      fail(line_of(error.source()), fmt::format("syntax error: {}", printable(error.description())));
    }
    std::stable_sort(file_mistakes_.begin(), file_mistakes_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  }

  void read_override(const std::string& text) {
    const std::string label = fmt::format("--set {}", printable(text));
    const auto fail = [&](std::string_view what) { override_mistakes_.push_back(fmt::format("{}: {}", label, what)); };
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) return fail("expected KEY=VALUE");
    const std::string path = text.substr(0, equals);
    const std::string value = text.substr(equals + 1);
    const auto found = keys_.find(path);
    if (found == keys_.end()) {
      return fail(fmt::format("unknown key {}{}", printable(path), suggestion(path, paths_, "")));
    }
    const Converted converted = convert_override(value, *found->second);
    if (!converted.ok()) return fail(converted.error().message);
    config_.entries_[path] = {*converted, label};
  }

  Result<Config> finish() {
    std::vector<std::string> mistakes;
    for (const auto& [line, what] : file_mistakes_) mistakes.push_back(fmt::format("{}:{}: {}", name_, line, what));
    for (const std::string& path : required_) {
      if (config_.entries_.count(path) == 0 && seen_.count(path) == 0) {
        mistakes.push_back(fmt::format("{}: missing key {}: {}", name_, path, keys_.find(path)->second->doc));
      }
    }
    mistakes.insert(mistakes.end(), override_mistakes_.begin(), override_mistakes_.end());
    if (!mistakes.empty()) return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(mistakes, "\n"))};
    for (const ConfigKey& key : config_.schema_) {
      config_.entries_.try_emplace(key.path, Config::Entry{key.default_value, "default"});
    }
    return std::move(config_);
  }

 private:
  void fail(std::size_t line, std::string what) { file_mistakes_.emplace_back(line, std::move(what)); }

  bool lines_short(std::string_view text) {
    for (std::size_t line = 1; !text.empty(); ++line) {
      const std::size_t length = std::min(text.find('\n'), text.size());
      if (length > kLineBytesMax) {
        fail(line, fmt::format("line too long: got {} bytes, expected at most {}", length, kLineBytesMax));
        return false;
      }
      text.remove_prefix(std::min(length + 1, text.size()));
    }
    return true;
  }

  void read_table(const toml::table& table, const std::string& prefix) {
    for (const auto& [toml_key, node] : table) {
      const std::string path = prefix + std::string(toml_key.str());
      const std::size_t line = line_of(toml_key.source());
      if (const auto found = keys_.find(path); found != keys_.end()) {
        read_value(path, *found->second, node, line);
      } else if (sections_.count(path) > 0) {
        if (node.is_table()) {
          read_table(*node.as_table(), path + ".");
        } else {
          fail(line, fmt::format("{} is a section: got {}, expected [{}]", path, node_type_name(node), path));
        }
      } else if (node.is_table() && !node.as_table()->empty()) {
        read_table(*node.as_table(), path + ".");  // every key in it is unknown and gets its own suggestion
      } else {
        fail(line, fmt::format("unknown key {}{}", printable(path), suggestion(path, paths_, "")));
      }
    }
  }

  void read_value(const std::string& path, const ConfigKey& key, const toml::node& node, std::size_t line) {
    seen_.insert(path);
    const Converted converted = convert(node, key);
    if (converted.ok()) {
      config_.entries_[path] = {*converted, fmt::format("{}:{}", name_, line)};
    } else {
      fail(line, fmt::format("{}: {}", path, converted.error().message));
    }
  }

  /// On the command line a string needs no quotes, since the shell takes them away.
  static Converted convert_override(const std::string& value, const ConfigKey& key) {
    const bool quoted = !value.empty() && (value[0] == '"' || value[0] == '\'');
    if (std::holds_alternative<std::string>(key.default_value) && !quoted) {
      TROUPE_ASSIGN(std::string text, to_string(value, key));
      return ConfigValue(std::move(text));
    }
    const Error not_a_value =
        wrong(fmt::format("wrong type: got {}, expected {}", printable(value), type_name(key.default_value)));
    if (value.find_first_of("\r\n") != std::string::npos) return not_a_value;  // it would be more than a value
    try {
      const toml::table table = toml::parse("value = " + value);
      return convert(*table.get("value"), key);
    } catch (const toml::parse_error&) {
      return not_a_value;
    }
  }

  Config config_;
  std::map<std::string, const ConfigKey*, std::less<>> keys_;
  std::vector<std::string> paths_;
  std::set<std::string, std::less<>> sections_;
  std::set<std::string> required_;  ///< checked only when the file could be parsed
  std::set<std::string> seen_;      ///< present in the file, though perhaps with a bad value
  std::string name_;
  std::vector<std::pair<std::size_t, std::string>> file_mistakes_;  ///< line, what
  std::vector<std::string> override_mistakes_;
};

Result<Config> parse_config(std::string_view text, const std::string& name, std::span<const std::string> overrides,
                            const ConfigSchema& schema) {
  ConfigLoader loader(schema);
  loader.read_text(text, name);
  for (const std::string& override_text : overrides) loader.read_override(override_text);
  return loader.finish();
}

Result<Config> load_config(const std::filesystem::path& file, std::span<const std::string> overrides,
                           const ConfigSchema& schema) {
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
  return parse_config(text, file.string(), overrides, schema);
}

}  // namespace troupe
