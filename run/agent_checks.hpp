#pragma once
// What is wrong with an agent's keys that only several of them together can make: the schema has looked at each alone.
#include <string>
#include <vector>

#include <troupe/core/config.hpp>

namespace troupe::apps {

/// evaluator.wrappers: those of the agent that are not for training only.
inline constexpr const char* kSameWrappers = "same";

/// Adds a line for each mistake, with the place where the first of its keys was set. prefix: of the agent's keys.
void check_agent(const Config& config, const std::string& prefix, std::vector<std::string>& mistakes);

}  // namespace troupe::apps
