#include <troupe/learner/ops/pooling.hpp>

#include <fmt/format.h>

#include <array>
#include <cmath>

#include <troupe/learner/ops/hlo_parts.hpp>
#include <troupe/learner/ops/internal.hpp>

namespace troupe::learner {

namespace {

// integer: h, w, kernel, stride, padding.
Inferred infer_pool(Specs in, const Attr& attr) {
  TROUPE_TRY(check_image(in[0]));
  const auto size = [&](int axis) {
    return (in[0].shape[axis] + 2 * attr.integer[4] - attr.integer[2]) / attr.integer[3] + 1;
  };
  if (size(1) < 1 || size(2) < 1 || in[0].shape[1] + 2 * attr.integer[4] < attr.integer[2] ||
      in[0].shape[2] + 2 * attr.integer[4] < attr.integer[2]) {
    return shape_error(in, fmt::format("at least {0}x{0} pixels with padding {1}", attr.integer[2], attr.integer[4]));
  }
  ValueSpec out = in[0];
  out.shape = Shape{in[0].shape[0], size(1), size(2), in[0].shape[3]};
  return std::vector<ValueSpec>{out};
}

/// The integers of the ops' attributes.
struct Window {
  std::int64_t h, w, kernel, stride, padding;
  explicit Window(const hlo::Node& n)
      : h(n.attr.integer[0]),
        w(n.attr.integer[1]),
        kernel(n.attr.integer[2]),
        stride(n.attr.integer[3]),
        padding(n.attr.integer[4]) {}
};
constexpr OpDef kAveragePoolGrad{
    .name = "average_pool_grad",
    .infer = shape_of_attr,
    .kernel = [](const KernelTable& table) { return table.image.average_pool_grad; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.average_pool_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const auto [h, w, kernel, stride, padding] = Window(n);
      const std::int64_t front = kernel - 1 - padding, of_h = n.in[0].size(1), of_w = n.in[0].size(2);
      const hlo::Value spread =
          pad(n.in[0], 0,
              {.low = {0, front, front, 0},
               .high = {0, h - 1 + padding - (of_h - 1) * stride, w - 1 + padding - (of_w - 1) * stride, 0},
               .between = {0, stride - 1, stride - 1, 0}});
      const double share = 1 / static_cast<double>(kernel * kernel);
      return {share * sum_windows(spread, {1, kernel, kernel, 1}, {1, 1, 1, 1})};
    },
};
constexpr OpDef kAveragePool{
    .name = "average_pool",
    .infer = infer_pool,
    .kernel = [](const KernelTable& table) { return table.image.average_pool; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.average_pool; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      Attr attr = args.attr;
      attr.shape = args.graph.spec(args.inputs[0]).shape;
      return {args.graph.emit1(kAveragePoolGrad, {args.out_grads[0]}, attr)};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const auto [h, w, kernel, stride, padding] = Window(n);
      const hlo::Value x = pad(n.in[0], 0, {.low = {0, padding, padding, 0}, .high = {0, padding, padding, 0}});
      const double share = 1 / static_cast<double>(kernel * kernel);
      return {share * sum_windows(x, {1, kernel, kernel, 1}, {1, stride, stride, 1})};
    },
};

constexpr OpDef kMaxPoolGrad{
    .name = "max_pool_grad",
    .infer = shape_of_attr,
    .kernel = [](const KernelTable& table) { return table.image.max_pool_grad; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.max_pool_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const auto [h, w, kernel, stride, padding] = Window(n);
      const hlo::Value &g = n.in[0], &which = n.in[1];
      hlo::Value sum = n.to.constant(0, {n.attr.shape});
      for (std::int64_t place = 0; place < kernel * kernel; ++place) {
        const std::int64_t down = place / kernel - padding, right = place % kernel - padding;
        const hlo::Value part = select(is_equal(which, static_cast<double>(place)), g, 0);
        sum = sum +
              pad(part, 0,
                  {.low = {0, down, right, 0},
                   .high = {0, h - 1 - down - (g.size(1) - 1) * stride, w - 1 - right - (g.size(2) - 1) * stride, 0},
                   .between = {0, stride - 1, stride - 1, 0}});
      }
      return {sum};
    },
};
// -> maximum, place in the window.
constexpr OpDef kMaxPool{
    .name = "max_pool",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      TROUPE_ASSIGN(std::vector<ValueSpec> out, infer_pool(in, attr));
      out.push_back(out[0]);
      return out;
    },
    .kernel = [](const KernelTable& table) { return table.image.max_pool; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.max_pool; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      Attr attr = args.attr;
      attr.shape = args.graph.spec(args.inputs[0]).shape;
      return {args.graph.emit1(kMaxPoolGrad, {args.out_grads[0], args.outputs[1]}, attr)};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const auto [h, w, kernel, stride, padding] = Window(n);
      const Shape& shape = n.out_specs[0].shape;
      const hlo::Value x = pad(n.in[0], -INFINITY, {.low = {0, padding, padding, 0}, .high = {0, padding, padding, 0}});
      hlo::Value best = n.to.constant(-INFINITY, {shape}), which = n.to.constant(-1, {shape});
      for (std::int64_t place = 0; place < kernel * kernel; ++place) {
        const std::int64_t down = place / kernel, right = place % kernel;
        const hlo::Value here =
            slice(x, {0, down, right, 0},
                  {shape[0], down + (shape[1] - 1) * stride + 1, right + (shape[2] - 1) * stride + 1, shape[3]},
                  {1, stride, stride, 1});
        const hlo::Value above = is_greater(here, best) | is_nan(here);
        which = select(above, static_cast<double>(place), which);
        best = select(above, here, best);
      }
      return {best, which};
    },
};

constexpr OpDef kGlobalSumGrad{
    .name = "global_sum_grad",
    .infer = shape_of_attr,
    .kernel = [](const KernelTable& table) { return table.image.global_sum_grad; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.global_sum_grad; },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      return {n.attr.real[0] * broadcast(n.in[0], n.attr.shape, {0, 3})};
    },
};
// real: factor.
constexpr OpDef kGlobalSum{
    .name = "global_sum",
    .infer = [](Specs in, const Attr&) -> Inferred {
      TROUPE_TRY(check_image(in[0]));
      return std::vector<ValueSpec>{{Shape{in[0].shape[0], in[0].shape[3]}, in[0].dtype, in[0].place}};
    },
    .kernel = [](const KernelTable& table) { return table.image.global_sum; },
    .bf16_kernel = [](const KernelTable& table) { return table.bf16.global_sum; },
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      Attr attr = args.attr;
      attr.shape = args.graph.spec(args.inputs[0]).shape;
      return {args.graph.emit1(kGlobalSumGrad, {args.out_grads[0]}, attr)};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      return {n.attr.real[0] * sum(n.in[0], {1, 2})};
    },
};

