#pragma once
// The keys of [roles.NAME], [placement.NAME] and [[channels]]: a topology of the user's own in a configuration, beside
// agents and replica groups or without any. Part of the schema of a training run (run/train_schema.hpp).
//
//   [roles.thermometer]
//   kind = "thermometer"       # one that the program's registry has
//   count = 2
//   period_s = 0.5             # a key of that kind
//   [[channels]]
//   from = "thermometer.celsius"
//   to = "display.celsius"
//   capacity = 4
//   [placement.thermometer]
//   nodes = 2
#include <string>
#include <vector>

#include <troupe/core/config.hpp>
#include <troupe/core/error.hpp>
#include <troupe/run/registry.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::apps {

/// Patterns "roles.*.KEY", with the keys of each kind in the sections of that kind only, and "channels[].KEY".
ConfigSchema role_schema(const Registry& registry);
/// Keys that each [roles.NAME] has, whatever its kind.
std::vector<std::string> common_role_keys();

/// What only several keys together, or the topology, can get wrong, one line a mistake, each beginning with its place.
std::vector<std::string> role_mistakes(const Config& config, const Registry& registry);

/// The roles of a configuration without such mistakes, in the order of their names. Errors: those of the kinds' make(),
/// beginning with the key.
Result<std::vector<actors::ConfiguredRole>> to_roles(const Config& config, const Registry& registry);
std::vector<actors::ChannelSpec> to_channels(const Config& config);

}  // namespace troupe::apps
