#pragma once
// Where somebody finds the key that a mistake is about. Who checks a configuration knows keys and not lines.
#include <string>
#include <string_view>

#include <troupe/core/config.hpp>

namespace troupe::apps {

/// "run.toml:9" for a mistake that begins with a key ("learner.atoms: got 1"): where that key was set. For one that has
/// its default, where its [replicas.NAME] begins, or the file.
std::string place_of(const Config& config, std::string_view mistake);

}  // namespace troupe::apps
