#include <troupe/learner/ops/losses.hpp>

#include <fmt/format.h>

#include <cmath>

#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/hlo_parts.hpp>
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

/// Whether the label is one of [0, count).
hlo::Value is_label(const hlo::Value& label, std::int64_t count) {
  return is_at_least(label, 0) & is_less(label, static_cast<double>(count));
}
/// Where a column is its row's label.
hlo::Value is_at(const hlo::Node& n, const hlo::Value& label, const Shape& shape) {
  return is_equal(n.to.iota({shape, hlo::Element::kI32}, 1), over_last(label, shape));
}
constexpr OpDef kLabelCrossEntropyGrad{
    .name = "label_cross_entropy_grad",
    .infer = [](Specs in, const Attr&) -> Inferred { return std::vector<ValueSpec>{in[1]}; },
    .kernel = [](const KernelTable& table) { return table.label_cross_entropy_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value &g = n.in[0], &probs = n.in[1], &label = n.in[2];
      const double smoothing = n.attr.real[0];
      const Shape& shape = probs.shape();
      const hlo::Value known = is_label(label, shape[1]);
      const hlo::Value part = select(known, (1 - smoothing) * g, NAN);  // of a label that is none in the first column
      const hlo::Value spread = over_last(g, shape) * (probs - smoothing / static_cast<double>(shape[1]));
      return {spread - select(is_at(n, select(known, label, 0), shape), over_last(part, shape), 0)};
    },
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
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value &x = n.in[0], &label = n.in[1];
      const double smoothing = n.attr.real[0];
      const Shape& shape = x.shape();
      const hlo::Softmax softmax = softmax_of(x);
      const hlo::Value lost = over_last(softmax.shift(), shape) - x;
      const hlo::Value of_label = (1 - smoothing) * sum_last(select(is_at(n, label, shape), lost, 0));
      hlo::Value loss = select(is_label(label, shape[1]), of_label, NAN);
      if (smoothing != 0) loss = loss + (smoothing / static_cast<double>(shape[1])) * sum_last(lost);
      return {loss, softmax.probs()};
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
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value &x = n.in[0], &label = n.in[1];
      const Shape& shape = x.shape();
      const hlo::Value own = sum_last(select(is_at(n, label, shape), x, 0)), other = over_last(own, shape);
      const hlo::Value earlier = is_less(n.to.iota({shape, hlo::Element::kI32}, 1), over_last(label, shape));
      const hlo::Value ahead = is_greater(x, other) | (is_equal(x, other) & earlier);
      const hlo::Value rank = sum_last(convert(ahead, hlo::Element::kI32));
      const hlo::Value in =
          is_label(label, shape[1]) & !is_nan(own) & is_less(rank, static_cast<double>(n.attr.integer[0]));
      return {convert(in, hlo::Element::kF32)};
    },
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
