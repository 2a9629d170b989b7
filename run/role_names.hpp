#pragma once
// Which names the roles of a configuration may not have: those of a run's own roles and nodes, and those that would be
// mistaken for an instance of one.
#include <string>
#include <string_view>

namespace troupe::apps {

/// Why an [agents.NAME], [replicas.NAME] or [roles.NAME] would be mistaken for another role, node or instance
/// ("classifier-1"); empty: it would not.
std::string why_taken(std::string_view name);

}  // namespace troupe::apps
