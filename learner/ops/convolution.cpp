#include <troupe/learner/ops/convolution.hpp>

#include <fmt/format.h>

#include <array>

#include <troupe/learner/convolution.hpp>
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

constexpr OpDef kInputGrad{
    .name = "conv2d_input_grad",  // dy, weight -> dx
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      return std::vector<ValueSpec>{{attr.shape, DType::kF32, in[0].place}};
    },
    .kernel = kernel,
    .conv =
        [](std::span<const Shape> in, const Attr& attr) {
          return conv_shape(ConvPass::kInputGrad, Shape{in[0][0], attr.shape[1], attr.shape[2], attr.shape[3]}, in[1],
                            attr);
        },
};
constexpr OpDef kWeightGrad{
    .name = "conv2d_weight_grad",  // x, dy -> dw
    .infer = [](Specs in, const Attr& attr) -> Inferred {
      const Place place = in[0].place == Place::kRows ? Place::kPartial : in[1].place;
      return std::vector<ValueSpec>{{attr.shape, DType::kF32, place}};
    },
    .kernel = kernel,
    .conv = [](std::span<const Shape> in,
               const Attr& attr) { return conv_shape(ConvPass::kWeightGrad, in[0], attr.shape, attr); },
};

/// The gradients of x and weight from that before the activation.
std::vector<Var> conv_grads(const VjpArgs& args, Var dy) {
  const Var x = args.inputs[0], weight = args.inputs[1];
  Attr attr{.integer = {args.attr.integer[0], args.attr.integer[1]}};
  std::vector<Var> grads(args.inputs.size());
  if (args.needs[0]) {
    attr.shape = args.graph.spec(x).shape;
    grads[0] = args.graph.emit1(kInputGrad, {dy, weight}, attr);
  }
  if (args.needs[1]) {
    attr.shape = args.graph.spec(weight).shape;
    grads[1] = args.graph.emit1(kWeightGrad, {x, dy}, attr);
  }
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
    .conv =
        [](std::span<const Shape> in, const Attr& attr) {
          ConvShape s = conv_shape(ConvPass::kForward, in[0], in[1], attr);
          s.activation = static_cast<Activation>(attr.integer[2]);
          s.bias = in.size() > 2;
          return s;
        },
};

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

}  // namespace troupe::learner
