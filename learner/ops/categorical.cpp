#include <troupe/learner/ops/categorical.hpp>

#include <fmt/format.h>

#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

Inferred infer_softmax(Specs in, const Attr&) {
  TROUPE_TRY(check_real(in, 1));
  if (in[0].shape.rank() < 2) return shape_error(in, "at least two dimensions");
  return same_shape(in, 0);
}

constexpr OpDef kSoftmaxGrad{
    .name = "softmax_grad",
    .infer = [](Specs in, const Attr&) -> Inferred { return same_shape(in, 1); },
    .kernel = [](const KernelTable& table) { return table.softmax_grad; },
};
constexpr OpDef kSoftmax{
    .name = "softmax",
    .infer = infer_softmax,
    .kernel = [](const KernelTable& table) { return table.softmax; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {args.graph.emit1(kSoftmaxGrad, {args.out_grads[0], args.outputs[0]})};
    },
};

constexpr OpDef kLogSoftmaxGrad{
    .name = "log_softmax_grad",
    .infer = [](Specs in, const Attr&) -> Inferred { return same_shape(in, 1); },
    .kernel = [](const KernelTable& table) { return table.log_softmax_grad; },
};
constexpr OpDef kLogSoftmax{
    .name = "log_softmax",
    .infer = infer_softmax,
    .kernel = [](const KernelTable& table) { return table.log_softmax; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {args.graph.emit1(kLogSoftmaxGrad, {args.out_grads[0], args.outputs[0]})};
    },
};

/// Gradients of ops that give a number for each row and keep the softmax: that number's gradient, softmax, one more.
Inferred infer_row_grad(Specs in, const Attr&) {
  TROUPE_ASSIGN(const Place place, combine_places(in, 1));
  return std::vector<ValueSpec>{{in[1].shape, DType::kF32, place}};
}

constexpr OpDef kCrossEntropyGrad{
    .name = "softmax_cross_entropy_grad",
    .infer = infer_row_grad,
    .kernel = [](const KernelTable& table) { return table.softmax_cross_entropy_grad; },
};
// Outputs: loss of each row; softmax of the logits, which the gradient needs.
constexpr OpDef kCrossEntropy{
    .name = "softmax_cross_entropy",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 2));
      if (in[0].shape.rank() < 2) return shape_error(in, "at least two dimensions");
      TROUPE_ASSIGN(const std::vector<ValueSpec> probs, same_shape(in, 0));
      return std::vector<ValueSpec>{{without_last(in[0].shape), DType::kF32, probs[0].place}, probs[0]};
    },
    .kernel = [](const KernelTable& table) { return table.softmax_cross_entropy; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      if (args.needs[1]) {
        args.graph.fail(Code::kInvalidArgument,
                        "softmax_cross_entropy: target_probs have no gradient; use stop_gradient()");
        return {};
      }
      return {args.graph.emit1(kCrossEntropyGrad, {args.out_grads[0], args.outputs[1], args.inputs[1]})};
    },
};

constexpr OpDef kCategoricalMeanGrad{
    .name = "categorical_mean_grad",
    .infer = infer_row_grad,
    .kernel = [](const KernelTable& table) { return table.categorical_mean_grad; },
};
// real: lowest atom, distance of atoms. Outputs: means; softmax of the logits, which the gradient needs.
constexpr OpDef kCategoricalMean{
    .name = "categorical_mean",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      TROUPE_TRY(check_real(in, 1));
      if (in[0].shape.rank() != 2 || in[0].shape[1] != attr.integer[0]) {
        return shape_error(in, fmt::format("[rows, {}]", attr.integer[0]));
      }
      TROUPE_ASSIGN(const std::vector<ValueSpec> probs, same_shape(in, 0));
      return std::vector<ValueSpec>{{without_last(in[0].shape), DType::kF32, probs[0].place}, probs[0]};
    },
    .kernel = [](const KernelTable& table) { return table.categorical_mean; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {args.graph.emit1(kCategoricalMeanGrad, {args.out_grads[0], args.outputs[1], args.outputs[0]}, args.attr)};
    },
};

constexpr OpDef kProjection{
    .name = "categorical_projection",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      TROUPE_TRY(check_real(in, 3));
      const Shape& probs = in[0].shape;
      const bool fits = probs.rank() == 2 && probs[1] == attr.integer[0] && in[1].shape == Shape{probs[0]} &&
                        in[2].shape == Shape{probs[0]};
      if (!fits || in[1].place != in[0].place || in[2].place != in[0].place) {
        return shape_error(in, fmt::format("[rows, {}], [rows] and [rows], split alike", attr.integer[0]));
      }
      return same_shape(in.first(1), 0);
    },
    .kernel = [](const KernelTable& table) { return table.categorical_projection; },
};

/// Atoms as the kernels read them. False, after reporting, for a support that is none.
bool support_attr(Graph& graph, const Support& support, Attr* attr) {
  if (support.count < 2 || !(support.low < support.high)) {
    graph.fail(Code::kInvalidArgument,
               fmt::format("support: {} atoms over [{}, {}], expected at least 2 and low < high", support.count,
                           support.low, support.high));
    return false;
  }
  attr->real = {support.low, (support.high - support.low) / static_cast<double>(support.count - 1)};
  attr->integer = {support.count};
  return true;
}

}  // namespace

Var softmax(Var logits) { return logits ? logits.graph->emit1(kSoftmax, {logits}) : Var{}; }
Var log_softmax(Var logits) { return logits ? logits.graph->emit1(kLogSoftmax, {logits}) : Var{}; }
Var softmax_cross_entropy(Var logits, Var target_probs) {
  return logits && target_probs ? logits.graph->emit1(kCrossEntropy, {logits, target_probs}) : Var{};
}
Var categorical_mean(Var logits, const Support& support) {
  Attr attr;
  if (!logits || !support_attr(*logits.graph, support, &attr)) return {};
  return logits.graph->emit1(kCategoricalMean, {logits}, attr);
}
Var categorical_projection(Var probs, Var reward, Var discount, const Support& support) {
  Attr attr;
  if (!probs || !reward || !discount || !support_attr(*probs.graph, support, &attr)) return {};
  return probs.graph->emit1(kProjection, {probs, reward, discount}, attr);
}

}  // namespace troupe::learner
