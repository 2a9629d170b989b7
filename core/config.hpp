#pragma once
// Configuration: a schema declared as data, one TOML file, and overrides from the command line, resolved into values
// that need no further checking. This is the edge where a run's settings are validated, once and completely: every
// mistake is reported in one go, with file and line and the nearest valid key, so that a user never fixes one error
// only to meet the next. Used by apps/, which turns a Config into the typed options of the other folders.
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe {

/// The types a key can have: bool, int, float, string, int list, float list, string list (a file may give one string).
using ConfigValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                                 std::vector<double>, std::vector<std::string>>;

/// "a boolean", "an integer", "a number", "a string", "a list of integers", "a list of numbers", "a list of strings".
std::string_view type_name(const ConfigValue& value);
/// The value as TOML: 0.3, 1000000, "text", [256, 256]. Floats in the shortest form that reads back to the same bits.
std::string to_toml(const ConfigValue& value);

/// One key: its type is the type of its default.
struct ConfigKey {
  std::string path;           ///< "learner.batch_size" is batch_size in [learner], "a.b.c" is c in [a.b]
  ConfigValue default_value;  ///< also fixes the type
  std::string doc;            ///< one line, for `config --explain` and the resolved file
  std::string unit = "";      ///< "s", "steps", "bytes"; empty for plain numbers and names
  double min = -std::numeric_limits<double>::infinity();  ///< inclusive; for numbers and every element of a list
  double max = std::numeric_limits<double>::infinity();   ///< inclusive
  std::vector<std::string> choices = {};                  ///< for strings: if not empty, the only ones allowed
  bool may_be_empty = false;                              ///< of a list: [] is a value too
  bool required = false;                                  ///< no default: a file without this key is an error
  /// Whether what is made with one value can go on with another. kWhetherZero: with another one that is 0 too, or not.
  enum class Fixed { kNo, kValue, kWhetherZero };
  Fixed fixed = Fixed::kNo;
  /// Of a pattern: only those sections have the key whose own key `key` has this value, as in [roles.NAME], where the
  /// kind says which other keys there are.
  struct OnlyWith {
    std::string key, value;
  };
  std::optional<OnlyWith> only_with = {};
  /// Of a pattern: its sections are named as those of this other pattern, whether the file has them or not: every
  /// [roles.NAME] has a [placement.NAME].
  std::string names_from = "";
  /// The path that the key had in earlier versions: a file that still has it is told where it is now.
  std::string formerly = "";
};

/// All keys, in the order in which they are printed. Keys without a dot come first, keys of a section stand together.
/// "replicas.*.steps" stands for a key of every section [replicas.NAME] that the file has: any number of them, each
/// with a name of its own and with all keys of that pattern. "channels[].from" stands for a key of every [[channels]],
/// which are numbered: "channels[0].from".
using ConfigSchema = std::vector<ConfigKey>;

/// "1 .. 4096", ">= 0", "one of uniform, prioritized", or empty: the allowed values in words.
std::string allowed_values(const ConfigKey& key);

/// The values of one section by the names of their keys: what the maker of a part is given of a configuration. A value
/// type, which holds copies. Asking for a key that the section lacks, or with another type than it has, is a bug and
/// aborts.
class ConfigSection {
 public:
  ConfigSection(std::string name, std::map<std::string, ConfigValue, std::less<>> values)
      : name_(std::move(name)), values_(std::move(values)) {}

  const std::string& name() const { return name_; }  ///< "maze", "roles.thermometer"; for messages
  bool has(std::string_view key) const { return values_.contains(key); }
  bool get_bool(std::string_view key) const { return get<bool>(key); }
  std::int64_t get_int(std::string_view key) const { return get<std::int64_t>(key); }
  double get_float(std::string_view key) const { return get<double>(key); }
  const std::string& get_string(std::string_view key) const { return get<std::string>(key); }
  const std::vector<std::int64_t>& get_ints(std::string_view key) const { return get<std::vector<std::int64_t>>(key); }
  const std::vector<double>& get_floats(std::string_view key) const { return get<std::vector<double>>(key); }
  const std::vector<std::string>& get_strings(std::string_view key) const { return get<std::vector<std::string>>(key); }

 private:
  template <typename T>
  const T& get(std::string_view key) const;

  std::string name_;
  std::map<std::string, ConfigValue, std::less<>> values_;
};

/// A complete, checked set of values: exactly one for each key of the schema. A value type.
class Config {
 public:
  bool get_bool(std::string_view path) const { return get<bool>(path); }
  std::int64_t get_int(std::string_view path) const { return get<std::int64_t>(path); }
  double get_float(std::string_view path) const { return get<double>(path); }
  const std::string& get_string(std::string_view path) const { return get<std::string>(path); }
  const std::vector<std::int64_t>& get_ints(std::string_view path) const {
    return get<std::vector<std::int64_t>>(path);
  }
  const std::vector<double>& get_floats(std::string_view path) const { return get<std::vector<double>>(path); }
  const std::vector<std::string>& get_strings(std::string_view path) const {
    return get<std::vector<std::string>>(path);
  }

  const ConfigValue& value(std::string_view path) const { return entry(path).value; }
  /// The keys that this configuration has, those of all its sections among them.
  const ConfigSchema& schema() const { return schema_; }
  /// What the file was called: the place of what is missing.
  const std::string& file() const { return file_; }
  /// The NAMEs of the sections [section.NAME], in the order of the names.
  const std::vector<std::string>& names(std::string_view section) const;
  /// How many tables [[list]] there are.
  std::size_t count(std::string_view list) const;
  /// The values of [section]: those of its own keys, not of sections within it. Empty when it has none.
  ConfigSection section(std::string_view section) const;
  /// Whether the schema has this key.
  bool has(std::string_view path) const { return entries_.contains(path); }
  /// Where the value was set: "run.toml:14", "--set learner.batch_size=64" or "default"; for checks across keys.
  const std::string& where(std::string_view path) const;
  /// The resolved configuration as a TOML file with each key's doc, unit and allowed values as comments. Loading it
  /// again gives an equal Config.
  std::string to_toml() const;
  /// 16 hex digits over all paths and values (FNV-1a, 64 bit): equal for runs with equal settings on any machine,
  /// whatever the file's layout and comments. Not for security.
  std::string hash() const;

 private:
  friend class ConfigLoader;
  struct Entry {
    ConfigValue value;
    std::string where;
  };
  const Entry& entry(std::string_view path) const;

  /// Asking for a path that the schema lacks, or with another type than the schema's, is a bug and aborts.
  template <typename T>
  const T& get(std::string_view path) const;

  std::string file_;
  ConfigSchema schema_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::map<std::string, std::vector<std::string>, std::less<>> names_;
  std::map<std::string, std::size_t, std::less<>> counts_;
};

/// More sections of one pattern than this are refused.
inline constexpr std::size_t kConfigSectionsMax = 32;
/// And more tables of one list.
inline constexpr std::size_t kConfigTablesMax = 256;

/// A file larger than this is refused before it is read: no configuration is that long.
inline constexpr std::uintmax_t kConfigBytesMax = 1 << 20;

/// Reads `file`, applies `overrides` in order ("learner.batch_size=64"; the value is TOML, but a string needs no
/// quotes) and fills in the defaults. Pure apart from reading the file.
/// Errors: kInvalidArgument, the message holding one line a mistake, in the order of the file:
///     run.toml:14: unknown key learner.batchsize (did you mean learner.batch_size?)
///     --set learner.atoms=one: wrong type: got a string, expected an integer
/// A syntax error or invalid UTF-8 is reported with its line; after it the file's keys are not looked at.
/// kNotFound or kIo when the file cannot be read, is not a regular file, or is larger than kConfigBytesMax.
Result<Config> load_config(const std::filesystem::path& file, std::span<const std::string> overrides,
                           const ConfigSchema& schema);

/// The same for a text that is at hand; `name` stands for the file in messages.
Result<Config> parse_config(std::string_view text, const std::string& name, std::span<const std::string> overrides,
                            const ConfigSchema& schema);

}  // namespace troupe
