#include <troupe/learner/ops/choice.hpp>

#include <algorithm>
#include <array>

#include <troupe/learner/ops/broadcast.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/gradient.hpp>
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
    .overwrites = 3,
};

// in: x, condition. x where the condition is not 0 (integer: where it is), else 0: the gradient of a choice.
constexpr OpDef kKeep{
    .name = "keep_where",
    .infer = [](Specs in, const Attr&) -> Inferred { return same_shape(in, 1); },
    .kernel = [](const KernelTable& table) { return table.keep_where; },
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
    .overwrites = 7,
};

// integer: choices, elements of one.
constexpr OpDef kGatherGrad{
    .name = "gather_grad",
    .infer = [](Specs in, const Attr& attr) -> Inferred { return shape_of_attr(in.first(1), attr); },
    .kernel = [](const KernelTable& table) { return table.gather_grad; },
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
