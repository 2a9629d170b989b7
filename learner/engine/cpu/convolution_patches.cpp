// The fallback without oneDNN, all of float64, and what is fastest for some shapes: an image's patches as rows of a
// matrix, [out_h * out_w, kernel_h * kernel_w * in], and products with the weight, which lies as
// [kernel_h * kernel_w * in, out].
#include <algorithm>
#include <utility>

#include <troupe/learner/engine/cpu/convolution_backends.hpp>

namespace troupe::learner {
namespace {

template <typename T>
class PatchConvolution final : public ConvPlan {
 public:
  static Result<std::unique_ptr<ConvPlan>> make(const ConvShape& s, DType dtype, const ComputeBy& by) {
    const std::int64_t places = s.out_h() * s.out_w(), patch = s.kernel_h * s.kernel_w * s.in;
    GemmShape product{.m = places, .n = s.out, .k = patch};
    if (s.pass == ConvPass::kInputGrad) product = {.m = places, .n = patch, .k = s.out, .transpose_b = true};
    if (s.pass == ConvPass::kWeightGrad) product = {.m = patch, .n = s.out, .k = places, .transpose_a = true};
    TROUPE_ASSIGN(auto gemm, make_gemm(by, product, dtype));
    return std::unique_ptr<ConvPlan>(new PatchConvolution(s, std::move(gemm)));
  }

  void run(const void* a, const void* b, const void* bias, void* c, void* workspace) const override {
    const std::int64_t image = s_.height * s_.width * s_.in, result = s_.out_h() * s_.out_w() * s_.out;
    const std::int64_t weight = s_.kernel_h * s_.kernel_w * s_.in * s_.out;
    T* const patches = static_cast<T*>(workspace);
    T* const part = patches + patches_;
    void* const rest = part + part_;
    const T* const left = static_cast<const T*>(a);
    T* const to = static_cast<T*>(c);
    if (s_.pass == ConvPass::kWeightGrad) std::fill_n(to, weight, T(0));
    for (std::int64_t i = 0; i < s_.batch; ++i) {
      switch (s_.pass) {
        case ConvPass::kForward:
          gather(left + i * image, patches);
          gemm_->run(patches, b, to + i * result, rest);
          finish(static_cast<const T*>(bias), to + i * result);
          break;
        case ConvPass::kInputGrad:
          gemm_->run(left + i * result, b, patches, rest);
          std::fill_n(to + i * image, image, T(0));
          scatter(patches, to + i * image);
          break;
        case ConvPass::kWeightGrad:
          gather(left + i * image, patches);
          gemm_->run(patches, static_cast<const T*>(b) + i * result, part, rest);
          for (std::int64_t e = 0; e < weight; ++e) to[e] += part[e];
          break;
      }
    }
  }

 private:
  PatchConvolution(const ConvShape& shape, std::unique_ptr<GemmPlan> gemm) : s_(shape), gemm_(std::move(gemm)) {
    const std::int64_t patch = s_.kernel_h * s_.kernel_w * s_.in;
    patches_ = aligned(s_.out_h() * s_.out_w() * patch);
    part_ = s_.pass == ConvPass::kWeightGrad ? aligned(patch * s_.out) : 0;
    workspace_bytes_ = static_cast<std::size_t>(patches_ + part_) * sizeof(T) + gemm_->workspace_bytes();
  }
  /// So many elements that what follows lies on a cache line.
  static std::int64_t aligned(std::int64_t elements) { return (elements + 15) / 16 * 16; }

  /// Calls inside(offset in the image, offset in the patches, elements) and outside(offset in the patches, elements)
  /// for every row of every patch.
  template <typename Inside, typename Outside>
  void walk(Inside&& inside, Outside&& outside) const {
    const std::int64_t row = s_.kernel_w * s_.in;
    std::int64_t at = 0;
    for (std::int64_t y = 0; y < s_.out_h(); ++y) {
      for (std::int64_t x = 0; x < s_.out_w(); ++x) {
        const std::int64_t left = x * s_.stride - s_.padding;
        const std::int64_t first = std::clamp<std::int64_t>(-left, 0, s_.kernel_w);
        const std::int64_t last = std::clamp<std::int64_t>(s_.width - left, first, s_.kernel_w);
        for (std::int64_t k = 0; k < s_.kernel_h; ++k, at += row) {
          const std::int64_t line = y * s_.stride - s_.padding + k;
          if (line < 0 || line >= s_.height) {
            outside(at, row);
            continue;
          }
          outside(at, first * s_.in);
          inside((line * s_.width + left + first) * s_.in, at + first * s_.in, (last - first) * s_.in);
          outside(at + last * s_.in, (s_.kernel_w - last) * s_.in);
        }
      }
    }
  }
  void gather(const T* image, T* patches) const {
    walk(
        [&](std::int64_t from, std::int64_t to, std::int64_t count) { std::copy_n(image + from, count, patches + to); },
        [&](std::int64_t to, std::int64_t count) { std::fill_n(patches + to, count, T(0)); });
  }
  void scatter(const T* patches, T* image) const {
    walk(
        [&](std::int64_t to, std::int64_t from, std::int64_t count) {
          for (std::int64_t e = 0; e < count; ++e) image[to + e] += patches[from + e];
        },
        [](std::int64_t, std::int64_t) {});
  }
  void finish(const T* bias, T* y) const {
    const T slope = s_.activation == Activation::kLeakyRelu ? T(kLeakyReluSlope) : T(0);
    const bool bends = s_.activation != Activation::kNone;
    if (bias == nullptr && !bends) return;
    for (std::int64_t place = 0; place < s_.out_h() * s_.out_w(); ++place, y += s_.out) {
      for (std::int64_t e = 0; e < s_.out; ++e) {
        const T sum = bias == nullptr ? y[e] : y[e] + bias[e];
        y[e] = bends && sum < 0 ? slope * sum : sum;
      }
    }
  }

  ConvShape s_;
  std::unique_ptr<GemmPlan> gemm_;
  std::int64_t patches_ = 0, part_ = 0;  ///< elements of the workspace
};

}  // namespace

Result<std::unique_ptr<ConvPlan>> make_patch_convolution(const ConvShape& shape, DType dtype, const ComputeBy& by) {
  return dtype == DType::kF64 ? PatchConvolution<double>::make(shape, dtype, by)
                              : PatchConvolution<float>::make(shape, dtype, by);
}

}  // namespace troupe::learner
