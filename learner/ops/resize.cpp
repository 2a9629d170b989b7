#include <troupe/learner/ops/resize.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include <troupe/learner/ops/hlo_parts.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

// integer: h, w, height, width.
Inferred infer_resize(Specs in, const Attr& attr) {
  TROUPE_TRY(check_image(in[0]));
  ValueSpec out = in[0];
  out.shape = Shape{in[0].shape[0], attr.integer[2], attr.integer[3], in[0].shape[3]};
  return std::vector<ValueSpec>{out};
}
/// How much of input `from` of one axis is in output `to`: [to, from], row by row.
using Weights = std::vector<float> (*)(std::int64_t from, std::int64_t to);
std::vector<float> nearest_weights(std::int64_t from, std::int64_t to) {
  std::vector<float> weights(static_cast<std::size_t>(from * to));
  for (std::int64_t i = 0; i < to; ++i) weights[static_cast<std::size_t>(i * from + i * from / to)] = 1;
  return weights;
}
std::vector<float> bilinear_weights(std::int64_t from, std::int64_t to) {
  std::vector<float> weights(static_cast<std::size_t>(from * to));
  for (std::int64_t i = 0; i < to; ++i) {
    const double ratio = static_cast<double>(from) / static_cast<double>(to);
    const double source = std::max(0.0, (static_cast<double>(i) + 0.5) * ratio - 0.5);
    const std::int64_t lower = std::min(static_cast<std::int64_t>(source), from - 1);
    const std::int64_t upper = std::min(lower + 1, from - 1);
    const float share = static_cast<float>(source - static_cast<double>(lower));
    weights[static_cast<std::size_t>(i * from + lower)] += 1 - share;
    weights[static_cast<std::size_t>(i * from + upper)] += share;
  }
  return weights;
}
/// Two products with constants, rows then columns, which compilers do well on every device; a number that is none then
/// reaches all of its image's pixels in a row or column. The gradient is that of the transposed ones.
hlo::Value resize_by(const hlo::Node& n, Weights weights, bool gradient) {
  hlo::Value x = n.in[0];
  for (const std::size_t axis : {0, 1}) {  // the summed axis goes to the end, so the next one is again axis 1
    const std::int64_t from = n.attr.integer[axis], to = n.attr.integer[2 + axis];
    x = exact_dot(x, n.to.constant(weights(from, to), {to, from}), 1, gradient ? 0 : 1);
  }
  return transpose(x, {0, 2, 3, 1});
}
/// By whole numbers pixels are repeated, or sums of such repetitions.
hlo::Value resize_nearest_by(const hlo::Node& n, bool gradient) {
  const std::int64_t h = n.attr.integer[0], w = n.attr.integer[1], height = n.attr.integer[2],
                     width = n.attr.integer[3];
  if (height % h != 0 || width % w != 0) return resize_by(n, nearest_weights, gradient);
  const Shape parts{n.in[0].size(0), h, height / h, w, width / w, n.in[0].size(3)};
  if (gradient) return sum(reshape(n.in[0], parts), {2, 4});
  return reshape(broadcast(n.in[0], parts, {0, 1, 3, 5}), n.out_specs[0].shape);
}

constexpr OpDef kNearestGrad{
    .name = "resize_nearest_grad",
    .infer = shape_of_attr,
    .kernel = [](const KernelTable& table) { return table.image.resize_nearest_grad; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.resize_nearest_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {resize_nearest_by(n, true)}; },
};
constexpr OpDef kBilinearGrad{
    .name = "resize_bilinear_grad",
    .infer = shape_of_attr,
    .kernel = [](const KernelTable& table) { return table.image.resize_bilinear_grad; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.resize_bilinear_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {resize_by(n, bilinear_weights, true)}; },
};

template <const OpDef& op>
std::vector<Var> resize_vjp(const VjpArgs& args) {
  Attr attr = args.attr;
  attr.shape = args.graph.spec(args.inputs[0]).shape;
  return {args.graph.emit1(op, {args.out_grads[0]}, attr)};
}

constexpr OpDef kNearest{
    .name = "resize_nearest",
    .infer = infer_resize,
    .kernel = [](const KernelTable& table) { return table.image.resize_nearest; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.resize_nearest; },
    .vjp = resize_vjp<kNearestGrad>,
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {resize_nearest_by(n, false)}; },
};
constexpr OpDef kBilinear{
    .name = "resize_bilinear",
    .infer = infer_resize,
    .kernel = [](const KernelTable& table) { return table.image.resize_bilinear; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.resize_bilinear; },
    .vjp = resize_vjp<kBilinearGrad>,
    .hlo = [](const hlo::Node& n) -> hlo::Values { return {resize_by(n, bilinear_weights, false)}; },
};

Var resize(Var x, const OpDef& op, std::int64_t height, std::int64_t width) {
  if (!x) return {};
  if (height < 1 || width < 1) {
    return x.graph->fail(Code::kInvalidArgument,
                         fmt::format("{}: to {}x{}, expected at least one pixel", op.name, height, width));
  }
  const Shape& shape = x.graph->spec(x).shape;
  const bool image = shape.rank() == 4;
  return x.graph->emit1(op, {x}, {.integer = {image ? shape[1] : 0, image ? shape[2] : 0, height, width}});
}

}  // namespace

Var resize_nearest(Var x, std::int64_t height, std::int64_t width) { return resize(x, kNearest, height, width); }
Var resize_bilinear(Var x, std::int64_t height, std::int64_t width) { return resize(x, kBilinear, height, width); }

}  // namespace troupe::learner
