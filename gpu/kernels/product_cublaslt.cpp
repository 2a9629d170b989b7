// Products by cuBLASLt, or where it is measured to be faster, by our own kernel. The library has columns first: c^T =
// op(b)^T op(a)^T of the transposed views, which are the same memory. A bias runs along the rows of c^T, as its
// epilogues want.
#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>

#include <troupe/gpu/kernels/device_handle.hpp>
#include <troupe/gpu/kernels/fastest.hpp>
#include <troupe/gpu/kernels/library_error.hpp>
#include <troupe/gpu/kernels/product.hpp>
#include <troupe/gpu/kernels/tiled_product.hpp>

namespace {

using troupe_cuda::library_failed;

cudaError_t check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return cudaSuccess;
  return library_failed("cuBLASLt: %s: %s", what, cublasLtGetStatusString(status));
}

/// The library's functions may use one from several threads.
struct LtHandle {
  LtHandle() = default;
  ~LtHandle() {
    if (handle != nullptr) cublasLtDestroy(handle);
  }
  LtHandle(const LtHandle&) = delete;
  LtHandle& operator=(const LtHandle&) = delete;

  cudaError_t make() { return check(cublasLtCreate(&handle), "cublasLtCreate"); }
  cublasLtHandle_t handle = nullptr;

  /// Shape, types, bias and activation -> what was the fastest: the same answer for each product of a kind.
  std::mutex mutex;
  std::map<std::array<std::int64_t, 9>, int> fastest;
};

/// The activations of which the library has an epilogue.
constexpr std::int32_t kNoActivation = 0, kRelu = 3;

}  // namespace

// The library takes descriptors as pointers to what it could change, hence mutable; what changes is the bias.
struct TroupeCudaProduct {
  TroupeCudaProductShape shape{};
  int tiling = 0;  // of our own kernel, which needs nothing of what follows; 0: the library's
  std::shared_ptr<LtHandle> handle;
  mutable cublasLtMatrixLayoutOpaque_t first, second, result;  // b, a and c as the library sees them
  mutable cublasLtMatmulDescOpaque_t desc;
  cublasLtMatmulAlgo_t algorithm;
  std::size_t workspace = 0;
};

namespace {

/// Of the library's list, which is short for any one product.
constexpr int kMostWays = 8;

/// 16 bytes suit every type; pointers at run time are aligned to more.
constexpr std::uint32_t kAlignment = 64;

cudaError_t multiply(const TroupeCudaProduct& product, const cublasLtMatmulAlgo_t& algorithm, const void* a,
                     const void* b, const float* bias, float* c, void* workspace, std::size_t bytes,
                     cudaStream_t stream) {
  const TroupeCudaProductShape& shape = product.shape;
  if (shape.bias) {
    const cublasStatus_t status =
        cublasLtMatmulDescSetAttribute(&product.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias));
    if (status != CUBLAS_STATUS_SUCCESS) return check(status, "the bias of a product");
  }
  const float one = 1, zero = 0;
  const cublasStatus_t status =
      cublasLtMatmul(product.handle->handle, &product.desc, &one, b, &product.first, a, &product.second, &zero, c,
                     &product.result, c, &product.result, &algorithm, workspace, bytes, stream);
  if (status != CUBLAS_STATUS_SUCCESS) return check(status, "a product");
  if (shape.activation == kNoActivation || shape.activation == kRelu) return cudaSuccess;
  return troupe_cuda::activate(shape.activation, shape.m * shape.n, c, stream);
}

/// The index of the fastest: of the library's ways, or behind them our tiling - 1. 0 where they cannot be measured.
int fastest(const TroupeCudaProduct& product, const cublasLtMatmulHeuristicResult_t* ways, int count) {
  using troupe_cuda::Scratch;
  const TroupeCudaProductShape& s = product.shape;
  const auto bytes = [](std::int64_t rows, std::int64_t cols) {
    return static_cast<std::size_t>(rows * cols) * sizeof(float);
  };
  const Scratch a(bytes(s.m, s.k)), b(bytes(s.k, s.n)), bias(bytes(1, s.n)), c(bytes(s.m, s.n)),
      workspace(troupe_cuda::kProductWorkspace);
  for (const Scratch* each : {&a, &b, &bias, &c, &workspace}) {
    if (each->get() == nullptr) return 0;
  }
  const auto at = [](const Scratch& memory) { return static_cast<float*>(memory.get()); };
  troupe_cuda::Race race;
  for (int i = 0; i < count; ++i) {
    if (ways[i].state != CUBLAS_STATUS_SUCCESS) continue;
    race.add(i, [&](cudaStream_t stream) {
      return multiply(product, ways[i].algo, a.get(), b.get(), at(bias), at(c), workspace.get(), ways[i].workspaceSize,
                      stream);
    });
  }
  for (int i = 0; i < TROUPE_CUDA_TILINGS && troupe_cuda::can_tile(s); ++i) {
    race.add(count + i, [&](cudaStream_t stream) {
      return troupe_cuda::tiled_product(i + 1, s, at(a), at(b), s.bias ? at(bias) : nullptr, at(c), stream);
    });
  }
  return race.winner(0);
}

