// Stands in for product_cublaslt.cpp on the emulated device: products by plain loops that add up in float32, but where
// our own kernel is asked for.
#include <cstdint>

#include <troupe/gpu/kernels/launch.hpp>
#include <troupe/gpu/kernels/library_error.hpp>
#include <troupe/gpu/kernels/product.hpp>
#include <troupe/gpu/kernels/tiled_product.hpp>

struct TroupeCudaProduct {
  TroupeCudaProductShape shape{};
  int device = 0;
};

namespace troupe_cuda {
namespace {

bool is_aligned_to(const void* memory, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(memory) % bytes == 0;
}

template <typename S>
cudaError_t multiply(const TroupeCudaProductShape& s, const S* a, const S* b, const float* bias, float* c,
                     void* workspace, cudaStream_t stream) {
  const cudaError_t error = for_each(stream, s.m, [=](std::int64_t row) {
    if (row == 0) std::memset(workspace, 0xff, 256);  // it must be there
    float* const to = c + row * s.n;
    for (std::int64_t col = 0; col < s.n; ++col) to[col] = 0;
    for (std::int64_t i = 0; i < s.k; ++i) {
      const float factor = load(a, s.transpose_a != 0 ? i * s.m + row : row * s.k + i);
      const std::int64_t first = s.transpose_b != 0 ? i : i * s.n, step = s.transpose_b != 0 ? s.k : 1;
      for (std::int64_t col = 0; col < s.n; ++col) to[col] += factor * load(b, first + col * step);
    }
    for (std::int64_t col = 0; s.bias != 0 && col < s.n; ++col) to[col] += bias[col];
  });
  return error != cudaSuccess || s.activation == 0 ? error : activate(s.activation, s.m * s.n, c, stream);
}

}  // namespace

cudaError_t make_product(const TroupeCudaProductShape& shape, TroupeCudaProduct** product) {
  if (shape.m < 1 || shape.n < 1 || shape.k < 1) {
    return library_failed("emulated product: %lld x %lld by %lld, expected at least 1 of each",
                          static_cast<long long>(shape.m), static_cast<long long>(shape.k),
                          static_cast<long long>(shape.n));
  }
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  *product = new TroupeCudaProduct{shape, device};
  return cudaSuccess;
}

void destroy_product(TroupeCudaProduct* product) { delete product; }

std::size_t product_workspace(const TroupeCudaProduct&) { return 256; }

cudaError_t run_product(const TroupeCudaProduct& product, const void* a, const void* b, const float* bias, float* c,
                        void* workspace, cudaStream_t stream) {
  const TroupeCudaProductShape& s = product.shape;
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  if (device != product.device) {
    return library_failed("emulated product: prepared on device %d, run on %d", product.device, device);
  }
  // Parameters are aligned to 64 bytes, and so their bfloat16 copies, which have the same offsets, to half of that.
  const std::uintptr_t aligned = s.bf16 != 0 ? 32 : 64;
  if (!is_aligned_to(a, aligned) || !is_aligned_to(b, aligned) || !is_aligned_to(c, 64) || a == nullptr ||
      b == nullptr || c == nullptr) {
    return library_failed("emulated product: an operand is not aligned to %d bytes", static_cast<int>(aligned));
  }
  if (workspace == nullptr || !is_aligned_to(workspace, 256)) {
    return library_failed("emulated product: the workspace is not aligned to 256 bytes");
  }
  if ((s.bias != 0) != (bias != nullptr) || (s.activation != 0 && s.bias == 0)) {
    return library_failed("emulated product: prepared %s a bias", s.bias != 0 ? "with" : "without");
  }
  if (s.bf16 != 0) {
    return multiply(s, static_cast<const std::uint16_t*>(a), static_cast<const std::uint16_t*>(b), bias, c, workspace,
                    stream);
  }
  const auto* const left = static_cast<const float*>(a);
  const auto* const right = static_cast<const float*>(b);
  if (s.tiling != 0) return tiled_product(s.tiling, s, left, right, bias, c, stream);
  return multiply(s, left, right, bias, c, workspace, stream);
}

}  // namespace troupe_cuda
