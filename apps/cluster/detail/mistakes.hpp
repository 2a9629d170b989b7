#pragma once
// Gathers all that is wrong with something from outside, so that its author sees everything at once; and the few checks
// that the readers of TOML files here share.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/toml.hpp>

namespace troupe::apps::detail {

/// " (did you mean x?)", or empty when nothing known is near.
std::string suggestion(std::string_view got, std::span<const std::string> known);

class Mistakes {
 public:
  /// `file` begins every line of the report.
  explicit Mistakes(std::string file) : file_(std::move(file)) {}

  /// line 0: none, it is about the whole file.
  void add(std::size_t line, std::string what) { found_.emplace_back(line, std::move(what)); }
  bool any() const { return !found_.empty(); }
  /// In the order of lines, one mistake a line, what is about the whole file last. kInvalidArgument, or fine.
  Status report() const;

  /// Complains when `value` is no table, and of every member that is not `known`. `what`: "a node".
  bool is_table(const TomlValue& value, std::string_view what, const std::vector<std::string>& known);
  /// The member as text, number or list; null when it is absent or of another type, which is complained of.
  const std::string* text(const TomlValue& table, std::string_view name);
  const std::int64_t* integer(const TomlValue& table, std::string_view name);
  const TomlValue::List* list(const TomlValue& table, std::string_view name);

 private:
  template <typename T>
  const T* get(const TomlValue& table, std::string_view name, std::string_view expected);

  std::string file_;
  std::vector<std::pair<std::size_t, std::string>> found_;
};

}  // namespace troupe::apps::detail
