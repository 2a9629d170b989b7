#pragma once
// Matrix products, prepared for fixed sizes on the device in use. Behind these functions is cuBLASLt or our own kernel
// (product_cublaslt.cpp, tiled_product.hpp), and instead of the former, on the tests' emulated device, a plain loop.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include <troupe/gpu/api.h>

namespace troupe_cuda {

/// Chooses the algorithm: always the same one for a shape, device and version of the library.
cudaError_t make_product(const TroupeCudaProductShape& shape, TroupeCudaProduct** product);
void destroy_product(TroupeCudaProduct* product);
/// Bytes, at most kProductWorkspace.
std::size_t product_workspace(const TroupeCudaProduct& product);
constexpr std::size_t kProductWorkspace = std::size_t{32} << 20;

/// c = op(a) op(b), and where the shape says so, activation(. + bias). All pointers are aligned to 64 bytes, the
/// workspace to 256. c overlaps nothing. May be captured.
cudaError_t run_product(const TroupeCudaProduct& product, const void* a, const void* b, const float* bias, float* c,
                        void* workspace, cudaStream_t stream);

/// What a library's epilogue does not do: y[i] = activation(y[i]).
cudaError_t activate(std::int32_t activation, std::int64_t count, float* y, cudaStream_t stream);

}  // namespace troupe_cuda
