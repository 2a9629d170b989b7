// The reading half of core/config.hpp.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <troupe/core/check.hpp>
#include <troupe/core/config.hpp>
#include <troupe/core/nearest.hpp>
#include <troupe/core/text.hpp>
#include <troupe/core/toml.hpp>

namespace troupe {
namespace {

constexpr std::size_t kListItemsMax = 64;
constexpr std::size_t kStringBytesMax = 256;
/// Mistakes that are listed; of more, only how many there are.
constexpr std::size_t kMistakesMax = 20;

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

Error wrong_type(const TomlValue& node, std::string_view expected) {
  return wrong(fmt::format("wrong type: got {}, expected {}", type_name(node), expected));
}

Result<std::int64_t> to_int(const TomlValue& node, const ConfigKey& key, std::string_view expected) {
  const auto* value = std::get_if<std::int64_t>(&node.value);
  if (value == nullptr) return wrong_type(node, expected);
  TROUPE_TRY(in_range(static_cast<double>(*value), std::to_string(*value), key));
  return *value;
}

/// An integer is a fine number; nothing else is converted.
Result<double> to_float(const TomlValue& node, const ConfigKey& key, std::string_view expected) {
  const auto* integer = std::get_if<std::int64_t>(&node.value);
  const auto* number = std::get_if<double>(&node.value);
  if (integer == nullptr && number == nullptr) return wrong_type(node, expected);
  const double value = number != nullptr ? *number : static_cast<double>(*integer);
  return in_range(value, fmt::format("{}", value), key);
}

Result<std::string> to_string(const std::string& value, const ConfigKey& key) {
  if (value.size() > kStringBytesMax) {
    return wrong(fmt::format("string too long: got {} bytes, expected at most {}", value.size(), kStringBytesMax));
  }
  if (printable(value) != value) return wrong(fmt::format("control character in \"{}\"", printable(value)));
  const auto* otherwise = std::get_if<std::string>(&key.default_value);
  if (otherwise != nullptr && value == *otherwise) return value;  // also where the default is none of the choices
  if (!key.choices.empty() && std::find(key.choices.begin(), key.choices.end(), value) == key.choices.end()) {
    return wrong(fmt::format("unknown value \"{}\"{}, expected {}", value, suggestion(value, key.choices, "\""),
                             allowed_values(key)));
  }
  return value;
}

/// A string for a key that wants one, or a list of them.
ConfigValue as_wanted(std::string value, const ConfigKey& key) {
  if (std::holds_alternative<std::string>(key.default_value)) return value;
  return std::vector<std::string>{std::move(value)};
}

template <typename T, typename Convert>
Converted to_list(const TomlValue& node, const ConfigKey& key, std::string_view expected, Convert convert) {
  const auto* list = std::get_if<TomlValue::List>(&node.value);
  if (list == nullptr) return wrong_type(node, expected);
  const std::size_t least = key.may_be_empty ? 0 : 1;
  if (list->size() < least || list->size() > kListItemsMax) {
    return wrong(fmt::format("wrong length: got {} elements, expected {} .. {}", list->size(), least, kListItemsMax));
  }
  std::vector<T> values;
  for (const TomlValue& element : *list) {
    TROUPE_ASSIGN(const T value, convert(element));
    values.push_back(value);
  }
  return ConfigValue(std::move(values));
}

Converted convert(const TomlValue& node, const ConfigKey& key) {
  const std::string_view expected = type_name(key.default_value);
  const auto as_int = [&](const TomlValue& n) { return to_int(n, key, expected); };
  const auto as_float = [&](const TomlValue& n) { return to_float(n, key, expected); };
  if (std::holds_alternative<bool>(key.default_value)) {
    const bool* value = std::get_if<bool>(&node.value);
    if (value == nullptr) return wrong_type(node, expected);
    return ConfigValue(*value);
  }
  if (std::holds_alternative<std::int64_t>(key.default_value)) {
    TROUPE_ASSIGN(const std::int64_t value, as_int(node));
    return ConfigValue(value);
  }
  if (std::holds_alternative<double>(key.default_value)) {
    TROUPE_ASSIGN(const double value, as_float(node));
    return ConfigValue(value);
  }
  const auto as_string = [&](const TomlValue& n) -> Result<std::string> {
    const auto* text = std::get_if<std::string>(&n.value);
    if (text == nullptr) return wrong_type(n, expected);
    return to_string(*text, key);
  };
  const bool strings = std::holds_alternative<std::vector<std::string>>(key.default_value);
  if (strings && !std::holds_alternative<std::string>(node.value)) {
    return to_list<std::string>(node, key, expected, as_string);
  }
  if (strings || std::holds_alternative<std::string>(key.default_value)) {
    TROUPE_ASSIGN(std::string value, as_string(node));
    return as_wanted(std::move(value), key);
  }
  if (std::holds_alternative<std::vector<std::int64_t>>(key.default_value)) {
    return to_list<std::int64_t>(node, key, expected, as_int);
  }
  return to_list<double>(node, key, expected, as_float);
}

}  // namespace

/// Gathers values and mistakes; finish() hands out one or the other.
class ConfigLoader {
 public:
  explicit ConfigLoader(const ConfigSchema& schema) {
    for (const ConfigKey& key : schema) {
      const std::size_t star = key.path.find(kPattern), list = key.path.find(kList);
      if (list != std::string::npos) {
        lists_[key.path.substr(0, list)].push_back(key);
      } else if (star == std::string::npos) {
        config_.schema_.push_back(key);
      } else if (!key.names_from.empty()) {
        followers_.push_back(key);
      } else {
        patterns_[key.path.substr(0, star)].push_back(key);
      }
    }
  }
  ConfigLoader(const ConfigLoader&) = delete;
  ConfigLoader& operator=(const ConfigLoader&) = delete;

