#include <troupe/learner/engine/cpu/gemm.hpp>

#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/aligned.hpp>
#include <troupe/learner/engine/cpu/fastest.hpp>
#include <troupe/learner/engine/cpu/gemm_backends.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#include <troupe/learner/engine/cpu/widened.hpp>

namespace troupe::learner {

namespace {

using MadeGemm = Result<std::unique_ptr<GemmPlan>>;

class SkinnyPlan final : public GemmPlan {
 public:
  SkinnyPlan(const GemmShape& shape, SkinnyFn function) : GemmPlan(&run_skinny), shape_(shape), function_(function) {}

 private:
  static void run_skinny(const GemmPlan& plan, const void* a, const void* b, void* c, void*) {
    const auto& self = static_cast<const SkinnyPlan&>(plan);
    self.function_(self.shape_.m, self.shape_.n, self.shape_.k, a, b, c);
  }
  GemmShape shape_;
  SkinnyFn function_;
};

/// Below so many multiplications (some microseconds) a product is not worth measuring.
constexpr std::int64_t kSmall = 1 << 17;

struct GemmWay {
  std::string_view name;
  std::function<MadeGemm()> make;
};

/// The ways to a float32 product; the first is the rule's.
std::vector<GemmWay> float_ways(GemmBackend backend, const GemmShape& shape) {
  const GemmWay eigen{"eigen", [shape]() -> MadeGemm { return make_eigen_gemm(shape, DType::kF32); }};
  if (resolve(backend) == GemmBackend::kEigen) return {eigen};
#if defined(TROUPE_ONEDNN)
  const GemmWay sgemm{"sgemm", [shape] { return make_onednn_sgemm(shape); }};
  const GemmWay matmul{"matmul", [shape] { return make_onednn_matmul(shape, DType::kF32); }};
  // Gradients of layer inputs: with AVX-512 the primitive is the faster one (112 to 115 GFLOP/s on a Zen 4 core of 117,
  // dnnl_sgemm 100 to 112); with AVX2 it repacks (49 GFLOP/s on a core of 93, dnnl_sgemm 81).
  const bool primitive = shape.transpose_b && kernels_f32_avx512() != nullptr;
  std::vector<GemmWay> ways = primitive ? std::vector{matmul, sgemm} : std::vector{sgemm, matmul};
  if (backend == GemmBackend::kAuto) ways.push_back(eigen);
  return ways;
#else
  return {eigen};
#endif
}

/// Random numbers between -1 and 1: zeros and denormal ones take other times.
AlignedArray<float> operand(std::int64_t elements) {
  auto values = make_aligned<float>(static_cast<std::size_t>(elements));
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < elements; ++i) {
    state = state * 1664525U + 1013904223U;
    values[static_cast<std::size_t>(i)] = static_cast<float>(state >> 8) * 0x1p-23F - 1;
  }
  return values;
}

MadeGemm fastest_gemm(const GemmShape& s, const std::vector<GemmWay>& ways) {
  struct Operands {
    AlignedArray<float> a, b, c;
  };
  std::shared_ptr<Operands> operands;  // made when something is measured
  std::vector<Way> measured;
  for (const GemmWay& way : ways) {
    measured.push_back({way.name, [&]() -> Result<std::function<void()>> {
                          TROUPE_ASSIGN(const std::shared_ptr<GemmPlan> plan, way.make());
                          if (operands == nullptr) {
                            operands = std::make_shared<Operands>(
                                Operands{operand(s.m * s.k), operand(s.k * s.n), operand(s.m * s.n)});
                          }
                          const std::shared_ptr<std::byte[]> workspace =
                              make_aligned<std::byte>(plan->workspace_bytes());
                          return std::function<void()>([plan, operands, workspace] {
                            plan->run(operands->a.get(), operands->b.get(), operands->c.get(), workspace.get());
                          });
                        }});
  }
  const std::string name =
      fmt::format("product {}{} {} x {} x {}", s.transpose_a ? 't' : 'n', s.transpose_b ? 't' : 'n', s.m, s.k, s.n);
  return ways[measurer().fastest(name, measured)].make();
}

MadeGemm make_float(const ComputeBy& by, const GemmShape& shape) {
  if (is_skinny(shape)) return MadeGemm(std::make_unique<SkinnyPlan>(shape, kernels_f32().skinny));
  const std::vector<GemmWay> ways = float_ways(by.backend, shape);
  if (by.choice == PlanChoice::kMeasured && shape.m * shape.n * shape.k >= kSmall) return fastest_gemm(shape, ways);
  return ways[0].make();
}

MadeGemm make_bf16(const ComputeBy& by, const GemmShape& shape) {
#if defined(TROUPE_ONEDNN)
  if (resolve(by.backend) == GemmBackend::kOneDnn) {
    auto plan = make_onednn_matmul(shape, DType::kBF16);
    if (plan.ok() || plan.error().code != Code::kUnavailable) return plan;
  }
#endif
  TROUPE_ASSIGN(auto plan, make_float(by, shape));
  return widen(std::move(plan), shape);
}

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

bool multiplies_bf16() {
#if defined(TROUPE_ONEDNN)
  return make_onednn_matmul({.m = 16, .n = 16, .k = 16}, DType::kBF16).ok();
#else
  return false;
#endif
}

Status check_built(GemmBackend backend) {
  if (backend != GemmBackend::kOneDnn || resolve(GemmBackend::kAuto) == GemmBackend::kOneDnn) return {};
  return Error{Code::kUnavailable, "products: onednn was asked for, and this build has it not; expected auto or eigen"};
}

Result<std::unique_ptr<GemmPlan>> make_gemm(const ComputeBy& by, const GemmShape& shape, DType dtype) {
  TROUPE_TRY(check_built(by.backend));
  if (dtype == DType::kBF16) return make_bf16(by, shape);
  if (dtype == DType::kF32) return make_float(by, shape);
  if (is_skinny(shape)) return MadeGemm(std::make_unique<SkinnyPlan>(shape, kernels_f64().skinny));
  return make_eigen_gemm(shape, dtype);
}

}  // namespace troupe::learner
