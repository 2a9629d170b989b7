#include <troupe/run/role_schema.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include <troupe/core/text.hpp>
#include <troupe/run/role_names.hpp>

namespace troupe::apps {
namespace {

/// What a configuration is told that wants a role of a program without any.
constexpr const char* kNoKinds = "none: this program has no kinds of roles, see docs/adding_a_role.md";
constexpr double kRoleCountMax = 1024;
constexpr double kCapacityMax = 65536;

std::string role_key(std::string_view name, std::string_view key) { return fmt::format("roles.{}.{}", name, key); }
std::string channel_key(std::size_t i, std::string_view key) { return fmt::format("channels[{}].{}", i, key); }

/// "thermometer.celsius": a role and its port.
std::optional<std::pair<std::string, std::string>> end_of(const std::string& text) {
  const std::size_t dot = text.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == text.size() || text.find('.', dot + 1) != std::string::npos) {
    return std::nullopt;
  }
  return std::pair(text.substr(0, dot), text.substr(dot + 1));
}

/// Its place is where [roles.NAME] has its kind.
void check_roles(const Config& config, const Registry& registry, std::vector<std::string>& mistakes) {
  for (const std::string& name : config.names("roles")) {
    const std::string kind_key = role_key(name, "kind"), nodes_key = fmt::format("placement.{}.nodes", name);
    const auto add = [&](const std::string& key, const std::string& what) {
      const std::string& place = config.where(key);
      mistakes.push_back(fmt::format("{}: {}: {}", place == "default" ? config.where(kind_key) : place, key, what));
    };
    const std::string& kind = config.get_string(kind_key);
    if (!registry.roles().contains(kind)) {
      add(kind_key, fmt::format("got \"{}\", expected one of {}", kind, fmt::join(names_of(registry.roles()), ", ")));
    }
    const auto& groups = config.names("replicas");
    std::string taken = why_taken(name);
    if (std::ranges::find(groups, name) != groups.end() || (taken.empty() && !config.has(nodes_key))) {
      taken = "the role is called like another part of the run";
    }
    if (!taken.empty()) {
      add(kind_key, taken);
      continue;
    }
    const std::int64_t count = config.get_int(role_key(name, "count")), nodes = config.get_int(nodes_key);
    if (nodes > count) {
      add(nodes_key, fmt::format("got {} for {} instance{}, expected no more", nodes, count, count == 1 ? "" : "s"));
    }
  }
}

void check_channels(const Config& config, std::vector<std::string>& mistakes) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < config.count("channels"); ++i) {
    std::string both;
    bool whole = true;
    for (const char* const side : {"from", "to"}) {
      const std::string key = channel_key(i, side), &text = config.get_string(key);
      both += (both.empty() ? "" : " -> ") + text;
      if (end_of(text)) continue;
      whole = false;
      mistakes.push_back(fmt::format("{}: {}: got \"{}\", expected a role and its port: \"thermometer.celsius\"",
                                     config.where(key), key, text));
    }
    if (whole && !seen.insert(both).second) {
      const std::string key = channel_key(i, "from");
      mistakes.push_back(fmt::format("{}: {}: there is a channel {} already", config.where(key), key, both));
    }
  }
}

}  // namespace

std::vector<std::string> common_role_keys() { return {"kind", "count"}; }

ConfigSchema role_schema(const Registry& registry) {
  std::vector<std::string> kinds = names_of(registry.roles());
  if (kinds.empty()) kinds.emplace_back(kNoKinds);
  ConfigSchema schema = {
      {.path = "roles.*.kind",
       .default_value = std::string(),
       .doc = "What the role does; each [roles.NAME] is one of its own (docs/adding_a_role.md)",
       .choices = std::move(kinds),
       .required = true,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "roles.*.count",
       .default_value = std::int64_t{1},
       .doc = "Instances of the role",
       .min = 1,
       .max = kRoleCountMax,
       .fixed = ConfigKey::Fixed::kValue},
  };
  for (const auto& [kind, about] : registry.roles()) {
    for (ConfigKey key : about.keys) {
      key.path = "roles.*." + key.path;
      key.only_with = ConfigKey::OnlyWith{"kind", kind};
      schema.push_back(std::move(key));
    }
  }
  schema.push_back({.path = "placement.*.nodes",
                    .default_value = std::int64_t{1},
                    .doc = "Processes that share the instances of that role; 0: with the chief",
                    .min = 0,
                    .max = kRoleCountMax,
                    .names_from = "roles"});
  schema.push_back({.path = "channels[].from",
                    .default_value = std::string(),
                    .doc = "The sending end, \"ROLE.PORT\"; also of the roles of an agent or a group",
                    .required = true,
                    .fixed = ConfigKey::Fixed::kValue});
  schema.push_back({.path = "channels[].to",
                    .default_value = std::string(),
                    .doc = "The taking end, \"ROLE.PORT\"",
                    .required = true,
                    .fixed = ConfigKey::Fixed::kValue});
  schema.push_back({.path = "channels[].capacity",
                    .default_value = std::int64_t{4},
                    .doc = "Frames or calls under way for each pair of instances, but where the newest wins",
                    .min = 1,
                    .max = kCapacityMax});
  return schema;
}

std::vector<std::string> role_mistakes(const Config& config, const Registry& registry) {
  std::vector<std::string> mistakes;
  check_roles(config, registry, mistakes);
  check_channels(config, mistakes);
  return mistakes;
}

Result<std::vector<actors::ConfiguredRole>> to_roles(const Config& config, const Registry& registry) {
  std::vector<actors::ConfiguredRole> roles;
  for (const std::string& name : config.names("roles")) {
    const std::string& kind = config.get_string(role_key(name, "kind"));
    const RoleKind& about = registry.roles().find(kind)->second;  // role_mistakes() has nothing against it
    auto factory = make_role_factory(registry, kind, config.section("roles." + name));
    if (!factory.ok()) {
      return Error{factory.error().code,
                   fmt::format("{}: {}", role_key(name, "kind"), printable(factory.error().message, 4096))};
    }
    actors::ConfiguredRole& role = roles.emplace_back();
    role.nodes = config.get_int(fmt::format("placement.{}.nodes", name));
    actors::RoleSpec& spec = role.spec;
    spec.name = name;
    spec.count = config.get_int(role_key(name, "count"));
    spec.inlets = about.inlets;
    spec.outlets = about.outlets;
    spec.make = std::move(factory).value();
    spec.execution = about.execution;
    spec.restart.from = about.restart_from;
    spec.restart.quarantine = about.quarantine;
    spec.completes_run = about.completes_run;
    spec.elastic = about.elastic;
  }
  return roles;
}

std::vector<actors::ChannelSpec> to_channels(const Config& config) {
  std::vector<actors::ChannelSpec> channels;
  for (std::size_t i = 0; i < config.count("channels"); ++i) {
    const auto from = end_of(config.get_string(channel_key(i, "from")));
    const auto to = end_of(config.get_string(channel_key(i, "to")));
    channels.push_back({from->first, from->second, to->first, to->second, config.get_int(channel_key(i, "capacity"))});
  }
  return channels;
}

}  // namespace troupe::apps
