#include <troupe/learner/ops/elementwise.hpp>

#include <array>

#include <troupe/learner/ops/broadcast.hpp>
#include <troupe/learner/ops/hlo_parts.hpp>
#include <troupe/learner/ops/internal.hpp>
#include <troupe/learner/ops/linear.hpp>

namespace troupe::learner {

namespace {

Var scaled_product(Var a, Var b, double factor);

/// Sums need both operands to mean the same: a replicated one beside a sum over stripes counts once.
Inferred infer_sum(Specs in, const Attr&) {
  TROUPE_TRY(check_real(in, 2));
  if (in[0].shape != in[1].shape || in[0].place != in[1].place) return shape_error(in, "one shape, split alike");
  return std::vector<ValueSpec>{in[0]};
}

constexpr OpDef kAdd{
    .name = "add",
    .infer = infer_sum,
    .kernel = [](const KernelTable& table) { return table.add; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.add; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {args.out_grads[0], args.out_grads[0]};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {n.in[0] + n.in[1]}; },
    .overwrites = 3,
};
constexpr OpDef kSub{
    .name = "sub",
    .infer = infer_sum,
    .kernel = [](const KernelTable& table) { return table.sub; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {args.out_grads[0], args.needs[1] ? scale(args.out_grads[0], -1) : Var{}};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {n.in[0] - n.in[1]}; },
    .overwrites = 3,
};

constexpr OpDef kMul{
    .name = "mul",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 2));
      return same_shape(in, 3);
    },
    .kernel = [](const KernelTable& table) { return table.mul; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      const double factor = args.attr.real[0];
      if (args.inputs[0] == args.inputs[1]) {  // a square: one product instead of two and their sum
        return {scaled_product(args.out_grads[0], args.inputs[0], 2 * factor), Var{}};
      }
      return {args.needs[0] ? scaled_product(args.out_grads[0], args.inputs[1], factor) : Var{},
              args.needs[1] ? scaled_product(args.out_grads[0], args.inputs[0], factor) : Var{}};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {n.attr.real[0] * (n.in[0] * n.in[1])}; },
    .overwrites = 3,
};
Var scaled_product(Var a, Var b, double factor) { return a ? a.graph->emit1(kMul, {a, b}, {.real = {factor}}) : Var{}; }

constexpr OpDef kDiv{
    .name = "div",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 2));
      return same_shape(in, 1);
    },
    .kernel = [](const KernelTable& table) { return table.div; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      const Var of_a = div(args.out_grads[0], args.inputs[1]);
      return {of_a, args.needs[1] ? scaled_product(of_a, args.outputs[0], -1) : Var{}};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {n.in[0] / n.in[1]}; },
    .overwrites = 3,
};

constexpr OpDef kAffine{
    .name = "affine",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      TROUPE_TRY(check_real(in, 1));
      return same_shape(in, attr.real[1] == 0 ? 1 : 0);  // an offset would be added once on each stripe
    },
    .kernel = [](const KernelTable& table) { return table.affine; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> { return {scale(args.out_grads[0], args.attr.real[0])}; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value scaled = n.attr.real[0] * n.in[0];
      return {n.attr.real[1] == 0 ? scaled : scaled + n.attr.real[1]};
    },
    .overwrites = 1,
};

constexpr OpDef kClipGrad{
    .name = "clip_grad",
    .infer = [](Specs in, const Attr&) -> Inferred { return same_shape(in, 1); },
    .kernel = [](const KernelTable& table) { return table.clip_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value &g = n.in[0], &x = n.in[1];
      return {select(is_less(x, n.attr.real[0]) | is_greater(x, n.attr.real[1]), 0, g)};
    },
    .overwrites = 1,
};
constexpr OpDef kClip{
    .name = "clip",
    .infer = [](Specs in, const Attr&) -> Inferred { return same_shape(in, 0); },
    .kernel = [](const KernelTable& table) { return table.clip; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {args.graph.emit1(kClipGrad, {args.out_grads[0], args.inputs[0]}, args.attr)};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      return {minimum(maximum(n.in[0], n.attr.real[0]), n.attr.real[1])};
    },
    .overwrites = 1,
};

}  // namespace

namespace {

/// The operands of a sum, which must both be summands or none.
std::array<Var, 2> alike(Var a, Var b) {
  if (a.graph == b.graph) {
    const Place left = a.graph->spec(a).place, right = b.graph->spec(b).place;
    if (left == Place::kPartial && right == Place::kReplicated) b = as_partial(b);
    if (left == Place::kReplicated && right == Place::kPartial) a = as_partial(a);
  }
  std::array operands{a, b};
  broadcast_together(operands);
  return operands;
}
std::array<Var, 2> together(Var a, Var b) {
  std::array operands{a, b};
  broadcast_together(operands);
  return operands;
}

}  // namespace

Var add(Var a, Var b) {
  if (!a || !b) return {};
  const auto [left, right] = alike(a, b);
  return a.graph->emit1(kAdd, {left, right});
}
Var sub(Var a, Var b) {
  if (!a || !b) return {};
  const auto [left, right] = alike(a, b);
  return a.graph->emit1(kSub, {left, right});
}
Var mul(Var a, Var b) {
  if (!a || !b) return {};
  const auto [left, right] = together(a, b);
  return scaled_product(left, right, 1);
}
Var div(Var a, Var b) {
  if (!a || !b) return {};
  const auto [left, right] = together(a, b);
  return a.graph->emit1(kDiv, {left, right});
}
Var square(Var x) { return mul(x, x); }
Var affine(Var x, double factor, double offset) {
  return x ? x.graph->emit1(kAffine, {x}, {.real = {factor, offset}}) : Var{};
}
Var clip(Var x, double low, double high) {
  if (x && !(low < high)) return x.graph->fail(Code::kInvalidArgument, "clip: expected low < high");
  return x ? x.graph->emit1(kClip, {x}, {.real = {low, high}}) : Var{};
}

}  // namespace troupe::learner
