#pragma once
// Convolutions by cuDNN, prepared for fixed sizes on the device in use: chosen and compiled once, so that a run only
// launches. What cuDNN cannot fuse into one of its kernels is done by conv_finish.hpp.
#include <cuda_runtime.h>

#include <cstddef>

#include <troupe/gpu/api.h>

namespace troupe_cuda {

cudaError_t make_conv(const TroupeCudaConvShape& shape, TroupeCudaConv** conv);
void destroy_conv(TroupeCudaConv* conv);
std::size_t conv_workspace(const TroupeCudaConv& conv);
/// As TroupeCudnnApi::run. The workspace is aligned to 256 bytes. May be captured.
cudaError_t run_conv(const TroupeCudaConv& conv, const void* a, const void* b, const float* bias, void* c,
                     void* workspace, cudaStream_t stream);

}  // namespace troupe_cuda
