#pragma once
// Where this process's shareable memory is to be found by the other processes of its host. Private to the shared-memory
// back end and to shareable_memory.cpp, which has it.
#include <cstddef>
#include <cstdint>

namespace troupe::collectives::detail {

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

}  // namespace troupe::collectives::detail
