#pragma once
// Matrix products. Sizes are fixed at compile time, so a back end prepares a plan then (oneDNN generates code for it),
// and a step only calls it. Skinny products (up to four rows: acting) use our own kernel, which needs no set-up.
#include <cstdint>
#include <memory>
#include <string_view>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/op.hpp>

namespace troupe::learner {

enum class GemmBackend : std::uint8_t {
  kAuto,    ///< oneDNN where it was found at build time, else Eigen
  kOneDnn,  ///< an error at compile where it was not found
  kEigen,
};

/// A prepared product. One thread at a time may run it, since it may hold scratch memory.
class GemmPlan {
 public:
  virtual ~GemmPlan() = default;
  /// c = op(a) op(b). float32 or float64 by the plan's type; kBF16 plans read bfloat16 and write float32.
  void run(const void* a, const void* b, void* c) const { function_(*this, a, b, c); }

 protected:
  using Function = void (*)(const GemmPlan&, const void* a, const void* b, void* c);
  explicit GemmPlan(Function function) : function_(function) {}

 private:
  Function function_;
};

/// dtype: kF32, kF64 (Eigen whatever `backend` says) or kBF16 (oneDNN only). Products that is_skinny() says are ours.
/// Errors: kUnavailable when the back end is not built in; kInternal when it refuses.
Result<std::unique_ptr<GemmPlan>> make_gemm(GemmBackend backend, const GemmShape& shape, DType dtype);
/// At most four rows, nothing transposed, not bfloat16.
bool is_skinny(const GemmShape& shape);
/// kAuto resolved for this build.
GemmBackend resolve(GemmBackend backend);
std::string_view to_string(GemmBackend backend);
/// Keeps the library from starting threads of its own on the calling thread; each thread that runs plans calls it once.
void enter_compute_thread();

}  // namespace troupe::learner
