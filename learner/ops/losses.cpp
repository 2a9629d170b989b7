#include <troupe/learner/ops/losses.hpp>

#include <fmt/format.h>

#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/internal.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner {

namespace {

Status check_labels(Specs in) {
  if (in[0].dtype != DType::kF32 || in[0].shape.rank() != 2 || in[1].dtype != DType::kI32 ||
      in[1].shape != Shape{in[0].shape[0]} || in[0].place != in[1].place || in[0].place == Place::kPartial) {
    return shape_error(in, "float32 [rows, n] and int32 [rows], split alike");
  }
  return {};
}

constexpr OpDef kLabelCrossEntropyGrad{
    .name = "label_cross_entropy_grad",
    .infer = [](Specs in, const Attr&) -> Inferred { return std::vector<ValueSpec>{in[1]}; },
    .kernel = [](const KernelTable& table) { return table.label_cross_entropy_grad; },
};
// real: smoothing. Outputs: loss of each row; softmax of the logits, which the gradient needs.
constexpr OpDef kLabelCrossEntropy{
    .name = "label_cross_entropy",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_labels(in));
      return std::vector<ValueSpec>{{in[1].shape, DType::kF32, in[0].place}, in[0]};
    },
    .kernel = [](const KernelTable& table) { return table.label_cross_entropy; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {
          args.graph.emit1(kLabelCrossEntropyGrad, {args.out_grads[0], args.outputs[1], args.inputs[1]}, args.attr)};
    },
};

// integer: how many.
constexpr OpDef kIsInTop{
    .name = "is_in_top",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_labels(in));
      return std::vector<ValueSpec>{{in[1].shape, DType::kF32, in[0].place}};
    },
    .kernel = [](const KernelTable& table) { return table.is_in_top; },
};

}  // namespace

Var label_cross_entropy(Var logits, Var labels, double smoothing) {
  if (!logits || !labels) return {};
  if (!(smoothing >= 0 && smoothing < 1)) {
    return logits.graph->fail(
        Code::kInvalidArgument,
        fmt::format("label_cross_entropy: smoothing {}, expected 0 or more and below 1", smoothing));
  }
  return logits.graph->emit1(kLabelCrossEntropy, {logits, labels}, {.real = {smoothing}});
}
Var is_in_top(Var logits, Var labels, std::int64_t count) {
  if (logits && count < 1) {
    return logits.graph->fail(Code::kInvalidArgument, fmt::format("is_in_top: {}, expected at least 1", count));
  }
  return logits && labels ? logits.graph->emit1(kIsInTop, {logits, labels}, {.integer = {count}}) : Var{};
}
Var is_correct(Var logits, Var labels) { return is_in_top(logits, labels, 1); }

Var hinge_discriminator(Var real_logits, Var fake_logits) {
  return add(mean(relu(affine(real_logits, -1, 1))), mean(relu(affine(fake_logits, 1, 1))));
}
Var hinge_generator(Var fake_logits) { return scale(mean(fake_logits), -1); }

}  // namespace troupe::learner
