#include <troupe/learner/ops/shaping.hpp>

#include <fmt/format.h>

#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/hlo_parts.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

Shape with_last(const Shape& shape, std::int64_t size) {
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims.back() = size;
  return Shape(dims);
}

constexpr OpDef kPad{
    .name = "pad",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      return std::vector<ValueSpec>{{with_last(in[0].shape, attr.integer[1]), DType::kF32, in[0].place}};
    },
    .kernel = [](const KernelTable& table) { return table.pad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value& x = n.in[0];
      const auto axis = static_cast<std::size_t>(x.rank() - 1);
      hlo::Padding padding{.low = hlo::Sizes(axis + 1), .high = hlo::Sizes(axis + 1)};
      padding.low[axis] = n.attr.integer[0];
      padding.high[axis] = n.attr.integer[1] - n.attr.integer[0] - x.size(x.rank() - 1);
      return {pad(x, 0, padding)};
    },
};

// integer: begin, end.
constexpr OpDef kSlice{
    .name = "slice",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      TROUPE_TRY(check_real(in, 1));
      const std::int64_t begin = attr.integer[0], end = attr.integer[1];
      const Shape& shape = in[0].shape;
      if (shape.rank() < 2 || begin < 0 || begin >= end || end > shape[shape.rank() - 1]) {
        return shape_error(in, fmt::format("at least two dimensions and columns [{}, {}) in the last one", begin, end));
      }
      return std::vector<ValueSpec>{{with_last(shape, end - begin), DType::kF32, in[0].place}};
    },
    .kernel = [](const KernelTable& table) { return table.slice; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      const Shape& shape = args.graph.spec(args.inputs[0]).shape;
      return {
          args.graph.emit1(kPad, {args.out_grads[0]}, {.integer = {args.attr.integer[0], shape[shape.rank() - 1]}})};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value& x = n.in[0];
      hlo::Sizes begin(static_cast<std::size_t>(x.rank())), end(x.shape().dims().begin(), x.shape().dims().end());
      begin.back() = n.attr.integer[0];
      end.back() = n.attr.integer[1];
      return {slice(x, begin, end)};
    },
};

constexpr OpDef kConcat{
    .name = "concat",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 2));
      const Shape &a = in[0].shape, &b = in[1].shape;
      if (a.rank() < 2 || b.rank() < 2 || without_last(a) != without_last(b) || in[0].place != in[1].place) {
        return shape_error(in, "shapes that differ only in the last dimension, split alike");
      }
      return std::vector<ValueSpec>{{with_last(a, a[a.rank() - 1] + b[b.rank() - 1]), DType::kF32, in[0].place}};
    },
    .kernel = [](const KernelTable& table) { return table.concat; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      const Shape& a = args.graph.spec(args.inputs[0]).shape;
      const Shape& out = args.graph.spec(args.outputs[0]).shape;
      const std::int64_t border = a[a.rank() - 1];
      return {args.needs[0] ? slice(args.out_grads[0], 0, border) : Var{},
              args.needs[1] ? slice(args.out_grads[0], border, out[out.rank() - 1]) : Var{}};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {concat(n.in, n.in[0].rank() - 1)}; },
};

constexpr OpDef kReshape{
    .name = "reshape",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      const bool rows = in[0].place == Place::kRows;
      if (attr.shape.elements() != in[0].shape.elements() ||
          (rows && (attr.shape.rank() == 0 || attr.shape[0] % attr.integer[0] != 0))) {
        return shape_error(in, fmt::format("as many elements as {}{}", attr.shape.to_string(),
                                           rows ? ", whose first dimension is a multiple of the batch" : ""));
      }
      return std::vector<ValueSpec>{{attr.shape, in[0].dtype, in[0].place}};
    },
    .kernel = [](const KernelTable& table) { return table.copy; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {reshape(args.out_grads[0], args.graph.spec(args.inputs[0]).shape)};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {reshape(n.in[0], n.attr.shape)}; },
    .alias = true,
};

constexpr OpDef kStopGradient{
    .name = "stop_gradient",
    .infer = [](Specs in, const Attr&) -> Inferred { return std::vector<ValueSpec>{in[0]}; },
    .kernel = [](const KernelTable& table) { return table.copy; },
    .vjp = [](const VjpArgs&) -> std::vector<Var> { return {}; },
    .hlo = hlo::same,
    .alias = true,
};

constexpr OpDef kClipRowNorm{
    .name = "clip_row_norm",
    .infer = [](Specs in, const Attr&) -> Inferred { return same_shape(in, 0); },
    .kernel = [](const KernelTable& table) { return table.clip_row_norm; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value& x = n.in[0];
      const hlo::Value rows = convert(n.rows, hlo::Element::kF32), batch = filled(rows, static_cast<double>(n.batch));
      const hlo::Value share = select(is_greater(rows, 0), batch / maximum(rows, 1), 1);
      const hlo::Value norm = sqrt(sum_last(x * x)), limit = everywhere(n.attr.real[0] * share, norm.shape());
      return {x * over_last(select(is_greater(norm, limit), limit / norm, 1), x.shape())};
    },
    .overwrites = 1,
};

constexpr OpDef kClipGradient{
    .name = "clip_gradient_by_row_norm",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 1));
      if (in[0].shape.rank() != 2 || in[0].place != Place::kRows) return shape_error(in, "[rows, n] split by rows");
      return std::vector<ValueSpec>{in[0]};
    },
    .kernel = [](const KernelTable& table) { return table.copy; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {args.graph.emit1(kClipRowNorm, {args.out_grads[0]}, args.attr)};
    },
    .hlo = hlo::same,
    .alias = true,
};

}  // namespace

Var concat(Var a, Var b) { return a && b ? a.graph->emit1(kConcat, {a, b}) : Var{}; }
Var slice(Var x, std::int64_t begin, std::int64_t end) {
  return x ? x.graph->emit1(kSlice, {x}, {.integer = {begin, end}}) : Var{};
}
Var reshape(Var x, const Shape& shape) {
  return x ? x.graph->emit1(kReshape, {x}, {.integer = {x.graph->batch()}, .shape = shape}) : Var{};
}
Var stop_gradient(Var x) { return x ? x.graph->emit1(kStopGradient, {x}) : Var{}; }
Var clip_gradient_by_row_norm(Var x, double max_norm) {
  if (!x) return {};
  if (!(max_norm > 0)) {
    return x.graph->fail(Code::kInvalidArgument,
                         fmt::format("clip_gradient_by_row_norm: max_norm {}, expected above 0", max_norm));
  }
  // A mean over the batch has divided what arrives here by the batch; the kernel knows when that was a short one.
  return x.graph->emit1(kClipGradient, {x}, {.real = {max_norm / static_cast<double>(x.graph->batch())}});
}

}  // namespace troupe::learner
