#include <troupe/learner/convolution.hpp>

#include <fmt/format.h>

#include <utility>

#include <troupe/learner/convolution_backends.hpp>

namespace troupe::learner {
namespace {

/// Whether oneDNN does it.
Result<bool> takes_onednn(GemmBackend backend, DType dtype) {
  const bool onednn = dtype != DType::kF64 && resolve(backend) == GemmBackend::kOneDnn;
  const bool built = resolve(GemmBackend::kAuto) == GemmBackend::kOneDnn;
  if ((onednn && !built) || (!onednn && dtype == DType::kBF16)) {
    return Error{Code::kUnavailable,
                 fmt::format("convolution: {} needs oneDNN, got back end {}; onednn is {} this build",
                             troupe::to_string(dtype), to_string(resolve(backend)), built ? "in" : "not in")};
  }
  return onednn;
}

/// Whether the pass is a matrix product of pixels and weight. Measured on a Zen 4 core in float32, products reach 90 to
/// 110 GFLOP/s where oneDNN's convolutions reach 63 to 113, and nothing is packed; in bfloat16 they would have to round
/// their result in a pass of its own.
bool is_product(const ConvShape& s, DType dtype) {
  return s.kernel_h == 1 && s.kernel_w == 1 && s.stride == 1 && s.padding == 0 && !s.bias &&
         s.activation == Activation::kNone && dtype != DType::kBF16;
}

class Product final : public ConvPlan {
 public:
  static Result<std::unique_ptr<ConvPlan>> make(GemmBackend backend, const ConvShape& s, DType dtype) {
    const std::int64_t pixels = s.batch * s.height * s.width;
    GemmShape shape{.m = pixels, .n = s.out, .k = s.in};
    if (s.pass == ConvPass::kInputGrad) shape = {.m = pixels, .n = s.in, .k = s.out, .transpose_b = true};
    if (s.pass == ConvPass::kWeightGrad) shape = {.m = s.in, .n = s.out, .k = pixels, .transpose_a = true};
    TROUPE_ASSIGN(auto gemm, make_gemm(backend, shape, dtype));
    return std::unique_ptr<ConvPlan>(new Product(std::move(gemm)));
  }
  void run(const void* a, const void* b, const void*, void* c, void*) const override { gemm_->run(a, b, c); }

 private:
  explicit Product(std::unique_ptr<GemmPlan> gemm) : gemm_(std::move(gemm)) {}
  std::unique_ptr<GemmPlan> gemm_;
};

}  // namespace

Result<std::unique_ptr<ConvPlan>> make_convolution(GemmBackend backend, const ConvShape& shape, std::int64_t packed_for,
                                                   DType dtype) {
  TROUPE_ASSIGN(const bool onednn, takes_onednn(backend, dtype));
  if (is_product(shape, dtype)) return Product::make(backend, shape, dtype);
#if defined(TROUPE_ONEDNN)
  if (onednn) return make_onednn_convolution(shape, packed_for, dtype);
#else
  static_cast<void>(packed_for);
  static_cast<void>(onednn);
#endif
  return make_eigen_convolution(shape, dtype);
}

Result<std::size_t> packed_bytes(GemmBackend backend, const ConvShape& shape, DType dtype) {
  TROUPE_ASSIGN(const bool onednn, takes_onednn(backend, dtype));
#if defined(TROUPE_ONEDNN)
  if (onednn && !is_product(shape, dtype)) return onednn_packed_bytes(shape, dtype);
#else
  static_cast<void>(onednn);
#endif
  return std::size_t{0};
}

Result<std::unique_ptr<ConvPlan>> make_pack(GemmBackend backend, const ConvShape& shape, DType dtype) {
  TROUPE_ASSIGN(const bool onednn, takes_onednn(backend, dtype));
#if defined(TROUPE_ONEDNN)
  if (onednn) return make_onednn_pack(shape, dtype);
#else
  static_cast<void>(onednn);
#endif
  return Error{Code::kInternal, "convolution: this back end takes weights as they are"};
}

}  // namespace troupe::learner
