// The Huber function's kernel for GPUs, of the operation of hello_op.cpp: a shared object beside the program, which
// opens it when a step with the operation is compiled for a GPU. One function of an element is all there is to it;
// map() gives each element a thread. What is not of single elements is a __global__ function that launch() starts.
#include <troupe/gpu/kernels/kernel.hpp>
#include <troupe/gpu/kernels/map.hpp>

namespace {

struct Huber {
  __device__ float operator()(float x) const {
    const float size = fabsf(x);
    return size <= 1 ? size * size / 2 : size - 0.5F;
  }
};

cudaError_t huber(const troupe_cuda::Call& call, cudaStream_t stream) {
  const TroupeCudaOperand &x = call.in[0], &y = call.out[0];
  return troupe_cuda::map(stream, y.rows * y.cols, Huber{}, static_cast<float*>(y.data),
                          static_cast<const float*>(x.data));
}

}  // namespace

TROUPE_CUDA_KERNELS({"huber", huber})
