#pragma once
// Keys that nothing looks at in a run of this configuration: whoever sets one expects something that does not happen.
// Part of run/check_begin.hpp.
#include <string>
#include <vector>

#include <troupe/core/config.hpp>

namespace troupe::apps {

/// One line for each key that has another value than its default and no effect, beginning with the key. A value that
/// is the default's may stand in a file: resolved configurations have them all.
std::vector<std::string> idle_key_mistakes(const Config& config);

}  // namespace troupe::apps
