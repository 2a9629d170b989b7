// "linear" and "matmul": the prepared product, and what of a layer its epilogue has not done.
#include <troupe/gpu/kernels/activation.hpp>
#include <troupe/gpu/kernels/kernel.hpp>
#include <troupe/gpu/kernels/map.hpp>
#include <troupe/gpu/kernels/product.hpp>

namespace troupe_cuda {
namespace {

std::size_t workspace(const Call& call) { return product_workspace(*call.product); }

cudaError_t matmul(const Call& call, cudaStream_t stream) {
  return run_product(*call.product, call.in[0].data, call.in[1].data, nullptr, false, data<float>(call.out[0]),
                     call.workspace, stream);
}

/// in: x, weight, bias; the product has been prepared with a bias. integer[0]: the activation.
cudaError_t linear(const Call& call, cudaStream_t stream) {
  constexpr std::int64_t kNone = 0, kRelu = 3;
  const std::int64_t kind = call.integer[0];
  float* const y = data<float>(call.out[0]);
  const cudaError_t error = run_product(*call.product, call.in[0].data, call.in[1].data, data<float>(call.in[2]),
                                        kind == kRelu, y, call.workspace, stream);
  if (error != cudaSuccess || kind == kNone || kind == kRelu) return error;
  return with_activation(kind, [&]<typename A>(A) {
    return map(stream, elements(call.out[0]), Activate<A>{}, y, static_cast<const float*>(y));
  });
}

constexpr Kernel kKernels[] = {
    {"linear", linear, workspace},
    {"matmul", matmul, workspace},
};

}  // namespace

std::span<const Kernel> product_kernels() { return kKernels; }

}  // namespace troupe_cuda
