#pragma once
// A TOML file as a tree of plain values that remember their lines. For files that are lists of things, where a flat
// list of keys (core/config.hpp) does not do: clusters and hosts (apps/cluster). Bounded like every file from outside.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe {

struct TomlMember;

struct TomlValue {
  using List = std::vector<TomlValue>;
  using Table = std::vector<TomlMember>;  ///< in the order of the names
  /// monostate: a date or time, which no file of ours has a use for.
  std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Table> value;
  std::size_t line = 0;

  const TomlMember* find(std::string_view name) const;  ///< Null when this is no table or has no such member.
};

struct TomlMember {
  std::string name;
  std::size_t line = 0;  ///< of the name
  TomlValue value;
};

/// "a table", "a string", ...: for messages.
std::string_view type_name(const TomlValue& value);

/// `name` stands for the file in messages. Errors: kInvalidArgument, "file:3: syntax error: ..." (also for invalid
/// UTF-8, for lines that are too long, and for more tables and lists within each other than any file of ours has).
Result<TomlValue> parse_toml(std::string_view text, std::string_view name);

/// The text of a configuration file. Errors: kNotFound; kIo when it is not a regular file, cannot be read or is larger
/// than kConfigBytesMax (core/config.hpp).
Result<std::string> read_config_text(const std::filesystem::path& file);

}  // namespace troupe
