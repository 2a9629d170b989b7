#include <troupe/learner/ops/norm.hpp>

#include <fmt/format.h>

#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/hlo_parts.hpp>
#include <troupe/learner/ops/internal.hpp>
#include <troupe/learner/ops/math.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner {

namespace {

hlo::Values layer_norm_hlo(const hlo::Node& n) {
  const Shape& shape = n.in[0].shape();
  const double share = 1 / static_cast<double>(shape[1]);
  const hlo::Value x = n.in[0] + along_last(n.in[1], shape);
  const hlo::Value centred = x - over_last(share * sum_last(x), shape);
  const hlo::Value inverse = unary("rsqrt", share * sum_last(centred * centred) + n.attr.real[0]);
  const hlo::Value normalised = centred * over_last(inverse, shape);
  const hlo::Value y = normalised * along_last(n.in[2], shape) + along_last(n.in[3], shape);
  return {activate(y, kind_of(n)), normalised, inverse};
}
hlo::Values layer_norm_grad_hlo(const hlo::Node& n) {
  const hlo::Value &normalised = n.in[2], &gain = n.in[4];
  const Shape& shape = normalised.shape();
  const Place place = n.in_specs[0].place;
  const double share = 1 / static_cast<double>(shape[1]);
  const hlo::Value d = activation_grad(n.in[0], n.in[1], kind_of(n)), scaled = d * along_last(gain, shape);
  const hlo::Value mean = share * sum_last(scaled), slope = share * sum_last(scaled * normalised);
  const hlo::Value dx =
      over_last(n.in[3], shape) * (scaled - over_last(mean, shape) - normalised * over_last(slope, shape));
  return {dx, sum_rows(d * normalised, place), sum_rows(d, place), sum_rows(dx, place)};
}
constexpr OpDef kLayerNormGrad{
    .name = "layer_norm_grad",
    .infer = [](Specs in, const Attr&) -> Inferred {
      const Place summed = in[0].place == Place::kRows ? Place::kPartial : in[0].place;
      const ValueSpec column{Shape{in[0].shape[1]}, DType::kF32, summed};
      return std::vector<ValueSpec>{in[0], column, column, column};
    },
    .kernel = [](const KernelTable& table) { return table.layer_norm_grad; },
    .hlo = layer_norm_grad_hlo,
    .overwrites = 1,
};

std::vector<Var> layer_norm_vjp(const VjpArgs& args) {
  const std::vector<Var> made = args.graph.emit(
      kLayerNormGrad, std::array{args.out_grads[0], args.outputs[0], args.outputs[1], args.outputs[2], args.inputs[2]},
      args.attr);
  return {made[0], made[3], made[1], made[2]};
}

// Outputs: y; what the gradient needs: the normalised x, 1 / standard deviation of each row.
constexpr OpDef kLayerNorm{
    .name = "layer_norm",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 4));
      const Shape& x = in[0].shape;
      if (x.rank() != 2) return shape_error(in, "[rows, n] and three of [n]");
      for (const ValueSpec& column : in.subspan(1)) {
        if (column.shape != Shape{x[1]} || column.place != Place::kReplicated) {
          return shape_error(in, fmt::format("[rows, {0}] and three replicated of [{0}]", x[1]));
        }
      }
      TROUPE_ASSIGN(const std::vector<ValueSpec> y, same_shape(in.first(1), 0));
      return std::vector<ValueSpec>{y[0], y[0], {Shape{x[0]}, DType::kF32, y[0].place}};
    },
    .kernel = [](const KernelTable& table) { return table.layer_norm; },
    .vjp = layer_norm_vjp,
    .hlo = layer_norm_hlo,
    .overwrites = 1,
};

}  // namespace

Var layer_norm(Var x, Var bias, Var gain, Var offset, Activation kind, double epsilon) {
  if (!x || !bias || !gain || !offset) return {};
  return x.graph->emit1(kLayerNorm, {x, bias, gain, offset},
                        {.real = {epsilon}, .integer = {static_cast<std::int64_t>(kind)}});
}

Var rms_norm(Var x, Var gain, double epsilon) {
  if (!x || !gain) return {};
  const Shape& shape = x.graph->spec(x).shape;
  if (shape.rank() != 2) {
    return x.graph->fail(Code::kShapeMismatch, fmt::format("rms_norm: {}, expected [rows, n]", shape.to_string()));
  }
  const double share = 1 / static_cast<double>(shape[1]);
  const Var root = sqrt(affine(sum_last(square(x)), share, epsilon));
  return mul(div(x, reshape(root, Shape{shape[0], 1})), gain);
}

}  // namespace troupe::learner
