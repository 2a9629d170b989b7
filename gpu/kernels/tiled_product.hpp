#pragma once
// Float32 products of small networks, by our own kernel: c = op(a) op(b), and with a bias, activation(c + bias). At 256
// rows of 512 numbers cuBLASLt's kernels take 7 to 12 us, three to five times what the arithmetic needs: large tiles
// leave most processors without work, and where the library shares a long sum among them, a second kernel adds it up.
// Here a block has a small tile of c and shares its sums among its own threads, and the layer's activation is part of
// it. Which one is faster for a shape is measured where programs are compiled (product_cublaslt.cpp).
#include <cuda_runtime.h>

#include <cstdint>

#include <troupe/gpu/api.h>

namespace troupe_cuda {

/// Whether a product may be computed so: float32 operands, each of less than 2^30 elements.
bool can_tile(const TroupeCudaProductShape& shape);

/// tiling: 1 .. TROUPE_CUDA_TILINGS, sizes of a block's tile. Sums run in an order that depends on it and k alone.
/// bias: null without one. May be captured.
cudaError_t tiled_product(int tiling, const TroupeCudaProductShape& shape, const float* a, const float* b,
                          const float* bias, float* c, cudaStream_t stream);

}  // namespace troupe_cuda
