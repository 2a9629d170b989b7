#pragma once
// Where somebody finds the key that a mistake is about. Who checks a configuration knows keys and not lines.
#include <string>
#include <string_view>

#include <troupe/core/config.hpp>
#include <troupe/core/error.hpp>

namespace troupe::apps {

/// "run.toml:9" for a mistake that begins with a key ("learner.atoms: got 1"): the place where that key was set. When
/// the key has its default, it is the place where its [replicas.NAME], [roles.NAME] or [[channels]] begins, or the
/// file.
std::string place_of(const Config& config, std::string_view mistake);

/// The error with the section before the key that each of its lines begins with: "replicas.NAME.depth: got 3".
Error in_section(std::string_view section, const Error& error);

/// The error with its place before each of its lines, which are such mistakes.
Error placed(const Config& config, const Error& error);

}  // namespace troupe::apps