Var pool(Var x, const OpDef& op, const PoolOptions& options, std::int64_t kernel_max) {
  if (!x) return {};
  Graph& graph = *x.graph;
  const auto [kernel, stride, padding] = options;
  if (kernel < 1 || kernel > kernel_max || stride < 1 || padding < 0 || 2 * padding > kernel) {
    return graph.fail(Code::kInvalidArgument,
                      fmt::format("{}: kernel {}, stride {} and padding {}, expected a kernel from 1 to {}, a stride "
                                  "of at least 1 and at most half a kernel of padding",
                                  op.name, kernel, stride, padding, kernel_max));
  }
  const Shape& shape = graph.spec(x).shape;
  const bool image = shape.rank() == 4;
  return graph.emit(op, std::array{x},
                    {.integer = {image ? shape[1] : 0, image ? shape[2] : 0, kernel, stride, padding}})[0];
}

Var global(Var x, bool mean) {
  if (!x) return {};
  const Shape& shape = x.graph->spec(x).shape;
  const double pixels = shape.rank() == 4 ? static_cast<double>(shape[1] * shape[2]) : 1;
  return x.graph->emit1(kGlobalSum, {x}, {.real = {mean ? 1 / pixels : 1}});
}

}  // namespace

Var average_pool(Var x, const PoolOptions& options) { return pool(x, kAveragePool, options, 1 << 20); }
Var max_pool(Var x, const PoolOptions& options) { return pool(x, kMaxPool, options, 16); }
Var global_mean(Var x) { return global(x, true); }
Var global_sum(Var x) { return global(x, false); }

}  // namespace troupe::learner
