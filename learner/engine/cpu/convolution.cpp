#include <troupe/learner/engine/cpu/convolution.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/aligned.hpp>
#include <troupe/learner/engine/cpu/convolution_backends.hpp>
#include <troupe/learner/engine/cpu/fastest.hpp>
#include <troupe/learner/engine/cpu/widened.hpp>

namespace troupe::learner {
namespace {

using MadePlan = Result<std::unique_ptr<ConvPlan>>;

/// A pass of a 1 x 1 convolution: one product of pixels and weight.
class Product final : public ConvPlan {
 public:
  static MadePlan make(const ConvShape& s, DType dtype, const ComputeBy& by) {
    const std::int64_t pixels = s.batch * s.height * s.width;
    GemmShape shape{.m = pixels, .n = s.out, .k = s.in};
    if (s.pass == ConvPass::kInputGrad) shape = {.m = pixels, .n = s.in, .k = s.out, .transpose_b = true};
    if (s.pass == ConvPass::kWeightGrad) shape = {.m = s.in, .n = s.out, .k = pixels, .transpose_a = true};
    TROUPE_ASSIGN(auto gemm, make_gemm(by, shape, dtype));
    return std::unique_ptr<ConvPlan>(new Product(std::move(gemm)));
  }
  void run(const void* a, const void* b, const void*, void* c, void* workspace) const override {
    gemm_->run(a, b, c, workspace);
  }

