#pragma once
// Whether this machine has the memory that a run needs at least, asked before anything is started: hundreds of env
// actors cost gigabytes, and a machine that swaps trains nothing.
#include <cstdint>

#include <troupe/actors/train_options.hpp>
#include <troupe/core/error.hpp>

namespace troupe::apps {

/// Bytes that this process and its children may still take: what the kernel has to give, less where a control group or
/// ulimit -v allows less. 0: nobody can tell.
std::uint64_t available_memory();

/// Bytes that the env actors of a run, their processes included, take at least; measured, see the .cpp. processes: how
/// many the run is.
std::uint64_t least_memory(const actors::TrainOptions& options, std::int64_t processes);

/// Warns when least_memory() is more than half of what is available. Errors: kUnavailable when it is more than all.
Status check_memory(const actors::TrainOptions& options, std::int64_t processes, std::uint64_t available);

}  // namespace troupe::apps
