#include <troupe/learner/ops/reduce.hpp>

#include <cmath>
#include <limits>

#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/hlo_parts.hpp>
#include <troupe/learner/ops/internal.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner {

namespace {

// integer: 1 where x is split by rows; elements of a row for a mean over rows, else 0. real: factor.
constexpr OpDef kSumAll{
    .name = "sum",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 1));
      return std::vector<ValueSpec>{
          {Shape{}, DType::kF32, in[0].place == Place::kRows ? Place::kPartial : in[0].place}};
    },
    .kernel = [](const KernelTable& table) { return table.sum_all; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      const ValueSpec x = args.graph.spec(args.inputs[0]);
      const Place place = x.place == Place::kRows ? x.place : args.graph.spec(args.out_grads[0]).place;
      return {fill_rows(args.out_grads[0], x, place, args.attr.real[0], args.attr.integer[1])};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      return {row_factor(n) * sum(counted(n, n.in[0]), all_axes(n.in[0]))};
    },
};

constexpr OpDef kCountRows{
    .name = "count_rows",
    .infer = [](Specs, const Attr&) -> Inferred {
      return std::vector<ValueSpec>{{Shape{}, DType::kF32, Place::kPartial}};
    },
    .kernel = [](const KernelTable& table) { return table.count_rows; },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {convert(n.rows, hlo::Element::kF32)}; },
};

constexpr OpDef kGreatest{
    .name = "greatest",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 1));
      return std::vector<ValueSpec>{
          {Shape{}, DType::kF32, in[0].place == Place::kRows ? Place::kPartial : in[0].place}};
    },
    .kernel = [](const KernelTable& table) { return table.greatest; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value greatest = largest(counted(n, n.in[0], -INFINITY), all_axes(n.in[0]));
      if (n.attr.integer[0] == 0) return {greatest};
      return {select(is_equal(n.rows, 0), std::numeric_limits<float>::lowest(), greatest)};
    },
};

std::vector<Var> sum_last_vjp(const VjpArgs& args);
constexpr OpDef kSumLast{
    .name = "sum_last",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 1));
      if (in[0].shape.rank() < 2) return shape_error(in, "at least two dimensions");
      return std::vector<ValueSpec>{{without_last(in[0].shape), DType::kF32, in[0].place}};
    },
    .kernel = [](const KernelTable& table) { return table.sum_last; },
    .vjp = sum_last_vjp,
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {sum_last(n.in[0])}; },
};
/// What was reduced over the last dimension, once for each of its elements.
Var spread_over_last(Var reduced, Var whole) {
  const Shape& shape = whole.graph->spec(whole).shape;
  const ValueSpec& spec = reduced.graph->spec(reduced);
  std::vector<std::int64_t> column(spec.shape.dims().begin(), spec.shape.dims().end());
  column.push_back(1);
  return broadcast_to(reshape(reduced, Shape(column)), {shape, DType::kF32, spec.place});
}
std::vector<Var> sum_last_vjp(const VjpArgs& args) { return {spread_over_last(args.out_grads[0], args.inputs[0])}; }

constexpr OpDef kLogSumExp{
    .name = "log_sum_exp",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 1));
      if (in[0].shape.rank() < 2 || in[0].place == Place::kPartial) {
        return shape_error(in, "at least two dimensions, not a sum over stripes");
      }
      return std::vector<ValueSpec>{{without_last(in[0].shape), DType::kF32, in[0].place}};
    },
    .kernel = [](const KernelTable& table) { return table.log_sum_exp; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {mul(spread_over_last(args.out_grads[0], args.inputs[0]), softmax(args.inputs[0]))};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {softmax_of(n.in[0]).shift()}; },
};

}  // namespace

Var mean(Var x) {
  if (!x) return {};
  const ValueSpec& spec = x.graph->spec(x);
  const bool rows = spec.place == Place::kRows;
  const std::int64_t elements = spec.shape.elements();
  return x.graph->emit1(kSumAll, {x},
                        {.real = {1.0 / static_cast<double>(elements)},
                         .integer = {rows ? 1 : 0, rows ? elements / x.graph->batch() : 0}});
}
Var sum(Var x) {
  if (!x) return {};
  return x.graph->emit1(kSumAll, {x}, {.real = {1}, .integer = {x.graph->spec(x).place == Place::kRows ? 1 : 0}});
}
Var count_rows(Graph& graph) { return graph.emit1(kCountRows, {}); }
Var greatest(Var x) {
  if (!x) return {};
  const bool rows = x.graph->spec(x).place == Place::kRows;
  const Var made = x.graph->emit1(kGreatest, {x}, {.integer = {rows ? 1 : 0}});
  return made && rows ? x.graph->emit_largest(made) : made;
}
Var sum_last(Var x) { return x ? x.graph->emit1(kSumLast, {x}) : Var{}; }
Var log_sum_exp(Var x) { return x ? x.graph->emit1(kLogSumExp, {x}) : Var{}; }

}  // namespace troupe::learner
