#pragma once
// Matrix products. Sizes are fixed at compile time, so a back end prepares a plan then (oneDNN generates code for it),
// and a step only calls it. Skinny products (up to four rows: acting) use our own kernel, which needs no set-up.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/graph/op.hpp>

namespace troupe::learner {

enum class GemmBackend : std::uint8_t {
  kAuto,    ///< oneDNN where it was found at build time, else Eigen
  kOneDnn,  ///< an error at compile where it was not found
  kEigen,
};

/// Which of the ways to compute the same is taken, for products and convolutions.
enum class PlanChoice : std::uint8_t {
  kByRule,    ///< by type, form and instruction set: the same in every process of a machine, so the same bits
  kMeasured,  ///< what was fastest on this machine (learner/engine/cpu/fastest.hpp)
};

/// What computes products and convolutions.
struct ComputeBy {
  GemmBackend backend = GemmBackend::kAuto;
  PlanChoice choice = PlanChoice::kByRule;
  // NOLINTNEXTLINE: implicit, since the back end alone says it for most
  ComputeBy(GemmBackend of, PlanChoice choose = PlanChoice::kByRule) : backend(of), choice(choose) {}
};

/// A prepared product. One thread at a time may run it, since it may hold arguments.
class GemmPlan {
 public:
  virtual ~GemmPlan() = default;
  /// c = op(a) op(b). float32 or float64 by the plan's type; kBF16 plans read bfloat16 and write float32. workspace:
  /// workspace_bytes(), aligned to 64, of no meaning before or after.
  void run(const void* a, const void* b, void* c, void* workspace) const { function_(*this, a, b, c, workspace); }
  std::size_t workspace_bytes() const { return workspace_bytes_; }

 protected:
  using Function = void (*)(const GemmPlan&, const void* a, const void* b, void* c, void* workspace);
  explicit GemmPlan(Function function, std::size_t workspace_bytes = 0)
      : function_(function), workspace_bytes_(workspace_bytes) {}

 private:
  Function function_;
  std::size_t workspace_bytes_;
};

/// dtype: kF32, kF64 (Eigen whatever `by` says) or kBF16, where the processor has no instructions for it by way of
/// float32 (learner/engine/cpu/widened.hpp). Products that is_skinny() says are ours.
/// Errors: kUnavailable when the back end is not built in; kInternal when it refuses.
Result<std::unique_ptr<GemmPlan>> make_gemm(const ComputeBy& by, const GemmShape& shape, DType dtype);
/// Whether bfloat16 products take the processor's own instructions (or oneDNN's stand-in for them), not float32's.
bool multiplies_bf16();
/// At most four rows, nothing transposed.
bool is_skinny(const GemmShape& shape);
/// Errors: kUnavailable where this build does not have it.
Status check_built(GemmBackend backend);
/// kAuto resolved for this build.
GemmBackend resolve(GemmBackend backend);
std::string_view to_string(GemmBackend backend);
/// Keeps the library from starting threads of its own on the calling thread; each thread that runs plans calls it once.
void enter_compute_thread();

}  // namespace troupe::learner
