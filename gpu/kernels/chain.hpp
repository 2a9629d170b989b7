#pragma once
// Several functions of single elements in one kernel. A step of a small network has dozens of them in a row, and each
// would cost what starting a kernel costs. A thread does all of them for its elements, one after the other, so the bits
// are those of the kernels alone; every result is written, whoever reads it later.
#include <troupe/gpu/kernels/kernel.hpp>

namespace troupe_cuda {

/// Whether a call can be a part of one: a function of single elements, in float32, of operands of one size.
bool can_chain(const Kernel& kernel, const Call& call);

/// In order. What one writes and another one touches must begin at the same address. count: at most
/// TROUPE_CUDA_MAX_CHAIN; all of them as can_chain() says and with as many elements.
cudaError_t launch_chain(const Kernel* const* kernels, const Call* const* calls, std::int32_t count,
                         cudaStream_t stream);

}  // namespace troupe_cuda
