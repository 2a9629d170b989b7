#include <troupe/learner/ops/choice.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#include <troupe/learner/ops/broadcast.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/hlo_parts.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

/// Neither of the operands of a comparison may be a summand of what is compared.
Inferred infer_choice(Specs in, const Attr&) {
  TROUPE_TRY(check_real(in, in.size()));
  return same_shape(in, 0);
}

// real: where the operands are equal.
constexpr OpDef kGreater{
    .name = "greater",
    .infer = infer_choice,
    .kernel = [](const KernelTable& table) { return table.greater; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value &a = n.in[0], &b = n.in[1];
      return {select(is_greater(a, b), 1, select(is_equal(a, b), filled(a, n.attr.real[0]), 0))};
    },
    .overwrites = 3,
};
/// How much of the gradient of the larger one goes to a.
Var share_of_larger(Var a, Var b) { return a.graph->emit1(kGreater, {a, b}, {.real = {0.5}}); }

constexpr OpDef kMinimum{
    .name = "minimum",
    .infer = infer_choice,
    .kernel = [](const KernelTable& table) { return table.minimum; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      const Var a = args.inputs[0], b = args.inputs[1], gradient = args.out_grads[0];
      return {args.needs[0] ? mul(gradient, share_of_larger(b, a)) : Var{},
              args.needs[1] ? mul(gradient, share_of_larger(a, b)) : Var{}};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {minimum(n.in[0], n.in[1])}; },
    .overwrites = 3,
};
constexpr OpDef kMaximum{
    .name = "maximum",
    .infer = infer_choice,
    .kernel = [](const KernelTable& table) { return table.maximum; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      const Var a = args.inputs[0], b = args.inputs[1], gradient = args.out_grads[0];
      return {args.needs[0] ? mul(gradient, share_of_larger(a, b)) : Var{},
              args.needs[1] ? mul(gradient, share_of_larger(b, a)) : Var{}};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {maximum(n.in[0], n.in[1])}; },
    .overwrites = 3,
};

// in: x, condition. x where the condition is not 0 (integer: where it is), else 0: the gradient of a choice.
constexpr OpDef kKeep{
    .name = "keep_where",
    .infer = [](Specs in, const Attr&) -> Inferred { return same_shape(in, 1); },
    .kernel = [](const KernelTable& table) { return table.keep_where; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value unset = is_equal(n.in[1], 0);
      return {n.attr.integer[0] != 0 ? select(unset, n.in[0], 0) : select(unset, 0, n.in[0])};
    },
    .overwrites = 3,
};
constexpr OpDef kWhere{
    .name = "where",
    .infer = infer_choice,
    .kernel = [](const KernelTable& table) { return table.where; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      const Var condition = args.inputs[0], gradient = args.out_grads[0];
      return {Var{}, args.needs[1] ? args.graph.emit1(kKeep, {gradient, condition}) : Var{},
              args.needs[2] ? args.graph.emit1(kKeep, {gradient, condition}, {.integer = {1}}) : Var{}};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {select(is_equal(n.in[0], 0), n.in[2], n.in[1])}; },
    .overwrites = 7,
};

/// [items, choices, width]: where the choice is what its item's index, operand 1, says. A select and a sum over it read
/// no more than there is and, unlike lookups, need no care for indices that are none.
hlo::Value chosen(const hlo::Node& n) {
  const hlo::Value& index = n.in[1];
  const Shape shape{index.shape().elements(), n.attr.integer[0], n.attr.integer[1]};
  return is_equal(broadcast(reshape(index, {shape[0]}), shape, {0}), n.to.iota({shape, hlo::Element::kI32}, 1));
}
// integer: choices, elements of one.
constexpr OpDef kGatherGrad{
    .name = "gather_grad",
    .infer = [](Specs in, const Attr& attr) -> Inferred { return shape_of_attr(in.first(1), attr); },
    .kernel = [](const KernelTable& table) { return table.gather_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value hit = chosen(n);
      const Shape &items = hit.shape(), taken{items[0], items[2]};
      return {reshape(select(hit, broadcast(reshape(n.in[0], taken), items, {0, 2}), 0), n.attr.shape)};
    },
};
constexpr OpDef kGather{
    .name = "gather",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      return std::vector<ValueSpec>{{attr.shape, DType::kF32, in[0].place}};
    },
    .kernel = [](const KernelTable& table) { return table.gather; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      Attr attr = args.attr;
      attr.shape = args.graph.spec(args.inputs[0]).shape;
      return {args.graph.emit1(kGatherGrad, {args.out_grads[0], args.inputs[1]}, attr), Var{}};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value hit = chosen(n), index = reshape(n.in[1], {hit.size(0)});
      const hlo::Value taken = sum(select(hit, reshape(n.in[0], hit.shape()), 0), {1});
      const hlo::Value known = is_at_least(index, 0) & is_less(index, static_cast<double>(hit.size(1)));
      return {reshape(select(broadcast(known, taken.shape(), {0}), taken, NAN), n.attr.shape)};
    },
};

Var choose(const OpDef& op, Var a, Var b) {
  if (!a || !b) return {};
  std::array operands{a, b};
  broadcast_together(operands);
  return a.graph->emit1(op, {operands[0], operands[1]});
}

}  // namespace

Var minimum(Var a, Var b) { return choose(kMinimum, a, b); }
Var maximum(Var a, Var b) { return choose(kMaximum, a, b); }
Var greater(Var a, Var b) { return choose(kGreater, stop_gradient(a), stop_gradient(b)); }

Var where(Var condition, Var a, Var b) {
  if (!condition || !a || !b) return {};
  std::array operands{stop_gradient(condition), a, b};
  broadcast_together(operands);
  return a.graph->emit1(kWhere, {operands[0], operands[1], operands[2]});
}

Var gather(Var x, Var index) {
  if (!x || !index) return {};
  const std::array specs{x.graph->spec(x), x.graph->spec(index)};
  const auto dims = specs[0].shape.dims(), items = specs[1].shape.dims();
  const bool fits = dims.size() > items.size() && std::ranges::equal(dims.first(items.size()), items);
  if (!fits || specs[0].dtype != DType::kF32 || specs[1].dtype != DType::kI32 || specs[0].place != specs[1].place ||
      specs[0].place == Place::kPartial || (items.empty() && specs[0].place == Place::kRows)) {
    const Error error = shape_error(specs, "x [items..., choices, rest...] and int32 [items...], split alike");
    return x.graph->fail(error.code, "gather: " + error.message);
  }
  std::vector<std::int64_t> out(items.begin(), items.end());
  std::int64_t width = 1;
  for (const std::int64_t size : dims.subspan(items.size() + 1)) {
    out.push_back(size);
    width *= size;
  }
  return x.graph->emit1(kGather, {x, index}, {.integer = {dims[items.size()], width}, .shape = Shape(out)});
}

}  // namespace troupe::learner
