#pragma once
// Convolutions of images, [n, height, width, channels].
#include <troupe/learner/graph/op.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner {

struct ConvOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;  ///< zeros on each of the four sides
  Activation activation = Activation::kNone;
};

/// activation(x * weight + bias), the cross-correlation that neural networks call convolution, without dilation or
/// groups. x: [n, height, width, in], split by rows or replicated; weight: [kernel_h, kernel_w, in, out]; bias: [out],
/// or none. Returns [n, (height + 2 padding - kernel_h) / stride + 1, ..., out], rounded down. PyTorch's Conv2d with
/// another order of dimensions. Bias, ReLU and leaky ReLU cost no pass of their own. In a bfloat16 program images and
/// the weight are bfloat16, sums float32, and so is the gradient of the weight.
/// Errors: kShapeMismatch naming the shapes.
Var conv2d(Var x, Var weight, const ConvOptions& options = {});
Var conv2d(Var x, Var weight, Var bias, const ConvOptions& options = {});

// A 3x3 convolution next to a change of size by two is one with a 4x4 kernel of stride 2, made of sums of the 3x3 one's
// elements: the same numbers up to rounding in 4/9 of the work (Karras et al. 2018, arXiv 1710.10196, in its code).
// weight: [3, 3, in, out], and it is this that is learnt. Errors: kShapeMismatch.

/// conv2d(resize_nearest(x, 2 height, 2 width), weight, {.padding = 1}): [n, height, width, in] -> [n, 2 height,
/// 2 width, out].
Var upsampled_conv2d(Var x, Var weight);
/// average_pool(conv2d(x, weight, bias, {.padding = 1})): [n, height, width, in] -> [n, height / 2, width / 2, out].
Var downsampled_conv2d(Var x, Var weight, Var bias);

}  // namespace troupe::learner