  void read_text(std::string_view text, const std::string& name) {
    name_ = printable(name);
    config_.file_ = name_;
    const Result<TomlValue> file = parse_toml(text, name);
    if (!file.ok()) {
      unreadable_ = file.error().message;
      index_keys();
      return;
    }
    expand_patterns(*file);
    expand_lists(*file);
    index_keys();
    read_table(*file, "");
    for (const ConfigKey& key : config_.schema_) {
      if (key.required) required_.insert(key.path);
    }
    std::ranges::stable_sort(file_mistakes_, {}, &Mistake::line);
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
      if (!unreadable_.empty() && pattern_of(path) != nullptr) return;  // what sections there are is not known
      return fail(unknown(path));
    }
    if (selectors_.contains(path)) return fail("says which keys its section has: expected it in the file alone");
    const Converted converted = convert_override(value, *found->second);
    if (!converted.ok()) return fail(converted.error().message);
    config_.entries_[path] = {*converted, label};
  }

  Result<Config> finish() {
    std::vector<std::string> mistakes;
    if (!unreadable_.empty()) mistakes.push_back(unreadable_);
    std::size_t more = 0;
    for (const Mistake& mistake : file_mistakes_) {
      if (mistakes.size() == kMistakesMax) {
        more = file_mistakes_.size() - static_cast<std::size_t>(&mistake - file_mistakes_.data());
        break;
      }
      mistakes.push_back(
          fmt::format("{}:{}: {}", name_, mistake.line, mistake.unknown ? unknown(*mistake.unknown) : mistake.what));
    }
    if (more > 0) mistakes.push_back(fmt::format("{}: ... and {} more mistake{}", name_, more, more == 1 ? "" : "s"));
    for (const std::string& path : required_) {
      if (config_.entries_.count(path) == 0 && seen_.count(path) == 0) {
        const auto line = lines_.find(path.substr(0, path.rfind('.')));
        const std::string place = line == lines_.end() ? name_ : fmt::format("{}:{}", name_, line->second);
        mistakes.push_back(fmt::format("{}: missing key {}: {}", place, path, keys_.find(path)->second->doc));
      }
    }
    const std::size_t listed = std::min(override_mistakes_.size(), kMistakesMax);
    mistakes.insert(mistakes.end(), override_mistakes_.begin(),
                    override_mistakes_.begin() + static_cast<std::ptrdiff_t>(listed));
    if (listed < override_mistakes_.size()) {
      mistakes.push_back(fmt::format("--set: ... and {} more mistakes", override_mistakes_.size() - listed));
    }
    if (!mistakes.empty()) return Error{Code::kInvalidArgument, fmt::format("{}", fmt::join(mistakes, "\n"))};
    for (const ConfigKey& key : config_.schema_) {
      config_.entries_.try_emplace(key.path, Config::Entry{key.default_value, "default"});
    }
    return std::move(config_);
  }

