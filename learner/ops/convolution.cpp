#include <troupe/learner/ops/convolution.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include <troupe/learner/engine/cpu/convolution.hpp>
#include <troupe/learner/ops/hlo_parts.hpp>
#include <troupe/learner/ops/internal.hpp>
#include <troupe/learner/ops/linear.hpp>

namespace troupe::learner {
namespace {

// integer: stride, padding, activation. shape: of the result of a gradient.
ConvShape conv_shape(ConvPass pass, const Shape& image, const Shape& weight, const Attr& attr) {
  return {.pass = pass,
          .batch = image[0],
          .height = image[1],
          .width = image[2],
          .in = weight[2],
          .kernel_h = weight[0],
          .kernel_w = weight[1],
          .out = weight[3],
          .stride = attr.integer[0],
          .padding = attr.integer[1]};
}

void run_convolution(const KernelArgs& args) {
  const bool bias = args.attr->integer[3] != 0;
  args.conv->run(args.in[0].data, args.in[1].data, bias ? args.in[2].data : nullptr, args.out[0].data, args.workspace);
}
KernelFn kernel(const KernelTable&) { return &run_convolution; }

constexpr OpDef kWeightGrad{
    .name = "conv2d_weight_grad",  // x, dy -> dw
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      const Place place = in[0].place == Place::kRows ? Place::kPartial : in[1].place;
      return std::vector<ValueSpec>{{attr.shape, DType::kF32, place}};
    },
    .kernel = kernel,
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const Shape &x = n.in[0].shape(), &dy = n.in[1].shape(), &kernel = n.attr.shape;
      const std::int64_t stride = n.attr.integer[0], padding = n.attr.integer[1];
      const auto behind = [&](int axis) { return (dy[axis] - 1) * stride + kernel[axis - 1] - x[axis] - padding; };
      return {convolve(n.in[0], n.in[1],
                       {.dimensions = "[f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f]",
                        .kernel_dilation = {stride, stride},
                        .low = {padding, padding},
                        .high = {behind(1), behind(2)}},
                       kernel)};
    },
    .conv = [](std::span<const Shape> in,
               const Attr& attr) { return conv_shape(ConvPass::kWeightGrad, in[0], attr.shape, attr); },
};

/// dw [kernel_h, kernel_w, in, out] of images x and gradients dy of what they became.
Var weight_grad(Var x, Var dy, const Shape& weight, const Attr& of) {
  return x.graph->emit1(kWeightGrad, {x, dy}, {.integer = {of.integer[0], of.integer[1]}, .shape = weight});
}
Var plain(Var x, Var weight, const Attr& of);

// dy, weight -> dx; by itself the transposed convolution.
constexpr OpDef kInputGrad{
    .name = "conv2d_input_grad",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      return std::vector<ValueSpec>{{attr.shape, DType::kF32, in[0].place}};
    },
    .kernel = kernel,
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      const Var g = args.out_grads[0], dy = args.inputs[0], weight = args.inputs[1];
      std::vector<Var> grads(2);
      if (args.needs[0]) grads[0] = plain(g, weight, args.attr);
      if (args.needs[1]) grads[1] = weight_grad(g, dy, args.graph.spec(weight).shape, args.attr);
      return grads;
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const Shape &dy = n.in[0].shape(), &kernel = n.in[1].shape(), &x = n.attr.shape;
      const std::int64_t stride = n.attr.integer[0], padding = n.attr.integer[1];
      const auto front = [&](int axis) { return kernel[axis - 1] - 1 - padding; };
      const auto behind = [&](int axis) { return x[axis] + padding - (dy[axis] - 1) * stride - 1; };
      // XLA's convolutions with a reversed window are loops on a processor, so the kernel is reversed apart. Where it
      // is larger than the image, XLA exchanges the two, which ends the process where that is so along one axis alone.
      const bool apart = kernel[0] <= dy[1] && kernel[1] <= dy[2];
      return {convolve(n.in[0], apart ? reverse(n.in[1], {0, 1}) : n.in[1],
                       {.dimensions = "[b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f]",
                        .x_dilation = {stride, stride},
                        .low = {front(1), front(2)},
                        .high = {behind(1), behind(2)},
                        .mirrored = !apart},
                       x)};
    },
    .conv =
        [](std::span<const Shape> in, const Attr& attr) {
          return conv_shape(ConvPass::kInputGrad, Shape{in[0][0], attr.shape[1], attr.shape[2], attr.shape[3]}, in[1],
                            attr);
        },
};
Var input_grad(Var dy, Var weight, const Shape& x, const Attr& of) {
  return dy.graph->emit1(kInputGrad, {dy, weight}, {.integer = {of.integer[0], of.integer[1]}, .shape = x});
}

/// The gradients of x and weight from that before the activation.
std::vector<Var> conv_grads(const VjpArgs& args, Var dy) {
  const Var x = args.inputs[0], weight = args.inputs[1];
  std::vector<Var> grads(args.inputs.size());
  if (args.needs[0]) grads[0] = input_grad(dy, weight, args.graph.spec(x).shape, args.attr);
  if (args.needs[1]) grads[1] = weight_grad(x, dy, args.graph.spec(weight).shape, args.attr);
  return grads;
}