 private:
  explicit Product(std::unique_ptr<GemmPlan> gemm) : gemm_(std::move(gemm)) {
    workspace_bytes_ = gemm_->workspace_bytes();
  }
  std::unique_ptr<GemmPlan> gemm_;
};

bool is_product(const ConvShape& s) {
  return s.kernel_h == 1 && s.kernel_w == 1 && s.stride == 1 && s.padding == 0 && !s.bias &&
         s.activation == Activation::kNone;
}

/// The ways to a convolution. Weights are packed for kOneDnn only.
enum class ConvWay : std::uint8_t { kProduct, kOneDnn, kPatches };

std::string_view name_of(ConvWay way) {
  return way == ConvWay::kProduct ? "product" : way == ConvWay::kOneDnn ? "onednn" : "patches";
}

MadePlan make_way(ConvWay way, const ConvShape& shape, std::int64_t packed_for, DType dtype, const ComputeBy& by) {
  if (way == ConvWay::kProduct) return Product::make(shape, dtype, by);
#if defined(TROUPE_ONEDNN)
  if (way == ConvWay::kOneDnn) return make_onednn_convolution(shape, packed_for, dtype);
#else
  static_cast<void>(packed_for);
#endif
  return make_patch_convolution(shape, dtype, by);
}

/// The first is the rule's: measured on a Zen 4 core in float32, products reach 90 to 110 GFLOP/s where oneDNN's
/// convolutions reach 63 to 113, and nothing is packed.
std::vector<ConvWay> ways_of(const ConvShape& shape, DType dtype, const ComputeBy& by) {
  std::vector<ConvWay> ways;
  if (is_product(shape)) ways.push_back(ConvWay::kProduct);
  if (dtype != DType::kF64 && resolve(by.backend) == GemmBackend::kOneDnn) ways.push_back(ConvWay::kOneDnn);
  if (ways.empty() || by.backend == GemmBackend::kAuto) ways.push_back(ConvWay::kPatches);
  return ways;
}

/// Makes a way's plan and operands for it, and returns what runs it once.
Result<std::function<void()>> prepare(ConvWay way, const ConvShape& s, const ComputeBy& by) {
  TROUPE_ASSIGN(const std::shared_ptr<ConvPlan> plan, make_way(way, s, s.batch, DType::kF32, by));
  const std::int64_t weight = s.kernel_h * s.kernel_w * s.in * s.out;
  std::size_t packed = 0;
#if defined(TROUPE_ONEDNN)
  if (way == ConvWay::kOneDnn && s.pass != ConvPass::kWeightGrad) {
    TROUPE_ASSIGN(packed, onednn_packed_bytes(s, DType::kF32));
  }
#endif
  const auto numbers = [](std::int64_t elements) -> std::shared_ptr<float[]> {
    auto values = make_aligned<float>(static_cast<std::size_t>(elements));
    for (std::int64_t i = 0; i < elements; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i % 17) - 8;
    return values;
  };
  const auto x = numbers(s.batch * s.height * s.width * s.in), y = numbers(s.batch * s.out_h() * s.out_w() * s.out);
  const auto w = numbers(std::max(weight, static_cast<std::int64_t>(packed / sizeof(float)))), bias = numbers(s.out);
  const std::shared_ptr<std::byte[]> workspace = make_aligned<std::byte>(plan->workspace_bytes());
  const bool forward = s.pass == ConvPass::kForward, of_weight = s.pass == ConvPass::kWeightGrad;
  return std::function<void()>(
      [plan, workspace, bias = s.bias ? bias : nullptr, a = forward || of_weight ? x : y, b = of_weight ? y : w,
       c = forward     ? y
           : of_weight ? w
                       : x] { plan->run(a.get(), b.get(), bias.get(), c.get(), workspace.get()); });
}

/// What computes a shape, for the batch that its weight is packed for: so every question about a convolution gets the
/// same answer.
ConvWay chosen_way(const ConvShape& shape, std::int64_t packed_for, DType dtype, const ComputeBy& by) {
  const std::vector<ConvWay> ways = ways_of(shape, dtype, by);
  if (by.choice == PlanChoice::kByRule || dtype != DType::kF32) return ways[0];
  ConvShape s = shape;
  s.batch = packed_for;
  std::vector<Way> measured;
  for (const ConvWay way : ways) measured.push_back({name_of(way), [way, &s, &by] { return prepare(way, s, by); }});
  const std::string_view pass = s.pass == ConvPass::kForward     ? "forward"
                                : s.pass == ConvPass::kInputGrad ? "input gradient"
                                                                 : "weight gradient";
  return ways[measurer().fastest(
      fmt::format("convolution {} {} x {} x {} x {} by {} x {} x {}, stride {}, padding {}{}{}", pass, s.batch,
                  s.height, s.width, s.in, s.kernel_h, s.kernel_w, s.out, s.stride, s.padding, s.bias ? ", bias" : "",
                  s.activation == Activation::kNone ? "" : ", activation"),
      measured)];
}

/// Whether oneDNN convolves bfloat16 images here.
bool takes_bf16(const ConvShape& shape, std::int64_t packed_for, const ComputeBy& by) {
#if defined(TROUPE_ONEDNN)
  ConvShape s = shape;
  s.batch = packed_for;
  return resolve(by.backend) == GemmBackend::kOneDnn && onednn_convolves(s, DType::kBF16);
#else
  static_cast<void>(shape), static_cast<void>(packed_for), static_cast<void>(by);
  return false;
#endif
}

}  // namespace

MadePlan make_convolution(const ComputeBy& by, const ConvShape& shape, std::int64_t packed_for, DType dtype) {
  TROUPE_TRY(check_built(by.backend));
  if (dtype == DType::kBF16) {
#if defined(TROUPE_ONEDNN)
    if (takes_bf16(shape, packed_for, by)) return make_onednn_convolution(shape, packed_for, dtype);
#endif
    TROUPE_ASSIGN(auto plan, make_convolution(by, shape, packed_for, DType::kF32));
    return widen(std::move(plan), shape);
  }
  return make_way(chosen_way(shape, packed_for, dtype, by), shape, packed_for, dtype, by);
}

Result<std::size_t> packed_bytes(const ComputeBy& by, const ConvShape& shape, DType dtype) {
  TROUPE_TRY(check_built(by.backend));
  if (dtype == DType::kBF16 && !takes_bf16(shape, shape.batch, by)) {
    TROUPE_ASSIGN(const std::size_t packed, packed_bytes(by, shape, DType::kF32));
    const auto plain = static_cast<std::size_t>(shape.kernel_h * shape.kernel_w * shape.in * shape.out) * sizeof(float);
    return packed == 0 ? plain : packed;
  }
#if defined(TROUPE_ONEDNN)
  const bool onednn = dtype == DType::kBF16 || chosen_way(shape, shape.batch, dtype, by) == ConvWay::kOneDnn;
  if (onednn) return onednn_packed_bytes(shape, dtype);
#endif
  return std::size_t{0};
}

MadePlan make_pack(const ComputeBy& by, const ConvShape& shape, DType dtype) {
  TROUPE_TRY(check_built(by.backend));
  if (dtype == DType::kBF16 && !takes_bf16(shape, shape.batch, by)) {
    TROUPE_ASSIGN(const std::size_t bytes, packed_bytes(by, shape, dtype));
    TROUPE_ASSIGN(const std::size_t packed, packed_bytes(by, shape, DType::kF32));
    if (packed == 0) return rounding_pack(nullptr, bytes / sizeof(float));
    TROUPE_ASSIGN(auto pack, make_pack(by, shape, DType::kF32));
    return rounding_pack(std::move(pack), bytes / sizeof(float));
  }
#if defined(TROUPE_ONEDNN)
  TROUPE_ASSIGN(const std::size_t bytes, packed_bytes(by, shape, dtype));
  if (bytes > 0) return make_onednn_pack(shape, dtype);
#endif
  return Error{Code::kInternal, "convolution: this one takes its weight as it is"};
}

}  // namespace troupe::learner