 private:
  static constexpr std::string_view kPattern = ".*.", kList = "[].";

  /// The keys of a pattern, for each section that the file has of it.
  void expand_patterns(const TomlValue& file) {
    for (const auto& [section, keys] : patterns_) {
      sections_.insert(section);
      const TomlMember* const found = file.find(section);
      const auto* const members = found == nullptr ? nullptr : std::get_if<TomlValue::Table>(&found->value.value);
      if (members == nullptr) continue;
      std::vector<std::string>& names = config_.names_[section];
      for (const auto& [name, line, node] : *members) {
        if (!std::holds_alternative<TomlValue::Table>(node.value)) continue;  // read_table() says what is wrong
        if (!is_section_name(name)) {
          fail(line,
               fmt::format("[{}.{}]: expected a name of 1 .. {} lower-case letters, digits, '-' and '_', a letter "
                           "first",
                           section, printable(name), kSectionNameMax));
          refused_.insert(section + "." + name);
          continue;
        }
        if (names.size() == kConfigSectionsMax) {
          fail(line, fmt::format("[{}.{}]: more than {} sections of this kind", section, name, kConfigSectionsMax));
          refused_.insert(section + "." + name);
          continue;
        }
        names.push_back(name);
        lines_[section + "." + name] = line;
        for (const ConfigKey& key : keys) {
          if (has_key(node, keys, key)) add_key(key, section, name);
        }
      }
    }
    for (const ConfigKey& key : followers_) {
      const std::string section = key.path.substr(0, key.path.find(kPattern));
      sections_.insert(section);
      for (const std::string& name : config_.names(key.names_from)) {
        const std::string path = section + "." + name;
        const bool taken = std::ranges::any_of(
            config_.schema_, [&](const ConfigKey& other) { return other.path.starts_with(path + "."); });
        if (!taken) add_key(key, section, name);  // whoever has it already owns the name, and says so
      }
    }
  }

  void add_key(ConfigKey key, std::string_view section, std::string_view name) {
    key.path.replace(section.size() + 1, 1, name);
    if (key.only_with) selectors_.insert(fmt::format("{}.{}.{}", section, name, key.only_with->key));
    config_.schema_.push_back(std::move(key));
  }

  /// Whether the section that `node` is has this key of its pattern.
  static bool has_key(const TomlValue& node, const std::vector<ConfigKey>& keys, const ConfigKey& key) {
    if (!key.only_with) return true;
    if (const TomlMember* const chosen = node.find(key.only_with->key)) {
      const auto* const value = std::get_if<std::string>(&chosen->value.value);
      return value != nullptr && *value == key.only_with->value;
    }
    return std::ranges::any_of(keys, [&](const ConfigKey& selector) {
      return selector.path.ends_with(".*." + key.only_with->key) &&
             selector.default_value == ConfigValue(key.only_with->value);
    });
  }

