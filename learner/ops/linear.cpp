#include <troupe/learner/ops/linear.hpp>

#include <fmt/format.h>

#include <troupe/learner/ops/hlo_parts.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

// ---- matmul ----

Inferred infer_matmul(Specs in, const Attr& attr) {
  TROUPE_TRY(check_real(in, 2));
  const bool ta = attr.integer[0] != 0, tb = attr.integer[1] != 0;
  if (in[0].shape.rank() != 2 || in[1].shape.rank() != 2) return shape_error(in, "two matrices");
  const std::int64_t m = in[0].shape[ta ? 1 : 0], k = in[0].shape[ta ? 0 : 1];
  const std::int64_t n = in[1].shape[tb ? 0 : 1], other = in[1].shape[tb ? 1 : 0];
  if (k != other) {
    return shape_error(in, fmt::format("equal inner dimensions, not {}{} and {}{}", k, ta ? " (transposed)" : "", other,
                                       tb ? " (transposed)" : ""));
  }
  const Place a = in[0].place, b = in[1].place;
  Place place = Place::kReplicated;
  if (a == Place::kRows && b == Place::kRows) {
    if (!ta || tb) return shape_error(in, "rows of both to be summed over (transpose_a only)");
    place = Place::kPartial;
  } else if (a == Place::kRows) {
    if (ta) return shape_error(in, "a matrix split by rows not to be transposed");
    place = Place::kRows;
  } else if (b == Place::kRows) {
    if (!tb) return shape_error(in, "a matrix split by rows not to be the right operand");
    return shape_error(in, "a result that is split by rows");
  }
  if (a == Place::kPartial || b == Place::kPartial) {
    TROUPE_ASSIGN(place, combine_places(in, 3));
  }
  return std::vector<ValueSpec>{{Shape{m, n}, DType::kF32, place}};
}

GemmShape gemm_of(std::span<const Shape> in, const Attr& attr) {
  const bool ta = attr.integer[0] != 0, tb = attr.integer[1] != 0;
  return {.m = in[0][ta ? 1 : 0], .n = in[1][tb ? 0 : 1], .k = in[0][ta ? 0 : 1], .transpose_a = ta, .transpose_b = tb};
}

Var product(Var a, Var b, bool transpose_a, bool transpose_b);

// Of rows that are no data, what comes in is zero, so the products that sum over rows leave them out by themselves.
std::vector<Var> matmul_vjp(const VjpArgs& args) {
  const bool ta = args.attr.integer[0] != 0, tb = args.attr.integer[1] != 0;
  const Var a = args.inputs[0], b = args.inputs[1], g = args.out_grads[0];
  std::vector<Var> grads(2);
  if (args.needs[0]) grads[0] = ta ? product(b, g, tb, true) : product(g, b, false, !tb);
  if (args.needs[1]) grads[1] = tb ? product(g, a, true, ta) : product(a, g, !ta, false);
  return grads;
}

constexpr OpDef kMatmul{
    .name = "matmul",
    .infer = infer_matmul,
    .kernel = [](const KernelTable& table) { return table.matmul; },
    .vjp = matmul_vjp,
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const std::int64_t a = n.attr.integer[0] != 0 ? 0 : 1, b = n.attr.integer[1] != 0 ? 1 : 0;
      return {dot(n.in[0], n.in[1], {.a_sum = {a}, .b_sum = {b}}, hlo::Product::kNarrow)};
    },
    .gemm = gemm_of,
};

Var product(Var a, Var b, bool transpose_a, bool transpose_b) {
  return a && b ? a.graph->emit1(kMatmul, {a, b}, {.integer = {transpose_a, transpose_b}}) : Var{};
}

// ---- bias and activation ----

constexpr OpDef kBiasActivationGrad{
    .name = "bias_activation_grad",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_ASSIGN(std::vector<ValueSpec> out, same_shape(in, 1));
      const Shape& shape = in[0].shape;
      const bool vector = shape.rank() == 0 || (shape.rank() == 1 && in[0].place == Place::kRows);
      const Place place = out[0].place == Place::kRows ? Place::kPartial : out[0].place;
      out.push_back({vector ? Shape{1} : Shape{shape[shape.rank() - 1]}, DType::kF32, place});
      return out;
    },
    .kernel = [](const KernelTable& table) { return table.bias_activation_grad; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.bias_activation_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value before = activation_grad(n.in[0], n.in[1], kind_of(n));
      return {before, sum_rows(before, n.in_specs[0].place)};
    },
    .overwrites = 1,
};