constexpr OpDef kConv2d{
    .name = "conv2d",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      TROUPE_TRY(check_real(in, in.size()));
      const Shape &image = in[0].shape, &weight = in[1].shape;
      if (image.rank() != 4 || weight.rank() != 4 || image[3] != weight[2]) {
        return shape_error(in.first(2), "[n, height, width, in] and [kernel_h, kernel_w, in, out]");
      }
      if (in.size() > 2 && in[2].shape != Shape{weight[3]}) return shape_error(in, "a bias of [out] as third");
      for (const ValueSpec& each : in.subspan(1)) {
        if (each.place != Place::kReplicated) return shape_error(in, "a replicated weight and bias");
      }
      if (in[0].place == Place::kPartial) return shape_error(in, "images split by rows or replicated");
      const ConvShape s = conv_shape(ConvPass::kForward, image, weight, attr);
      if (s.stride < 1 || s.padding < 0 || s.height + 2 * s.padding < s.kernel_h ||
          s.width + 2 * s.padding < s.kernel_w) {
        return Error{Code::kInvalidArgument,
                     fmt::format("stride {} and padding {} of {} with {}, expected at least 1 and 0, and an image no "
                                 "smaller than the kernel",
                                 s.stride, s.padding, image.to_string(), weight.to_string())};
      }
      return std::vector<ValueSpec>{{Shape{image[0], s.out_h(), s.out_w(), s.out}, DType::kF32, in[0].place}};
    },
    .kernel = kernel,
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      const auto activation = static_cast<Activation>(args.attr.integer[2]);
      const bool bias = args.inputs.size() > 2;
      if (!bias && activation == Activation::kNone) return conv_grads(args, args.out_grads[0]);
      const std::vector<Var> before = bias_activation_grad(args.graph, args.out_grads[0], args.outputs[0], activation);
      std::vector<Var> grads = conv_grads(args, activation == Activation::kNone ? args.out_grads[0] : before[0]);
      if (bias && args.needs[2]) grads[2] = before[1];
      return grads;
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const std::int64_t stride = n.attr.integer[0], padding = n.attr.integer[1];
      const Shape& shape = n.out_specs[0].shape;
      const hlo::Value y = convolve(n.in[0], n.in[1],
                                    {.dimensions = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
                                     .strides = {stride, stride},
                                     .low = {padding, padding},
                                     .high = {padding, padding}},
                                    shape);
      return {
          activate(n.in.size() > 2 ? y + along_last(n.in[2], shape) : y, static_cast<Activation>(n.attr.integer[2]))};
    },
    .conv =
        [](std::span<const Shape> in, const Attr& attr) {
          ConvShape s = conv_shape(ConvPass::kForward, in[0], in[1], attr);
          s.activation = static_cast<Activation>(attr.integer[2]);
          s.bias = in.size() > 2;
          return s;
        },
};

Var plain(Var x, Var weight, const Attr& of) {
  return x.graph->emit1(kConv2d, {x, weight}, {.integer = {of.integer[0], of.integer[1]}});
}

// ---- convolutions at half and twice the size ----

/// Walks the terms of the 4x4 kernel that a 3x3 one and a 2x2 box make together: f(offset in it, offset in the 3x3
/// one) for each row of `out` values. Mirrored and with its last two dimensions exchanged for a transposed convolution.
template <typename F>
void walk_kernel(std::int64_t in, std::int64_t out, bool transposed, F&& f) {
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      const std::int64_t to = (transposed ? (3 - i) * 4 + 3 - j : i * 4 + j) * in * out;
      for (std::int64_t k = std::max<std::int64_t>(i - 1, 0); k <= std::min<std::int64_t>(i, 2); ++k) {
        for (std::int64_t l = std::max<std::int64_t>(j - 1, 0); l <= std::min<std::int64_t>(j, 2); ++l) {
          f(to, (k * 3 + l) * in * out);
        }
      }
    }
  }
}
/// integer[0]: transposed; real[0]: by what the box is multiplied; shape: the 3x3 kernel's.
template <typename T, bool kGradient>
void box_kernel(const KernelArgs& args) {
  const bool transposed = args.attr->integer[0] != 0;
  const std::int64_t in = args.attr->shape[2], out = args.attr->shape[3];
  const T factor = static_cast<T>(args.attr->real[0]);
  const T* const from = args.in[0].as<T>();
  T* const to = args.out[0].as<T>();
  std::fill_n(to, args.out[0].elements(), T(0));
  walk_kernel(in, out, transposed, [&](std::int64_t large, std::int64_t small) {
    for (std::int64_t i = 0; i < in; ++i) {
      for (std::int64_t o = 0; o < out; ++o) {
        const std::int64_t at = large + (transposed ? o * in + i : i * out + o), of = small + i * out + o;
        kGradient ? to[of] += factor * from[at] : to[at] += factor * from[of];
      }
    }
  });
}
template <bool kGradient>
KernelFn box_kernel_of(const KernelTable& table) {
  return table.dtype == DType::kF64 ? &box_kernel<double, kGradient> : &box_kernel<float, kGradient>;
}

