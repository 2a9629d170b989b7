#pragma once
// The memory that the simulated kernels work on: the host's, where tests have nothing else; that of the emulated GPU
// (tests/gpu/emulator) in a process that has one, whose memory cannot be touched but through it. Private to the
// simulated NCCL.
#include <cstddef>
#include <span>

namespace troupe::collectives::simulated_nccl {

/// Whether a kernel of the device may work on these bytes: with an emulated GPU they must be that one's.
bool is_memory_of(int device, const void* at, std::size_t bytes);

void load(std::span<float> to, const float* from);
void store(std::span<const float> from, float* to);

}  // namespace troupe::collectives::simulated_nccl
