#pragma once
// What a kernel of the plug-in is: the device's counterpart of OpDef::kernel, found by the operation's name. Each file
// of this folder has a family of them, written over the few building blocks of launch.hpp, reduce.hpp and
// copy_async.hpp; the same sources are compiled for the tests' emulated device (tests/gpu/emulator), so they use
// nothing of CUDA beyond what is in those headers. Operations of one's own have theirs in libraries of one's own.
//
// Rules: every output that is not null is written completely; no atomics, and reductions in a fixed order, so the same
// inputs give the same bits; no allocation and no synchronisation, because launches are captured into graphs.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <troupe/gpu/api.h>
#include <troupe/gpu/kernels/functions.hpp>

namespace troupe_cuda {

using Call = TroupeCudaCall;
using Operand = TroupeCudaOperand;

struct Kernel {
  const char* name;  ///< of the operation
  cudaError_t (*launch)(const Call& call, cudaStream_t stream);
  std::size_t (*workspace)(const Call& call) = nullptr;  ///< bytes of Call::workspace; null: none
  Function function = Function::kNone;                   ///< of single elements, which can be a part of a chain
};

inline std::int64_t elements(const Operand& operand) { return operand.rows * operand.cols; }
template <typename T>
T* data(const Operand& operand) {
  return static_cast<T*>(operand.data);
}

/// Null: there is none for the operation.
inline const TroupeCudaKernel* find_kernel(std::span<const Kernel> kernels, const char* op) {
  for (const Kernel& kernel : kernels) {
    if (std::strcmp(kernel.name, op) == 0) return reinterpret_cast<const TroupeCudaKernel*>(&kernel);
  }
  return nullptr;
}

/// Once in a library of kernels for operations of one's own, with its Kernels: TROUPE_CUDA_KERNELS({"huber", huber}).
/// OpDef::cuda names the library (docs/adding_an_op.md); CMake's troupe_cuda_library() builds it.
#define TROUPE_CUDA_KERNELS(...)                                                                                \
  extern "C" __attribute__((visibility("default"))) const TroupeCudaKernels* troupe_cuda_kernels() {            \
    static constexpr troupe_cuda::Kernel kernels[] = {__VA_ARGS__};                                             \
    static const TroupeCudaKernels table{TROUPE_CUDA_ABI,                                                       \
                                         [](const char* op) { return troupe_cuda::find_kernel(kernels, op); }}; \
    return &table;                                                                                              \
  }

/// The kernels of each file.
std::span<const Kernel> elementwise_kernels();    ///< arithmetic, activations, casts
std::span<const Kernel> math_kernels();           ///< functions, choices, random numbers
std::span<const Kernel> moving_kernels();         ///< parts of rows, copies, constants, masks, rows of a table
std::span<const Kernel> reduction_kernels();      ///< sums, gradients of biases, layer norm, clipping by norm
std::span<const Kernel> categorical_kernels();    ///< softmax, losses, distributions over atoms
std::span<const Kernel> image_kernels();          ///< pooling, resizing, modulation, what conv2d needs beside cuDNN
std::span<const Kernel> normalisation_kernels();  ///< batch norm, spectral norm
std::span<const Kernel> product_kernels();        ///< linear and matmul by cuBLASLt

}  // namespace troupe_cuda