/// Where the 3x3 kernel lies in the 4x4 one.
constexpr std::pair<std::int64_t, std::int64_t> kBox[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
constexpr OpDef kBoxKernelGrad{
    .name = "box_kernel_grad",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      return std::vector<ValueSpec>{{attr.shape, DType::kF32, in[0].place}};
    },
    .kernel = box_kernel_of<true>,
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      const Shape& shape = n.attr.shape;
      hlo::Value g = n.in[0];
      if (n.attr.integer[0] != 0) g = transpose(reverse(g, {0, 1}), {0, 1, 3, 2});
      hlo::Value sum;
      for (const auto& [down, right] : kBox) {
        const hlo::Value part = slice(g, {down, right, 0, 0}, {down + 3, right + 3, shape[2], shape[3]});
        sum = sum.to == nullptr ? part : sum + part;
      }
      return {n.attr.real[0] * sum};
    },
};
constexpr OpDef kBoxKernel{
    .name = "box_kernel",
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      const Shape& w = attr.shape;
      const bool transposed = attr.integer[0] != 0;
      return std::vector<ValueSpec>{
          {Shape{4, 4, w[transposed ? 3 : 2], w[transposed ? 2 : 3]}, DType::kF32, in[0].place}};
    },
    .kernel = box_kernel_of<false>,
    .vjp = [](const VjpArgs& args) -> std::vector<Var> {
      return {args.graph.emit1(kBoxKernelGrad, {args.out_grads[0]}, args.attr)};
    },
    .hlo = [](const hlo::Node& n) -> hlo::Values {
      hlo::Value sum;
      for (const auto& [down, right] : kBox) {
        const hlo::Value part = pad(n.in[0], 0, {.low = {down, right, 0, 0}, .high = {1 - down, 1 - right, 0, 0}});
        sum = sum.to == nullptr ? part : sum + part;
      }
      const hlo::Value kernel = n.attr.real[0] * sum;
      return {n.attr.integer[0] != 0 ? transpose(reverse(kernel, {0, 1}), {0, 1, 3, 2}) : kernel};
    },
};

/// The 4x4 kernel, or an error for what is not [3, 3, in, out] and images of [n, height, width, in].
Var four_by_four(Var x, Var weight, bool transposed) {
  Graph& graph = *x.graph;
  const ValueSpec specs[] = {graph.spec(x), graph.spec(weight)};
  const Shape &image = specs[0].shape, &w = specs[1].shape;
  if (image.rank() != 4 || w.rank() != 4 || w[0] != 3 || w[1] != 3 || w[2] != image[3] ||
      specs[1].place != Place::kReplicated || specs[0].place == Place::kPartial ||
      (!transposed && (image[1] % 2 != 0 || image[2] % 2 != 0))) {
    const Error error = shape_error(specs, transposed ? "[n, height, width, in] and a replicated [3, 3, in, out]"
                                                      : "[n, height, width, in], both even, and a replicated "
                                                        "[3, 3, in, out]");
    return graph.fail(error.code,
                      fmt::format("{}: {}", transposed ? "upsampled_conv2d" : "downsampled_conv2d", error.message));
  }
  return graph.emit1(kBoxKernel, {weight},
                     {.real = {transposed ? 1 : 0.25}, .integer = {transposed ? 1 : 0}, .shape = w});
}

Var convolve(std::span<const Var> inputs, const ConvOptions& options) {
  for (const Var input : inputs) {
    if (!input) return {};
  }
  const bool fused = options.activation == Activation::kRelu || options.activation == Activation::kLeakyRelu;
  const Attr attr{.integer = {options.stride, options.padding,
                              fused ? static_cast<std::int64_t>(options.activation) : 0, inputs.size() > 2 ? 1 : 0}};
  const std::vector<Var> made = inputs[0].graph->emit(kConv2d, inputs, attr);
  if (made.empty()) return {};
  return fused || options.activation == Activation::kNone ? made[0] : activation(made[0], options.activation);
}

}  // namespace

Var conv2d(Var x, Var weight, const ConvOptions& options) { return convolve(std::array{x, weight}, options); }
Var conv2d(Var x, Var weight, Var bias, const ConvOptions& options) {
  return convolve(std::array{x, weight, bias}, options);
}

Var upsampled_conv2d(Var x, Var weight) {
  if (!x || !weight) return {};
  const Var kernel_4x4 = four_by_four(x, weight, true);
  if (!kernel_4x4) return {};
  const Shape image = x.graph->spec(x).shape;
  const Shape result = {image[0], 2 * image[1], 2 * image[2], x.graph->spec(weight).shape[3]};
  return input_grad(x, kernel_4x4, result, {.integer = {2, 1}});
}
Var downsampled_conv2d(Var x, Var weight, Var bias) {
  if (!x || !weight || !bias) return {};
  const Var kernel_4x4 = four_by_four(x, weight, false);
  return kernel_4x4 ? conv2d(x, kernel_4x4, bias, {.stride = 2, .padding = 1}) : Var{};
}

}  // namespace troupe::learner
