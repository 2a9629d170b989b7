#pragma once
// What `troupe compare` and `troupe sweep` take alike: what their table is to say.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/run/comparison.hpp>

namespace CLI {
class App;
}

namespace troupe::apps {

struct CompareArguments {
  std::string threshold;         ///< empty: not given
  std::vector<std::int64_t> at;  ///< empty: not given
};

/// Adds the options to a command; `arguments` outlives it.
void add_compare_arguments(CLI::App& command, CompareArguments& arguments);

/// Changes what was given. Errors: kInvalidArgument.
Status apply(const CompareArguments& arguments, ComparisonOptions& options);

}  // namespace troupe::apps
