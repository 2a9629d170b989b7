// "linear" and "matmul": the prepared product.
#include <troupe/gpu/kernels/activation.hpp>
#include <troupe/gpu/kernels/kernel.hpp>
#include <troupe/gpu/kernels/map.hpp>
#include <troupe/gpu/kernels/product.hpp>

namespace troupe_cuda {
namespace {

std::size_t workspace(const Call& call) { return product_workspace(*call.product); }

cudaError_t multiply(const Call& call, const float* bias, cudaStream_t stream) {
  return run_product(*call.product, call.in[0].data, call.in[1].data, bias, data<float>(call.out[0]), call.workspace,
                     stream);
}
cudaError_t matmul(const Call& call, cudaStream_t stream) { return multiply(call, nullptr, stream); }
/// in: x, weight, bias; the product has been prepared with a bias and the layer's activation.
cudaError_t linear(const Call& call, cudaStream_t stream) { return multiply(call, data<float>(call.in[2]), stream); }

constexpr Kernel kKernels[] = {
    {"linear", linear, workspace},
    {"matmul", matmul, workspace},
};

}  // namespace

std::span<const Kernel> product_kernels() { return kKernels; }

cudaError_t activate(std::int32_t activation, std::int64_t count, float* y, cudaStream_t stream) {
  return with_activation(
      activation, [&]<typename A>(A) { return map(stream, count, Activate<A>{}, y, static_cast<const float*>(y)); });
}

}  // namespace troupe_cuda