  /// The keys of a list, for each of its tables.
  void expand_lists(const TomlValue& file) {
    for (const auto& [list, keys] : lists_) {
      const TomlMember* const found = file.find(list);
      if (found == nullptr) continue;
      const auto* const tables = std::get_if<TomlValue::List>(&found->value.value);
      const auto is_table = [](const TomlValue& value) {
        return std::holds_alternative<TomlValue::Table>(value.value);
      };
      if (tables == nullptr || !std::ranges::all_of(*tables, is_table)) {
        fail(found->line, fmt::format("{} is a list of sections: got {}, expected [[{}]]", list,
                                      tables == nullptr ? type_name(found->value) : "other values", list));
        refused_.insert(list);
        continue;
      }
      if (tables->size() > kConfigTablesMax) {
        fail(found->line,
             fmt::format("[[{}]]: got {} of them, expected at most {}", list, tables->size(), kConfigTablesMax));
        refused_.insert(list);
        continue;
      }
      config_.counts_[list] = tables->size();
      for (std::size_t i = 0; i < tables->size(); ++i) {
        lines_[fmt::format("{}[{}]", list, i)] = (*tables)[i].line;
        for (ConfigKey key : keys) {
          key.path.insert(list.size() + 1, std::to_string(i));
          config_.schema_.push_back(std::move(key));
        }
      }
    }
  }

  static constexpr std::size_t kSectionNameMax = 32;
  static bool is_section_name(std::string_view name) {
    const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
    return !name.empty() && name.size() <= kSectionNameMax && lower(name[0]) &&
           std::all_of(name.begin(), name.end(),
                       [&](char c) { return lower(c) || (c >= '0' && c <= '9') || c == '-' || c == '_'; });
  }

  void index_keys() {
    for (const ConfigKey& key : config_.schema_) {
      TROUPE_CHECK(keys_.emplace(key.path, &key).second, "config key {} appears twice", key.path);
      paths_.push_back(key.path);
      for (std::size_t dot = key.path.find('.'); dot != std::string::npos; dot = key.path.find('.', dot + 1)) {
        sections_.insert(key.path.substr(0, dot));
      }
    }
  }

  /// The keys of the pattern in whose sections `path` lies.
  const std::vector<ConfigKey>* pattern_of(std::string_view path) const {
    const auto found = patterns_.find(path.substr(0, path.find('.')));
    return found == patterns_.end() ? nullptr : &found->second;
  }

  /// "kind = "display"": what a section that there is must choose to have this key; empty: nothing would help.
  std::string only_with(const std::string& path) const {
    const std::vector<ConfigKey>* const keys = pattern_of(path);
    const std::size_t first = path.find('.'), second = first == std::string::npos ? first : path.find('.', first + 1);
    if (keys == nullptr || second == std::string::npos || !lines_.contains(path.substr(0, second))) return "";
    std::vector<std::string> choices;
    for (const ConfigKey& key : *keys) {
      if (!key.only_with || key.path != path.substr(0, first) + ".*" + path.substr(second)) continue;
      choices.push_back(fmt::format("{} = \"{}\"", key.only_with->key, key.only_with->value));
    }
    return fmt::format("{}", fmt::join(choices, " or "));
  }

  std::string unknown(const std::string& path) const {
    std::vector<std::string> now;
    for (const ConfigKey& key : config_.schema_) {
      if (!path.empty() && key.formerly == path) now.push_back(key.path);
    }
    if (!now.empty()) return fmt::format("{} has moved: it is {} now", printable(path), fmt::join(now, " and "));
    if (const std::string with = only_with(path); !with.empty()) {
      return fmt::format("unknown key {}: its section has it only with {}", printable(path), with);
    }
    std::vector<std::string> known = paths_;
    // What a pattern would be called here: [replica.cnn] was meant to be [replicas.cnn].
    const std::size_t first = path.find('.'), second = first == std::string::npos ? first : path.find('.', first + 1);
    for (const auto& [section, keys] : patterns_) {
      if (second == std::string::npos || section == path.substr(0, first)) continue;
      for (const ConfigKey& key : keys) {
        known.push_back(section + path.substr(first, second - first) + key.path.substr(section.size() + 2));
      }
    }
    return fmt::format("unknown key {}{}", printable(path), suggestion(path, known, ""));
  }

