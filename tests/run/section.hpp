#pragma once
// The section of a configuration for tests that make an algorithm, a model or an environment without one: the defaults
// of its keys, and what a test says instead.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/check.hpp>
#include <troupe/core/config.hpp>

namespace troupe::testing {

inline ConfigSection section(const ConfigSchema& keys,
                             const std::vector<std::pair<std::string, ConfigValue>>& values = {}) {
  std::map<std::string, ConfigValue, std::less<>> all;
  for (const ConfigKey& key : keys) all.emplace(key.path, key.default_value);
  for (const auto& [key, value] : values) {
    TROUPE_CHECK(all.contains(key) && all.at(key).index() == value.index(), "no key {} of that type", key);
    all.at(key) = value;
  }
  return {"section", std::move(all)};
}

}  // namespace troupe::testing
