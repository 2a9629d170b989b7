#pragma once
// The back ends behind make_gemm(), one source each; nobody else calls them.
#include <troupe/learner/engine/cpu/gemm.hpp>

namespace troupe::learner {

// Built only where oneDNN was found.
/// kF32.
Result<std::unique_ptr<GemmPlan>> make_onednn_sgemm(const GemmShape& shape);
/// kF32 or kBF16. Errors: kUnavailable where oneDNN has none for this processor; kInternal.
Result<std::unique_ptr<GemmPlan>> make_onednn_matmul(const GemmShape& shape, DType dtype);
/// kF32 or kF64.
std::unique_ptr<GemmPlan> make_eigen_gemm(const GemmShape& shape, DType dtype);

/// Eigen's product compiled with one instruction set (gemm_eigen_isa.hpp).
using EigenFn = void (*)(const GemmShape& shape, const void* a, const void* b, void* c);
extern const EigenFn kEigenF32Avx2, kEigenF32Avx512;

}  // namespace troupe::learner
