#include <troupe/learner/ops/image.hpp>

#include <array>

#include <troupe/learner/ops/hlo_parts.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

/// What a gradient kernel reads of the output: nothing without an activation, so then nothing need keep it.
Var output_of(const VjpArgs& args) { return args.attr.integer[0] == 0 ? args.out_grads[0] : args.outputs[0]; }

// integer: activation.
constexpr OpDef kActivationGrad{
    .name = "activation_grad",
    .infer = [](Specs in, const Attr&) -> Inferred { return same_shape(in, 1); },
    .kernel = [](const KernelTable& table) { return table.image.activation_grad; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.activation_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {activation_grad(n.in[0], n.in[1], kind_of(n))}; },
    .overwrites = 1,
};
constexpr OpDef kAddActivation{
    .name = "add_activation",
    .infer = [](Specs in, const Attr&) -> Inferred { return same_shape(in, 0); },
    .kernel = [](const KernelTable& table) { return table.image.add_activation; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.add_activation; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      const Var d = args.attr.integer[0] == 0
                        ? args.out_grads[0]
                        : args.graph.emit1(kActivationGrad, {args.out_grads[0], args.outputs[0]}, args.attr);
      return {d, d};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {activate(n.in[0] + n.in[1], kind_of(n))}; },
    .overwrites = 3,
};

// real: factor, offset.
constexpr OpDef kFromBytes{
    .name = "from_bytes",
    .infer = [](Specs in, const Attr&) -> Inferred {
      if (in[0].dtype != DType::kU8) return shape_error(in, "bytes");
      return std::vector<ValueSpec>{{in[0].shape, DType::kF32, in[0].place}};
    },
    .kernel = [](const KernelTable& table) { return table.image.from_bytes; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.from_bytes; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      return {n.attr.real[0] * convert(n.in[0], hlo::Element::kF32) + n.attr.real[1]};
    },
};

/// [n, c], at all pixels of [n, ..., c].
hlo::Value of_examples(const hlo::Value& x, const Shape& shape) { return broadcast(x, shape, {0, shape.rank() - 1}); }
constexpr OpDef kModulateGrad{
    .name = "modulate_grad",
    .infer = [](Specs in, const Attr&) -> Inferred {
      return std::vector<ValueSpec>{in[2], in[3], in[3]};
    },
    .kernel = [](const KernelTable& table) { return table.image.modulate_grad; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.modulate_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const hlo::Value d = activation_grad(n.in[0], n.in[1], kind_of(n));
      hlo::Sizes pixels;
      for (int axis = 1; axis + 1 < d.rank(); ++axis) pixels.push_back(axis);
      return {d * of_examples(n.in[3], d.shape()), sum(d * n.in[2], pixels), sum(d, pixels)};
    },
    .overwrites = 1,
};
constexpr OpDef kModulate{
    .name = "modulate",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_real(in, 3));
      const Shape& x = in[0].shape;
      bool fits = x.rank() >= 2;
      for (const ValueSpec& each : in) fits = fits && each.place == Place::kRows;
      for (const ValueSpec& each : in.subspan(1)) {
        fits = fits && each.shape == Shape{x[0], x[x.rank() - 1]};
      }
      if (!fits) return shape_error(in, "x [n, ..., c], a gain and an offset [n, c], all split by rows");
      return std::vector<ValueSpec>{in[0]};
    },
    .kernel = [](const KernelTable& table) { return table.image.modulate; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.modulate; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return args.graph.emit(kModulateGrad,
                             std::array{args.out_grads[0], output_of(args), args.inputs[0], args.inputs[1]}, args.attr);
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const Shape& shape = n.in[0].shape();
      return {activate(of_examples(n.in[1], shape) * n.in[0] + of_examples(n.in[2], shape), kind_of(n))};
    },
    .overwrites = 1,
};

}  // namespace

Var from_bytes(Var x, double factor, double offset) {
  return x ? x.graph->emit1(kFromBytes, {x}, {.real = {factor, offset}}) : Var{};
}
Var add_activation(Var a, Var b, Activation kind) {
  return a && b ? a.graph->emit1(kAddActivation, {a, b}, {.integer = {static_cast<std::int64_t>(kind)}}) : Var{};
}
Var modulate(Var x, Var gain, Var offset, Activation kind) {
  return x && gain && offset
             ? x.graph->emit1(kModulate, {x, gain, offset}, {.integer = {static_cast<std::int64_t>(kind)}})
             : Var{};
}

}  // namespace troupe::learner
