#pragma once
// Keys that nothing looks at in a run of this configuration: whoever sets one expects something that does not happen.
// Part of run/check_begin.hpp; a comparison of runs does not look at them either.
#include <string>
#include <vector>

#include <troupe/core/config.hpp>

namespace troupe::apps {

/// The section of an environment or an algorithm that an agent could have, and has not.
struct UnusedSection {
  std::string begin;      ///< of its keys: "td3.", "agents.alice.td3."
  std::string only_with;  ///< "algorithm = \"td3\""
};
std::vector<UnusedSection> unused_sections(const Config& config);

/// One line for each key that has another value than its default and no effect, beginning with the key. A value that
/// is the default's may stand in a file: resolved configurations have them all.
std::vector<std::string> idle_key_mistakes(const Config& config);

}  // namespace troupe::apps
