#include <troupe/learner/ops/spectral_norm.hpp>

#include <array>

#include <troupe/learner/ops/gradient.hpp>
#include <troupe/learner/ops/hlo_parts.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

constexpr double kLeastLength = 1e-12;

Status check_replicated(Specs in) {
  for (const ValueSpec& each : in) {
    if (each.place != Place::kReplicated) return shape_error(in, "replicated values");
  }
  return {};
}

// integer: whether the weight is transposed.
constexpr OpDef kDirection{
    .name = "direction",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      TROUPE_TRY(check_real(in, 2));
      TROUPE_TRY(check_replicated(in));
      const std::size_t from = attr.integer[0] != 0 ? 0 : 1;
      if (in[0].shape.rank() != 2 || in[1].shape != Shape{in[0].shape[from]}) {
        return shape_error(in, attr.integer[0] != 0 ? "[in, out] and [in]" : "[in, out] and [out]");
      }
      return std::vector<ValueSpec>{{Shape{in[0].shape[1 - from]}, DType::kF32, Place::kReplicated}};
    },
    .kernel = [](const KernelTable& table) { return table.direction; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const std::int64_t axis = n.attr.integer[0] != 0 ? 0 : 1;
      const hlo::Value out = exact_dot(n.in[0], n.in[1], axis, 0);
      return {out / everywhere(maximum(sqrt(sum(out * out, {0})), n.attr.real[0]), out.shape())};
    },
};

constexpr OpDef kScaleGrad{
    .name = "spectral_scale_grad",
    .infer = [](Specs in, const Attr&) -> Inferred { return std::vector<ValueSpec>{in[0]}; },
    .kernel = [](const KernelTable& table) { return table.spectral_scale_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value &g = n.in[0], &scaled = n.in[1], &sigma = n.in[4];
      const Shape& shape = g.shape();
      const hlo::Value along = broadcast(n.in[2], shape, {0}) * broadcast(n.in[3], shape, {1});  // v u^T
      const hlo::Value product = sum(g * scaled, {0, 1});
      return {(g - everywhere(product, shape) * along) / everywhere(sigma, shape)};
    },
};
// weight, v, u -> weight / sigma, sigma.
constexpr OpDef kScale{
    .name = "spectral_scale",
    .infer = [](Specs in, const Attr&) -> Inferred {
      return std::vector<ValueSpec>{in[0], {Shape{}, DType::kF32, Place::kReplicated}};
    },
    .kernel = [](const KernelTable& table) { return table.spectral_scale; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {args.graph.emit(kScaleGrad, std::array{args.out_grads[0], args.outputs[0], args.inputs[1], args.inputs[2],
                                                     args.outputs[1]})[0]};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value& weight = n.in[0];
      const hlo::Value sigma = sum(n.in[1] * exact_dot(weight, n.in[2], 1, 0), {0});
      return {weight / everywhere(sigma, weight.shape()), sigma};
    },
};

}  // namespace

Var spectral_norm(Var weight, Var u, bool training) {
  if (!weight || !u) return {};
  Graph& graph = *weight.graph;
  const auto direction = [&](Var from, bool transposed) {
    return stop_gradient(
        graph.emit1(kDirection, {weight, from}, {.real = {kLeastLength}, .integer = {transposed ? 1 : 0}}));
  };
  const Var v = direction(graph.latest(u), false);
  if (!v) return {};
  const Var next = direction(v, true);
  if (training) graph.assign(u, next);
  return graph.emit(kScale, std::array{weight, v, next})[0];
}

}  // namespace troupe::learner
