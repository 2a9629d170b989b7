#pragma once
// What the members of a group do every so many steps to stay what they say they are: variables of policy kBroadcast
// take rank 0's values, and those of kSync are compared, since a replica that has drifted away trains something else
// without anybody noticing (spectral norm's u, batch norm's averages). Used by replicators between two steps.
#include <cstdint>
#include <span>
#include <vector>

#include <troupe/collectives/communicator.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/engine/program.hpp>

namespace troupe::learner {

/// Steps between two comparisons, unless an option says otherwise: a hash of all variables, and 16 bytes on the wire.
inline constexpr std::int64_t kCheckEverySteps = 1000;

/// Before a step, by all members at the same one; does nothing unless one of the `taken` steps before was a multiple of
/// every_steps (0: never). Reads before it writes, so it may be repeated. Errors: kCorrupt naming step, the first variable that differs and the
/// ranks that differ from rank 0, on all of them alike; those of the communicator.
Status keep_consistent(Program& program, collectives::Communicator& group, std::int64_t every_steps,
                       std::int64_t taken = 1);

/// A hash of everything that members share: values and optimiser slots of variables of policy kSync.
std::uint64_t shared_digest(Program& program);

/// Values and optimiser slots of the variables that are not kSync.
std::vector<std::span<float>> own_variables(Program& program);

}  // namespace troupe::learner
