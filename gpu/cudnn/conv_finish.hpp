#pragma once
// What of a convolution cuDNN leaves to us.
#include <cuda_runtime.h>

#include <cstdint>

namespace troupe_cuda {

/// y [rows, channels], float32 or bfloat16: y = activation(y + bias), in place. bias may be null; activation: 0, 3 or
/// 5, as TroupeCudaConvShape's.
cudaError_t finish_forward(void* y, bool bf16, const float* bias, int activation, std::int64_t rows,
                           std::int64_t channels, cudaStream_t stream);

/// to [inner, out] = from [out, inner] transposed; from is float32 or bfloat16.
cudaError_t transpose_gradient(const void* from, bool bf16, float* to, std::int64_t out, std::int64_t inner,
                               cudaStream_t stream);

}  // namespace troupe_cuda
