#include <troupe/learner/gemm.hpp>

#include <fmt/format.h>

#include <troupe/learner/gemm_backends.hpp>
#include <troupe/learner/kernels/kernel_table.hpp>

namespace troupe::learner {

namespace {

class SkinnyPlan final : public GemmPlan {
 public:
  SkinnyPlan(const GemmShape& shape, SkinnyFn function) : GemmPlan(&run_skinny), shape_(shape), function_(function) {}

 private:
  static void run_skinny(const GemmPlan& plan, const void* a, const void* b, void* c) {
    const auto& self = static_cast<const SkinnyPlan&>(plan);
    self.function_(self.shape_.m, self.shape_.n, self.shape_.k, a, b, c);
  }
  GemmShape shape_;
  SkinnyFn function_;
};

}  // namespace

bool is_skinny(const GemmShape& shape) { return shape.m <= 4 && !shape.transpose_a && !shape.transpose_b; }

std::string_view to_string(GemmBackend backend) {
  switch (backend) {
    case GemmBackend::kAuto:
      return "auto";
    case GemmBackend::kOneDnn:
      return "onednn";
    case GemmBackend::kEigen:
      return "eigen";
  }
  return "?";
}

GemmBackend resolve(GemmBackend backend) {
  if (backend != GemmBackend::kAuto) return backend;
#if defined(TROUPE_ONEDNN)
  return GemmBackend::kOneDnn;
#else
  return GemmBackend::kEigen;
#endif
}

Result<std::unique_ptr<GemmPlan>> make_gemm(GemmBackend backend, const GemmShape& shape, DType dtype) {
  if (dtype != DType::kBF16 && is_skinny(shape)) {
    const KernelTable& table = dtype == DType::kF64 ? kernels_f64() : kernels_f32();
    return std::unique_ptr<GemmPlan>(std::make_unique<SkinnyPlan>(shape, table.skinny));
  }
  const bool onednn = dtype != DType::kF64 && resolve(backend) == GemmBackend::kOneDnn;
#if defined(TROUPE_ONEDNN)
  if (onednn) return make_onednn_gemm(shape, dtype);
#endif
  if (onednn || dtype == DType::kBF16) {
    return Error{Code::kUnavailable,
                 fmt::format("gemm: {} products need oneDNN, got back end {}; onednn is {} this build",
                             troupe::to_string(dtype), to_string(resolve(backend)),
                             resolve(GemmBackend::kAuto) == GemmBackend::kOneDnn ? "in" : "not in")};
  }
  return make_eigen_gemm(shape, dtype);
}

}  // namespace troupe::learner
