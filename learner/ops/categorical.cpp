#include <troupe/learner/ops/categorical.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <troupe/learner/ops/hlo_parts.hpp>
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
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value &g = n.in[0], &y = n.in[1];
      return {y * (g - over_last(sum_last(g * y), y.shape()))};
    },
};
constexpr OpDef kSoftmax{
    .name = "softmax",
    .infer = infer_softmax,
    .kernel = [](const KernelTable& table) { return table.softmax; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {args.graph.emit1(kSoftmaxGrad, {args.out_grads[0], args.outputs[0]})};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {softmax_of(n.in[0]).probs()}; },
};

constexpr OpDef kLogSoftmaxGrad{
    .name = "log_softmax_grad",
    .infer = [](Specs in, const Attr&) -> Inferred { return same_shape(in, 1); },
    .kernel = [](const KernelTable& table) { return table.log_softmax_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value &g = n.in[0], &y = n.in[1];
      return {g - exp(y) * over_last(sum_last(g), y.shape())};
    },
};
constexpr OpDef kLogSoftmax{
    .name = "log_softmax",
    .infer = infer_softmax,
    .kernel = [](const KernelTable& table) { return table.log_softmax; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {args.graph.emit1(kLogSoftmaxGrad, {args.out_grads[0], args.outputs[0]})};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      return {n.in[0] - over_last(softmax_of(n.in[0]).shift(), n.in[0].shape())};
    },
};

/// Gradients of ops that give a number for each row and keep a matrix: that number's gradient, the matrix, maybe more.
Inferred infer_row_grad(Specs in, const Attr&) {
  TROUPE_ASSIGN(const Place place, combine_places(in, 1));
  return std::vector<ValueSpec>{{in[1].shape, DType::kF32, place}};
}

constexpr OpDef kCrossEntropyGrad{
    .name = "softmax_cross_entropy_grad",
    .infer = infer_row_grad,
    .kernel = [](const KernelTable& table) { return table.softmax_cross_entropy_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value &g = n.in[0], &probs = n.in[1], &target = n.in[2];
      const Shape& shape = probs.shape();
      return {over_last(g, shape) * (probs * over_last(sum_last(target), shape) - target)};
    },
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
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value &x = n.in[0], &target = n.in[1];
      const hlo::Softmax softmax = softmax_of(x);
      return {sum_last(target * (over_last(softmax.shift(), x.shape()) - x)), softmax.probs()};
    },
};

/// The atoms' values, [count].
hlo::Value atoms(const hlo::Node& n, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(n.attr.real[0] + static_cast<double>(i) * n.attr.real[1]));
  }
  return n.to.constant(values, {count});
}
constexpr OpDef kCategoricalMeanGrad{
    .name = "categorical_mean_grad",
    .infer = infer_row_grad,
    .kernel = [](const KernelTable& table) { return table.categorical_mean_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value &g = n.in[0], &probs = n.in[1], &mean = n.in[2];
      const Shape& shape = probs.shape();
      return {over_last(g, shape) * probs * (along_last(atoms(n, shape[1]), shape) - over_last(mean, shape))};
    },
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
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value probs = softmax_of(n.in[0]).probs();
      return {sum_last(probs * along_last(atoms(n, probs.size(1)), probs.shape())), probs};
    },
};

constexpr OpDef kTdGrad{
    .name = "categorical_td_grad",
    .infer = infer_row_grad,
    .kernel = [](const KernelTable& table) { return table.categorical_td_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {over_last(n.in[0], n.in[1].shape()) * n.in[1]}; },
    .overwrites = 2,
};
/// The kernel scatters each next atom's probability to two atoms; here every atom takes its share of every next one,
/// 1 - their distance, in a product that compilers do well. A NaN reaches the whole row, as it does in the kernel.
hlo::Values td_hlo(const hlo::Node& n) {
  const hlo::Value &x = n.in[0], &reward = n.in[2], &discount = n.in[3];
  const std::int64_t rows = x.size(0), count = x.size(1);
  const double low = n.attr.real[0], step = n.attr.real[1];
  const hlo::Value start = (1 / step) * (reward + low * discount - low), stride = (step * (1 / step)) * discount;
  const hlo::Value index = convert(n.to.iota({x.shape(), hlo::Element::kI32}, 1), hlo::Element::kF32);
  const hlo::Value at = minimum(maximum(over_last(start, x.shape()) + index * over_last(stride, x.shape()), 0),
                                static_cast<double>(count - 1));
  const Shape pairs{rows, count, count};
  const hlo::Value atom = convert(n.to.iota({pairs, hlo::Element::kI32}, 2), hlo::Element::kF32);
  const hlo::Value share = maximum(1 - unary("abs", broadcast(at, pairs, {0, 1}) - atom), 0);
  const hlo::Value target = dot(softmax_of(n.in[1]).probs(), share,
                                {.a_sum = {1}, .b_sum = {1}, .a_batch = {0}, .b_batch = {0}}, hlo::Product::kExact);
  const hlo::Softmax softmax = softmax_of(x);
  const hlo::Value loss = sum_last(target * (over_last(softmax.shift(), x.shape()) - x));
  return {loss, select(over_last(is_nan(loss), x.shape()), NAN, softmax.probs() - target)};
}
// real: lowest atom, distance of atoms. Outputs: loss of each row; its gradient by the logits.
constexpr OpDef kTd{
    .name = "categorical_td",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      TROUPE_TRY(check_real(in, 4));
      const ValueSpec& logits = in[0];
      const bool fits = logits.shape.rank() == 2 && logits.shape[1] == attr.integer[0] && in[1].shape == logits.shape &&
                        in[2].shape == Shape{logits.shape[0]} && in[3].shape == in[2].shape;
      if (!fits || std::ranges::count(in, logits.place, &ValueSpec::place) != 4) {
        return shape_error(in, fmt::format("two of [rows, {}] and two of [rows], split alike", attr.integer[0]));
      }
      TROUPE_ASSIGN(const std::vector<ValueSpec> gradient, same_shape(in.first(1), 0));
      return std::vector<ValueSpec>{{in[2].shape, DType::kF32, logits.place}, gradient[0]};
    },
    .kernel = [](const KernelTable& table) { return table.categorical_td; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      if (args.needs[1] || args.needs[2] || args.needs[3]) {
        args.graph.fail(Code::kInvalidArgument,
                        "categorical_td: next_logits, reward and discount have no gradient; use stop_gradient()");
        return {};
      }
      return {args.graph.emit1(kTdGrad, {args.out_grads[0], args.outputs[1]})};
    },
    .hlo = td_hlo,
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
Var categorical_td(Var logits, Var next_logits, Var reward, Var discount, const Support& support) {
  Attr attr;
  if (!logits || !next_logits || !reward || !discount || !support_attr(*logits.graph, support, &attr)) return {};
  return logits.graph->emit1(kTd, {logits, next_logits, reward, discount}, attr);
}

}  // namespace troupe::learner
