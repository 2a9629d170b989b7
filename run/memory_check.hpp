#pragma once
// Whether this machine has the memory that a run needs at least, asked before anything is started: hundreds of env
// actors cost gigabytes, and a machine that swaps trains nothing.
#include <cstdint>

#include <troupe/core/error.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::apps {

/// What this process and its children may still take. 0: no limit, or nobody can tell.
struct AvailableMemory {
  std::uint64_t bytes = 0;      ///< what the kernel has to give, less where a control group allows less
  std::uint64_t addresses = 0;  ///< bytes of each process, used or not: ulimit -v
};
AvailableMemory available_memory();

/// Bytes that the env actors of a run, their processes included, take at least; measured, see the .cpp. processes: how
/// many the run is.
std::uint64_t least_memory(const actors::TrainOptions& options, std::int64_t processes);

/// The same in addresses, which stacks and MuJoCo's arenas take without using them; 0 when it is several processes.
std::uint64_t least_addresses(const actors::TrainOptions& options, std::int64_t processes);

/// Warns when either is more than half of what is available. Errors: kUnavailable when it is more than all.
Status check_memory(const actors::TrainOptions& options, std::int64_t processes, AvailableMemory available);

}  // namespace troupe::apps
