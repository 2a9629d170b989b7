#include <troupe/learner/ops/spectral_norm.hpp>

#include <array>

#include <troupe/learner/ops/gradient.hpp>
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
};

constexpr OpDef kScaleGrad{
    .name = "spectral_scale_grad",
    .infer = [](Specs in, const Attr&) -> Inferred { return std::vector<ValueSpec>{in[0]}; },
    .kernel = [](const KernelTable& table) { return table.spectral_scale_grad; },
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
