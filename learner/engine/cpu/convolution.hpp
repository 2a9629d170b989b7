#pragma once
// Convolutions of images, rows of [height, width, channels] (NHWC): prepared for fixed sizes at compile time, as matrix
// products are (learner/engine/cpu/gemm.hpp), because back ends generate code and choose how weights lie in memory for
// them. Used by Program; graphs say conv2d() (learner/ops/convolution.hpp).
#include <cstddef>
#include <cstdint>
#include <memory>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/engine/cpu/gemm.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner {

/// What is computed from what. With x [batch, height, width, in], w [kernel_h, kernel_w, in, out] and
/// y [batch, out_h, out_w, out]:
enum class ConvPass : std::uint8_t {
  kForward,     ///< y from x, packed w and perhaps a bias [out]
  kInputGrad,   ///< dx from dy and packed w
  kWeightGrad,  ///< dw, not packed, from x and dy
};

struct ConvShape {
  ConvPass pass = ConvPass::kForward;
  std::int64_t batch = 0, height = 0, width = 0, in = 0;
  std::int64_t kernel_h = 0, kernel_w = 0, out = 0;
  std::int64_t stride = 1, padding = 0;       ///< the same in both directions and on all sides
  bool bias = false;                          ///< forward only
  Activation activation = Activation::kNone;  ///< forward only: kNone, kRelu or kLeakyRelu

  std::int64_t out_h() const { return (height + 2 * padding - kernel_h) / stride + 1; }
  std::int64_t out_w() const { return (width + 2 * padding - kernel_w) / stride + 1; }
  friend auto operator<=>(const ConvShape&, const ConvShape&) = default;
};

/// One prepared pass. One thread at a time may run it, since it may hold arguments.
class ConvPlan {
 public:
  virtual ~ConvPlan() = default;
  /// a, b, c: x, w, y forward; dy, w, dx for kInputGrad; x, dy, dw for kWeightGrad. Images have the plan's type, bias
  /// and dw are float32 (float64 in float64 plans). c is written completely. workspace: workspace_bytes(), aligned to
  /// 64, of no meaning before or after.
  virtual void run(const void* a, const void* b, const void* bias, void* c, void* workspace) const = 0;
  std::size_t workspace_bytes() const { return workspace_bytes_; }

 protected:
  std::size_t workspace_bytes_ = 0;
};

/// dtype: of the images: kF32, kBF16 (where the processor has no instructions for it by way of float32, see
/// learner/engine/cpu/widened.hpp) or kF64 (never oneDNN). packed_for: the batch for which the weight was packed,
/// because stripes that differ by a row share one order. Errors: kUnavailable when the back end is not built in;
/// kInternal when it refuses.
Result<std::unique_ptr<ConvPlan>> make_convolution(const ComputeBy& by, const ConvShape& shape, std::int64_t packed_for,
                                                   DType dtype);
/// Bytes of the packed weight of a kForward or kInputGrad pass; 0: it takes the weight as it is. Errors: as above.
Result<std::size_t> packed_bytes(const ComputeBy& by, const ConvShape& shape, DType dtype);
/// Brings a weight a, float32, into the order of that pass, c, once for all passes of a step. Only where packed_bytes()
/// of the same shape is above 0. Errors: as above.
Result<std::unique_ptr<ConvPlan>> make_pack(const ComputeBy& by, const ConvShape& shape, DType dtype);

}  // namespace troupe::learner
