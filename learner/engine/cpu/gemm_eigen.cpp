// The fallback without oneDNN, and all of float64. Eigen takes packing buffers of more than 128 KB from the heap.
#include <troupe/learner/engine/cpu/detail/gemm_eigen_isa.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>

namespace troupe::learner {

#if !defined(TROUPE_ONEDNN)
void enter_compute_thread() {}  // Eigen is built without OpenMP
#endif

namespace {

class EigenPlan final : public GemmPlan {
 public:
  EigenPlan(const GemmShape& shape, EigenFn function) : GemmPlan(&run_eigen), shape_(shape), function_(function) {}

 private:
  static void run_eigen(const GemmPlan& plan, const void* a, const void* b, void* c, void*) {
    const auto& self = static_cast<const EigenPlan&>(plan);
    self.function_(self.shape_, a, b, c);
  }
  GemmShape shape_;
  EigenFn function_;
};

EigenFn best_f32() {
#if defined(TROUPE_X86_KERNELS)
  if (kernels_f32_avx512() != nullptr) return kEigenF32Avx512;
  if (kernels_f32_avx2() != nullptr) return kEigenF32Avx2;
#endif
  return &eigen_gemm<float>;
}

}  // namespace

std::unique_ptr<GemmPlan> make_eigen_gemm(const GemmShape& shape, DType dtype) {
  return std::make_unique<EigenPlan>(shape, dtype == DType::kF64 ? &eigen_gemm<double> : best_f32());
}

}  // namespace troupe::learner