std::vector<Var> bias_activation_vjp(const VjpArgs& args) {
  return bias_activation_grad(args.graph, args.out_grads[0], args.outputs[0],
                              static_cast<Activation>(args.attr.integer[0]));
}

constexpr OpDef kActivation{
    .name = "activation",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 1));
      return same_shape(in, 0);
    },
    .kernel = [](const KernelTable& table) { return table.bias_activation; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.bias_activation; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> { return {bias_activation_vjp(args)[0]}; },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {activate(n.in[0], kind_of(n))}; },
    .overwrites = 1,
};

Status check_bias(Specs in, std::size_t bias) {
  const std::int64_t cols = in[bias - 1].shape[in[bias - 1].shape.rank() - 1];
  if (in[bias].shape != Shape{cols} || in[bias].place != Place::kReplicated) {
    return shape_error(in, fmt::format("a replicated bias of shape [{}]", cols));
  }
  return {};
}

constexpr OpDef kBiasActivation{
    .name = "bias_activation",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 2));
      if (in[0].shape.rank() < 2) return shape_error(in, "a matrix and a bias");
      TROUPE_TRY(check_bias(in, 1));
      return same_shape(in.first(1), 0);
    },
    .kernel = [](const KernelTable& table) { return table.bias_activation; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.bias_activation; },
    .vjp = bias_activation_vjp,
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      return {activate(n.in[0] + along_last(n.in[1], n.in[0].shape()), kind_of(n))};
    },
    .overwrites = 1,
};

// ---- linear ----

std::vector<Var> linear_vjp(const VjpArgs& args) {
  const Var x = args.inputs[0], weight = args.inputs[1];
  const std::vector<Var> before = bias_activation_vjp(args);
  // Without activation the gradient passes unchanged, so its copy is left out.
  const Var dz = args.attr.integer[0] == 0 ? args.out_grads[0] : before[0];
  return {args.needs[0] ? product(dz, weight, false, true) : Var{}, args.needs[1] ? product(x, dz, true, false) : Var{},
          args.needs[2] ? before[1] : Var{}};
}

constexpr OpDef kLinear{
    .name = "linear",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 3));
      if (in[0].shape.rank() != 2 || in[1].shape.rank() != 2 || in[0].shape[1] != in[1].shape[0]) {
        return shape_error(in, "[rows, in], [in, out] and [out]");
      }
      if (in[0].place == Place::kPartial || in[1].place != Place::kReplicated) {
        return Error{Code::kInvalidArgument, "expected x split by rows or replicated, and a replicated weight"};
      }
      TROUPE_TRY(check_bias(in, 2));
      return std::vector<ValueSpec>{{Shape{in[0].shape[0], in[1].shape[1]}, DType::kF32, in[0].place}};
    },
    .kernel = [](const KernelTable& table) { return table.linear; },
    .vjp = linear_vjp,
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value y = dot(n.in[0], n.in[1], {.a_sum = {1}, .b_sum = {0}}, hlo::Product::kNarrow);
      return {activate(y + along_last(n.in[2], y.shape()), kind_of(n))};
    },
    .gemm = [](std::span<const Shape> in,
               const Attr&) { return GemmShape{.m = in[0][0], .n = in[1][1], .k = in[0][1]}; },
};

}  // namespace

std::vector<Var> bias_activation_grad(Graph& graph, Var out_grad, Var y, Activation kind) {
  return graph.emit(kBiasActivationGrad, std::array{out_grad, y}, {.integer = {static_cast<std::int64_t>(kind)}});
}
Var matmul(Var a, Var b, bool transpose_a, bool transpose_b) {
  if (!a || !b) return {};
  const auto by_rows = [&](Var x) { return x.graph->spec(x).place == Place::kRows; };
  return product(transpose_a && by_rows(a) && by_rows(b) ? mask_rows(a) : a, b, transpose_a, transpose_b);
}
Var linear(Var x, Var weight, Var bias, Activation kind) {
  return x && weight && bias
             ? x.graph->emit1(kLinear, {x, weight, bias}, {.integer = {static_cast<std::int64_t>(kind)}})
             : Var{};
}
Var bias_activation(Var x, Var bias, Activation kind) {
  return x && bias ? x.graph->emit1(kBiasActivation, {x, bias}, {.integer = {static_cast<std::int64_t>(kind), 1}})
                   : Var{};
}
Var activation(Var x, Activation kind) {
  return x ? x.graph->emit1(kActivation, {x}, {.integer = {static_cast<std::int64_t>(kind)}}) : Var{};
}

}  // namespace troupe::learner
