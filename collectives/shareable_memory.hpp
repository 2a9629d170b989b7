#pragma once
// Memory whose values a group on one host reduces where they lie. Ranks that are processes see each other's memory only
// where both have mapped the same file; anything else has to be copied in and out of memory that they share, which is
// what limits an all-reduce from some 64 KiB on. Programs keep here what they give to collectives: gradients, and
// values in the middle of a step. The shared-memory back end looks by itself whether a call's values lie in such a
// block on all ranks.
#include <cstddef>
#include <memory>

namespace troupe::collectives {

using ShareableArray = std::unique_ptr<std::byte[], void (*)(std::byte*)>;

/// A block of at least `bytes` bytes of zeros, on a page boundary. Never null, also for 0. It holds a file descriptor,
/// and can be reached by processes of the same user alone. Where the system gives no more of either, the memory is
/// this process's own and a warning says so: collectives then copy. A forked child shares the block.
ShareableArray make_shareable(std::size_t bytes);

}  // namespace troupe::collectives
