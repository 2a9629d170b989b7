#include <troupe/learner/ops/resize.hpp>

#include <fmt/format.h>

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
constexpr OpDef kNearestGrad{
    .name = "resize_nearest_grad",
    .infer = shape_of_attr,
    .kernel = [](const KernelTable& table) { return table.image.resize_nearest_grad; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.resize_nearest_grad; },
};
constexpr OpDef kBilinearGrad{
    .name = "resize_bilinear_grad",
    .infer = shape_of_attr,
    .kernel = [](const KernelTable& table) { return table.image.resize_bilinear_grad; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.resize_bilinear_grad; },
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
};
constexpr OpDef kBilinear{
    .name = "resize_bilinear",
    .infer = infer_resize,
    .kernel = [](const KernelTable& table) { return table.image.resize_bilinear; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.resize_bilinear; },
    .vjp = resize_vjp<kBilinearGrad>,
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
