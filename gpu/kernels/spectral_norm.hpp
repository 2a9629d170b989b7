#pragma once
// The kernels of spectral norm (spectral_norm.cu), for the table in normalisation.cu. All float32.
#include <troupe/gpu/kernels/kernel.hpp>

namespace troupe_cuda {

cudaError_t direction(const Call& call, cudaStream_t stream);
std::size_t direction_bytes(const Call& call);
cudaError_t spectral_scale(const Call& call, cudaStream_t stream);
cudaError_t spectral_scale_grad(const Call& call, cudaStream_t stream);
/// Of both.
std::size_t spectral_scale_bytes(const Call& call);

}  // namespace troupe_cuda
