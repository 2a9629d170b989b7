#include <troupe/learner/ops/random_shift.hpp>

#include <fmt/format.h>

#include <array>

#include <troupe/learner/ops/hlo_parts.hpp>
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

/// [n, size, 2]: the image, and which of its lines (axis 0) or pixels (1) each of the window is. The draw is multiplied
/// in float64, as the kernel does it, so that no rounding moves a window.
hlo::Value window_index(const hlo::Node& n, int axis) {
  const std::int64_t images = n.in[0].size(0), size = n.in[0].size(1 + axis), padding = n.attr.integer[2];
  const hlo::Value draw = convert(slice(n.in[1], {0, axis}, {images, axis + 1}), hlo::Element::kF64);
  const hlo::Value scaled = minimum(static_cast<double>(2 * padding + 1) * draw, static_cast<double>(2 * padding));
  const hlo::Value by = convert(select(is_greater(draw, 0), scaled, 0), hlo::Element::kI32);
  const hlo::Type grid{{images, size}, hlo::Element::kI32};
  const hlo::Value at = n.to.iota(grid, 1) + broadcast(by, grid.shape, {0, 1}) - static_cast<double>(padding);
  const Shape single{images, size, 1};
  const std::array parts{reshape(n.to.iota(grid, 0), single),
                         reshape(minimum(maximum(at, 0), static_cast<double>(size - 1)), single)};
  return concat(parts, 2);
}
hlo::Values shift_hlo(const hlo::Node& n) {
  const hlo::Value lines = take(n.in[0], window_index(n, 0), {0, 1});
  return {transpose(take(lines, window_index(n, 1), {0, 2}), {0, 2, 1, 3})};
}
// in: gradient, draws.
constexpr OpDef kShiftGrad{
    .name = "shift_grad",
    .infer = infer_shift,
    .kernel = [](const KernelTable& table) { return table.image.shift_grad; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.shift_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const Shape& shape = n.in[0].shape();
      const hlo::Value lines = give_back(transpose(n.in[0], {0, 2, 1, 3}), window_index(n, 1), {0, 2}, shape);
      return {give_back(lines, window_index(n, 0), {0, 1}, shape)};
    },
};
constexpr OpDef kShift{
    .name = "shift",
    .infer = infer_shift,
    .kernel = [](const KernelTable& table) { return table.image.shift; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.shift; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {args.needs[0] ? args.graph.emit1(kShiftGrad, {args.out_grads[0], args.inputs[1]}, args.attr) : Var{}};
    },
    .hlo = shift_hlo,
};
constexpr OpDef kShiftBytes{
    .name = "shift_bytes",
    .infer = infer_shift,
    .kernel = [](const KernelTable& table) { return table.shift_bytes; },
    .hlo = shift_hlo,
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
