#include <troupe/learner/ops/random_shift.hpp>

#include <fmt/format.h>

#include <troupe/learner/ops/internal.hpp>
#include <troupe/learner/ops/random.hpp>

namespace troupe::learner {

namespace {

// integer: h, w, padding.
Inferred infer_shift(Specs in, const Attr&) {
  TROUPE_TRY(check_real(in.subspan(1), 1));
  const Shape& x = in[0].shape;
  const bool images = x.rank() == 4 && in[0].place == Place::kRows && in[0].dtype != DType::kI32;
  if (!images || in[1].place != Place::kRows || in[1].shape != Shape{x[0], 2}) {
    return shape_error(in, "images [n, h, w, c] of bytes or real numbers and draws [n, 2], both split by rows");
  }
  return std::vector<ValueSpec>{in[0]};
}

// in: gradient, draws.
constexpr OpDef kShiftGrad{
    .name = "shift_grad",
    .infer = infer_shift,
    .kernel = [](const KernelTable& table) { return table.image.shift_grad; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.shift_grad; },
};
constexpr OpDef kShift{
    .name = "shift",
    .infer = infer_shift,
    .kernel = [](const KernelTable& table) { return table.image.shift; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.shift; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {args.needs[0] ? args.graph.emit1(kShiftGrad, {args.out_grads[0], args.inputs[1]}, args.attr) : Var{}};
    },
};
constexpr OpDef kShiftBytes{
    .name = "shift_bytes",
    .infer = infer_shift,
    .kernel = [](const KernelTable& table) { return table.shift_bytes; },
};

}  // namespace

Var shift(Var x, Var draws, std::int64_t padding) {
  if (!x || !draws) return {};
  if (padding < 0) {
    return x.graph->fail(Code::kInvalidArgument, fmt::format("shift: padding is {}, expected at least 0", padding));
  }
  const ValueSpec& spec = x.graph->spec(x);
  const bool image = spec.shape.rank() == 4;
  return x.graph->emit1(spec.dtype == DType::kU8 ? kShiftBytes : kShift, {x, draws},
                        {.integer = {image ? spec.shape[1] : 0, image ? spec.shape[2] : 0, padding}});
}

Var random_shift(Var x, std::string_view name, std::int64_t padding) {
  return x ? shift(x, random_uniform(*x.graph, name, {2}), padding) : Var{};
}

}  // namespace troupe::learner