  struct Mistake {
    std::size_t line;
    std::string what;
    std::optional<std::string> unknown =
        {};  ///< a key: what to say of it takes a search, which only those that are listed are worth
  };
  void fail(std::size_t line, std::string what) { file_mistakes_.push_back({line, std::move(what), {}}); }

  void read_table(const TomlValue& table, const std::string& prefix) {
    for (const auto& [name, line, node] : std::get<TomlValue::Table>(table.value)) {
      const std::string path = prefix + name;
      const auto* members = std::get_if<TomlValue::Table>(&node.value);
      if (refused_.contains(path)) continue;
      if (lists_.contains(path)) {
        const auto& tables = std::get<TomlValue::List>(node.value);
        for (std::size_t i = 0; i < tables.size(); ++i) read_table(tables[i], fmt::format("{}[{}].", path, i));
      } else if (name.find('[') != std::string::npos) {  // as only we call the tables of a list
        file_mistakes_.push_back({line, "", path});
      } else if (const auto found = keys_.find(path); found != keys_.end()) {
        read_value(path, *found->second, node, line);
      } else if (sections_.count(path) > 0) {
        if (members != nullptr) {
          read_table(node, path + ".");
        } else {
          fail(line, fmt::format("{} is a section: got {}, expected [{}]", path, type_name(node), path));
        }
      } else if (members != nullptr && !members->empty()) {
        read_table(node, path + ".");  // every key in it is unknown and gets its own suggestion
      } else {
        file_mistakes_.push_back({line, "", path});
      }
    }
  }

  void read_value(const std::string& path, const ConfigKey& key, const TomlValue& node, std::size_t line) {
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
    const bool one_of_list =
        std::holds_alternative<std::vector<std::string>>(key.default_value) && !value.starts_with('[');
    if ((one_of_list || std::holds_alternative<std::string>(key.default_value)) && !quoted) {
      TROUPE_ASSIGN(std::string text, to_string(value, key));
      return as_wanted(std::move(text), key);
    }
    const Error not_a_value = wrong(fmt::format(
        "wrong type: got {}, expected {}", value.empty() ? "nothing" : printable(value), type_name(key.default_value)));
    if (value.find_first_of("\r\n") != std::string::npos) return not_a_value;  // it would be more than a value
    const Result<TomlValue> parsed = parse_toml("value = " + value, "");
    return parsed.ok() ? convert(parsed->find("value")->value, key) : not_a_value;
  }

  Config config_;
  std::map<std::string, std::vector<ConfigKey>, std::less<>> patterns_;  ///< by what stands before the star
  std::vector<ConfigKey> followers_;                                     ///< patterns named as others
  std::map<std::string, std::vector<ConfigKey>, std::less<>> lists_;     ///< by what stands before the brackets
  std::set<std::string, std::less<>> selectors_;  ///< keys whose value says which others their section has
  std::map<std::string, const ConfigKey*, std::less<>> keys_;
  std::vector<std::string> paths_;
  std::set<std::string, std::less<>> sections_;
  std::map<std::string, std::size_t> lines_;  ///< where sections of patterns and lists begin
  std::set<std::string> refused_;             ///< sections whose names say that something is wrong already
  std::set<std::string> required_;            ///< checked only when the file could be parsed
  std::set<std::string> seen_;                ///< present in the file, though perhaps with a bad value
  std::string name_;
  std::string unreadable_;  ///< why the file's keys could not be looked at
  std::vector<Mistake> file_mistakes_;
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
  TROUPE_ASSIGN(const std::string text, read_config_text(file));
  return parse_config(text, file.string(), overrides, schema);
}

}  // namespace troupe
