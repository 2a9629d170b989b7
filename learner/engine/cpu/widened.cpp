#include <troupe/learner/engine/cpu/widened.hpp>

#include <mutex>
#include <utility>

#include <troupe/core/log.hpp>
#include <troupe/core/round_up.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>

namespace troupe::learner {
namespace {

void say_once() {
  static std::once_flag told;
  std::call_once(told, [] {
    log::warn(
        "bfloat16: this processor multiplies none by itself; operands are rounded to it and computed with in "
        "float32, so compute = \"fp32\" is faster here");
  });
}

/// Pieces of a workspace one after another.
std::size_t floats(std::int64_t elements) { return round_up(static_cast<std::size_t>(elements) * sizeof(float), 64); }

const float* widened(const void* from, void* to, std::int64_t elements) {
  kernels_f32().from_bf16(static_cast<const std::uint16_t*>(from), static_cast<float*>(to), 0, elements);
  return static_cast<const float*>(to);
}

class WidenedGemm final : public GemmPlan {
 public:
  WidenedGemm(std::unique_ptr<GemmPlan> plan, const GemmShape& s)
      : GemmPlan(&run_widened, floats(s.m * s.k) + floats(s.k * s.n) + plan->workspace_bytes()),
        a_(s.m * s.k),
        b_(s.k * s.n),
        plan_(std::move(plan)) {}

 private:
  static void run_widened(const GemmPlan& plan, const void* a, const void* b, void* c, void* workspace) {
    const auto& self = static_cast<const WidenedGemm&>(plan);
    std::byte* const second = static_cast<std::byte*>(workspace) + floats(self.a_);
    const float* const left = widened(a, workspace, self.a_);
    const float* const right = widened(b, second, self.b_);
    self.plan_->run(left, right, c, second + floats(self.b_));
  }
  std::int64_t a_, b_;
  std::unique_ptr<GemmPlan> plan_;
};

class WidenedConvolution final : public ConvPlan {
 public:
  WidenedConvolution(std::unique_ptr<ConvPlan> plan, const ConvShape& s) : pass_(s.pass), plan_(std::move(plan)) {
    const std::int64_t x = s.batch * s.height * s.width * s.in, y = s.batch * s.out_h() * s.out_w() * s.out;
    first_ = pass_ == ConvPass::kInputGrad ? y : x;
    second_ = pass_ == ConvPass::kInputGrad ? x : y;
    workspace_bytes_ = floats(first_) + floats(second_) + plan_->workspace_bytes();
  }

  void run(const void* a, const void* b, const void* bias, void* c, void* workspace) const override {
    std::byte* const second = static_cast<std::byte*>(workspace) + floats(first_);
    std::byte* const rest = second + floats(second_);
    const float* const image = widened(a, workspace, first_);
    if (pass_ == ConvPass::kWeightGrad) return plan_->run(image, widened(b, second, second_), nullptr, c, rest);
    plan_->run(image, b, bias, second, rest);
    kernels_f32().to_bf16(reinterpret_cast<const float*>(second), static_cast<std::uint16_t*>(c), 0, second_);
  }

 private:
  ConvPass pass_;
  std::int64_t first_ = 0, second_ = 0;  ///< elements of the images: of a, and of b or c
  std::unique_ptr<ConvPlan> plan_;
};

class RoundingPack final : public ConvPlan {
 public:
  RoundingPack(std::unique_ptr<ConvPlan> pack, std::size_t elements) : pack_(std::move(pack)), elements_(elements) {
    if (pack_ != nullptr) workspace_bytes_ = pack_->workspace_bytes();
  }

  void run(const void* weight, const void*, const void*, void* packed, void* workspace) const override {
    if (pack_ != nullptr) pack_->run(weight, nullptr, nullptr, packed, workspace);
    const void* const from = pack_ != nullptr ? packed : weight;
    kernels_f32().round_bf16(static_cast<const float*>(from), static_cast<float*>(packed), 0,
                             static_cast<std::int64_t>(elements_));
  }

 private:
  std::unique_ptr<ConvPlan> pack_;
  std::size_t elements_;
};

}  // namespace

std::unique_ptr<GemmPlan> widen(std::unique_ptr<GemmPlan> plan, const GemmShape& shape) {
  say_once();
  return std::make_unique<WidenedGemm>(std::move(plan), shape);
}

std::unique_ptr<ConvPlan> widen(std::unique_ptr<ConvPlan> plan, const ConvShape& shape) {
  say_once();
  return std::make_unique<WidenedConvolution>(std::move(plan), shape);
}

std::unique_ptr<ConvPlan> rounding_pack(std::unique_ptr<ConvPlan> pack, std::size_t elements) {
  return std::make_unique<RoundingPack>(std::move(pack), elements);
}

}  // namespace troupe::learner
