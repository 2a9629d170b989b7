#pragma once
// Memory whose values a group on one host reduces where they lie. Ranks that are processes see each other's memory only
// where both have mapped the same file; anything else has to be copied in and out of memory that they share, which is
// what limits an all-reduce from some 64 KiB on. Programs keep here what they give to collectives: gradients, and
// values in the middle of a step. The shared-memory back end looks by itself whether a call's values lie in such a
// block on all ranks.
#include <cstddef>
#include <cstdint>
#include <memory>

namespace troupe::collectives {

using ShareableArray = std::unique_ptr<std::byte[], void (*)(std::byte*)>;

/// A block of at least `bytes` bytes of zeros, on a page boundary. Never null, also for 0. It holds a file descriptor,
/// and can be reached by processes of the same user alone. Where the system gives no more of either, the memory is
/// this process's own and a warning says so: collectives then copy. A forked child shares the block.
ShareableArray make_shareable(std::size_t bytes);

namespace detail {

/// Where a block, and values in it, are to be found by a process of this host. Plain memory, without pointers.
struct SharedPlace {
  std::uint64_t id = 0;  ///< of the block, on this host; 0: the values lie in none
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  ///< of the values
  std::int32_t process = 0;
  std::int32_t file = 0;
};

/// Where the values are to be found, if all of them lie in one block.
SharedPlace find_shareable(const void* values, std::size_t bytes);

/// Leaves the file of the block in which `values` lie to those who have mapped it: the block keeps its address and its
/// values and gets a new file, so what they write later arrives nowhere. For a group that broke while one of them was
/// stopped in the middle of a write. What other threads of this process write meanwhile may be lost. Ends the process
/// when there is no memory for the copy, since nothing else would keep the others out.
void withdraw_block(const void* values);

}  // namespace detail
}  // namespace troupe::collectives
