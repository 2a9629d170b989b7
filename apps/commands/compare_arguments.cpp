#include <troupe/apps/commands/compare_arguments.hpp>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>

namespace troupe::apps {

void add_compare_arguments(CLI::App& command, CompareArguments& a) {
  command
      .add_option("--threshold", a.threshold, "A return, or a share of the best one: when runs reach it (default 90%)")
      ->type_name("R|P%")
      ->check([](const std::string& text) {
        const auto parsed = parse_threshold(text);
        return parsed.ok() ? std::string() : parsed.error().message;
      });
  command.add_option("--at", a.at, "Env steps at which the table says the return")
      ->type_name("N,...")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 53))
      ->allow_extra_args(false);
}

Status apply(const CompareArguments& arguments, ComparisonOptions& options) {
  if (!arguments.threshold.empty()) {
    TROUPE_ASSIGN(options.threshold, parse_threshold(arguments.threshold));
  }
  for (auto at = arguments.at.begin(); at != arguments.at.end(); ++at) {
    if (std::find(at + 1, arguments.at.end(), *at) == arguments.at.end()) continue;
    return Error{Code::kInvalidArgument, fmt::format("--at: got {} twice, expected each number once", *at)};
  }
  if (!arguments.at.empty()) options.at = arguments.at;
  return {};
}

}  // namespace troupe::apps