cudaError_t choose(TroupeCudaProduct& product) {
  const TroupeCudaProductShape& shape = product.shape;
  const cublasLtEpilogue_t epilogue = !shape.bias                 ? CUBLASLT_EPILOGUE_DEFAULT
                                      : shape.activation == kRelu ? CUBLASLT_EPILOGUE_RELU_BIAS
                                                                  : CUBLASLT_EPILOGUE_BIAS;
  const cublasComputeType_t compute = shape.tf32 && !shape.bf16 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  const auto failed = [](cublasStatus_t status) { return status != CUBLAS_STATUS_SUCCESS; };
  cublasStatus_t status = cublasLtMatmulDescInit(&product.desc, compute, CUDA_R_32F);
  const auto describe = [&](cublasLtMatmulDescAttributes_t name, auto value) {
    if (!failed(status)) status = cublasLtMatmulDescSetAttribute(&product.desc, name, &value, sizeof(value));
  };
  describe(CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  describe(CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  describe(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (shape.bias) {  // any address that is aligned like the real ones, which come at run time
    describe(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(std::uintptr_t{kAlignment}));
  }
  if (failed(status)) return check(status, "describing a product");

  cublasLtMatmulPreferenceOpaque_t preference;
  status = cublasLtMatmulPreferenceInit(&preference);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
    if (!failed(status)) status = cublasLtMatmulPreferenceSetAttribute(&preference, name, &value, sizeof(value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{troupe_cuda::kProductWorkspace});
  for (const auto operand : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    prefer(operand, kAlignment);
  }
  if (failed(status)) return check(status, "preferences of a product");

  std::array<cublasLtMatmulHeuristicResult_t, kMostWays> ways{};
  int count = 0;
  status = cublasLtMatmulAlgoGetHeuristic(product.handle->handle, &product.desc, &product.first, &product.second,
                                          &product.result, &product.result, &preference, shape.measured ? kMostWays : 1,
                                          ways.data(), &count);
  if (!failed(status)) status = count > 0 ? ways[0].state : CUBLAS_STATUS_NOT_SUPPORTED;
  if (failed(status)) {
    return library_failed("cuBLASLt: no algorithm for a %s product of %lld x %lld%s by %lld x %lld%s%s: %s",
                          shape.bf16   ? "bfloat16"
                          : shape.tf32 ? "TF32"
                                       : "float32",
                          static_cast<long long>(shape.m), static_cast<long long>(shape.k),
                          shape.transpose_a ? " (transposed)" : "", static_cast<long long>(shape.k),
                          static_cast<long long>(shape.n), shape.transpose_b ? " (transposed)" : "",
                          shape.bias ? " with a bias" : "", cublasLtGetStatusString(status));
  }
  int way = 0;
  if (shape.measured) {
    const std::lock_guard lock(product.handle->mutex);
    const auto [known, is_new] =
        product.handle->fastest.try_emplace({shape.m, shape.n, shape.k, shape.transpose_a, shape.transpose_b,
                                             shape.bf16, shape.tf32, shape.bias, shape.activation});
    if (is_new) known->second = fastest(product, ways.data(), count);
    way = known->second;
  }
  if (way >= count) {
    product.tiling = way - count + 1;
    return cudaSuccess;
  }
  product.algorithm = ways[static_cast<std::size_t>(way)].algo;
  product.workspace = ways[static_cast<std::size_t>(way)].workspaceSize;
  return cudaSuccess;
}

cudaError_t prepare(TroupeCudaProduct& product) {
  const TroupeCudaProductShape& shape = product.shape;
  if (shape.tiling != 0) {
    product.tiling = shape.tiling;
    return cudaSuccess;
  }
  if (const cudaError_t error = troupe_cuda::share_handle(&product.handle)) return error;
  const cudaDataType_t operands = shape.bf16 ? CUDA_R_16BF : CUDA_R_32F;
  // A row-major matrix [rows, cols] is one of `cols` rows for the library, each column behind the one before.
  const auto view = [](cublasLtMatrixLayoutOpaque_t* layout, cudaDataType_t type, std::int64_t rows,
                       std::int64_t cols) {
    return check(cublasLtMatrixLayoutInit(layout, type, static_cast<std::uint64_t>(cols),
                                          static_cast<std::uint64_t>(rows), cols),
                 "cublasLtMatrixLayoutInit");
  };
  const std::int64_t m = shape.m, n = shape.n, k = shape.k;
  if (const cudaError_t error = view(&product.first, operands, shape.transpose_b ? n : k, shape.transpose_b ? k : n)) {
    return error;
  }
  if (const cudaError_t error = view(&product.second, operands, shape.transpose_a ? k : m, shape.transpose_a ? m : k)) {
    return error;
  }
  if (const cudaError_t error = view(&product.result, CUDA_R_32F, m, n)) return error;
  return choose(product);
}

}  // namespace

namespace troupe_cuda {

cudaError_t make_product(const TroupeCudaProductShape& shape, TroupeCudaProduct** product) {
  try {
    auto made = std::make_unique<TroupeCudaProduct>();
    made->shape = shape;
    if (const cudaError_t error = prepare(*made)) return error;
    *product = made.release();
    return cudaSuccess;
  } catch (const std::bad_alloc&) {
    return library_failed("cuBLASLt: no memory of the host");
  }
}

void destroy_product(TroupeCudaProduct* product) { delete product; }

std::size_t product_workspace(const TroupeCudaProduct& product) { return product.workspace; }

cudaError_t run_product(const TroupeCudaProduct& product, const void* a, const void* b, const float* bias, float* c,
                        void* workspace, cudaStream_t stream) {
  if (product.tiling == 0) {
    return multiply(product, product.algorithm, a, b, bias, c, workspace, product.workspace, stream);
  }
  return tiled_product(product.tiling, product.shape, static_cast<const float*>(a), static_cast<const float*>(b), bias,
                       c, stream);
}

}  // namespace troupe_cuda
