#pragma once
// The keys of an agent: its environment, its algorithm, the roles that feed it, and how its learners run. A
// configuration with one agent has them at its top ("env", "learner.count"); one with several has them in sections
// [agents.NAME], [agents.NAME.learner]. Part of the schema of a training run (run/train_schema.hpp).
#include <string>
#include <vector>

#include <troupe/core/config.hpp>
#include <troupe/core/error.hpp>
#include <troupe/run/agent_options.hpp>
#include <troupe/run/registry.hpp>

namespace troupe::apps {

/// The keys at the top, with the sections of all algorithms and environments that the program knows. Those without a
/// section come first.
ConfigSchema agent_schema(const Registry& registry);
/// The same keys as patterns "agents.*.KEY".
ConfigSchema named_agents(const ConfigSchema& keys);

/// What only several keys together can get wrong, one line a mistake, each beginning with its place.
std::vector<std::string> agent_mistakes(const Config& config);

/// The agents of a configuration without such mistakes, in the order of their names. Errors: those of the environments'
/// and algorithms' make(), with their place.
Result<std::vector<actors::AgentOptions>> to_agents(const Config& config, const Registry& registry);

}  // namespace troupe::apps
