#pragma once
// The end of a step on the device: whether it counts, what the optimisers do, and what follows the parameters. As in
// the table of api.h, on CUDA's own streams.
#include <cuda_runtime.h>

#include <cstdint>

#include <troupe/gpu/api.h>

namespace troupe_cuda {

cudaError_t sum_squares(const TroupeCudaSquares* parts, std::int32_t count, cudaStream_t stream);
cudaError_t decide(const TroupeCudaGradient* gradients, std::int32_t count, TroupeCudaControl* control,
                   cudaStream_t stream);
cudaError_t lars_rate(const TroupeCudaLars& variable, float* rate, cudaStream_t stream);
cudaError_t update(const TroupeCudaUpdate* parts, std::int32_t count, cudaStream_t stream);
cudaError_t keep_length(const TroupeCudaKept* parts, std::int32_t count, cudaStream_t stream);
cudaError_t follow(const float* values, float* average, std::uint16_t* shadow, double decay, std::int64_t count,
                   const std::int32_t* due, const TroupeCudaControl* control, cudaStream_t stream);
cudaError_t assign(const TroupeCudaAssign* parts, std::int32_t count, const TroupeCudaControl* control,
                   cudaStream_t stream);
cudaError_t accumulate(float* gradient, float* sum, std::int64_t count, float weight, float share, std::int32_t last,
                       cudaStream_t stream);
cudaError_t to_bf16(const float* from, std::uint16_t* to, std::int64_t count, cudaStream_t stream);

}  // namespace troupe_cuda
