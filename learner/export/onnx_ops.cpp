#include <troupe/learner/export/onnx_ops.hpp>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner {
namespace {

using Ints = std::vector<std::int64_t>;

std::string activate(OnnxBuilder& to, std::string x, std::int64_t kind) {
  switch (static_cast<Activation>(kind)) {
    case Activation::kNone:
      return x;
    case Activation::kTanh:
      return to.node("Tanh", {x});
    case Activation::kElu:
      return to.node("Elu", {x}, {{"alpha", 1.0F}});
    case Activation::kRelu:
      return to.node("Relu", {x});
    case Activation::kSigmoid:
      return to.node("Sigmoid", {x});
    case Activation::kLeakyRelu:
      return to.node("LeakyRelu", {x}, {{"alpha", 0.1F}});
  }
  return x;
}

std::string same(const OnnxNode& n) { return n.in[0]; }

template <int kKind>  // where the activation's kind stands in Attr::integer
std::string bias_activation(const OnnxNode& n) {
  const std::string sum = n.in.size() == 2 ? n.to.node("Add", {n.in[0], n.in[1]}) : n.in[0];
  return activate(n.to, sum, n.attr.integer[kKind]);
}

std::string linear(const OnnxNode& n) {
  return activate(n.to, n.to.node("Gemm", {n.in[0], n.in[1], n.in[2]}), n.attr.integer[0]);
}

std::string matmul(const OnnxNode& n) {
  return n.to.node("Gemm", {n.in[0], n.in[1]}, {{"transA", n.attr.integer[0]}, {"transB", n.attr.integer[1]}});
}

std::string layer_norm(const OnnxNode& n) {
  const std::string biased = n.to.node("Add", {n.in[0], n.in[1]});
  const std::string y = n.to.node("LayerNormalization", {biased, n.in[2], n.in[3]},
                                  {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(n.attr.real[0])}});
  return activate(n.to, y, n.attr.integer[0]);
}

/// 1 / sqrt(x + epsilon): of batch norm's running variance.
std::string inverse_root(const OnnxNode& n) {
  const std::string sum = n.to.node("Add", {n.in[0], n.to.scalar(n.attr.real[0])});
  return n.to.node("Reciprocal", {n.to.node("Sqrt", {sum})});
}

/// x, mean, 1 / standard deviation, gain, offset. What stands in columns alone is folded by runtimes.
std::string normalise(const OnnxNode& n) {
  const std::string scale = n.to.node("Mul", {n.in[2], n.in[3]});
  const std::string centred = n.to.node("Sub", {n.in[0], n.in[1]});
  const std::string y = n.to.node("Add", {n.to.node("Mul", {centred, scale}), n.in[4]});
  return activate(n.to, y, n.attr.integer[0]);
}

std::string add(const OnnxNode& n) { return n.to.node("Add", {n.in[0], n.in[1]}); }
std::string sub(const OnnxNode& n) { return n.to.node("Sub", {n.in[0], n.in[1]}); }
std::string mul(const OnnxNode& n) {
  const std::string product = n.to.node("Mul", {n.in[0], n.in[1]});
  return n.attr.real[0] == 1 ? product : n.to.node("Mul", {product, n.to.scalar(n.attr.real[0])});
}
std::string affine(const OnnxNode& n) {
  const std::string scaled = n.to.node("Mul", {n.in[0], n.to.scalar(n.attr.real[0])});
  return n.attr.real[1] == 0 ? scaled : n.to.node("Add", {scaled, n.to.scalar(n.attr.real[1])});
}
std::string clip(const OnnxNode& n) {
  return n.to.node("Clip", {n.in[0], n.to.scalar(n.attr.real[0]), n.to.scalar(n.attr.real[1])});
}

std::string softmax(const OnnxNode& n) { return n.to.node("Softmax", {n.in[0]}, {{"axis", std::int64_t{-1}}}); }
std::string log_softmax(const OnnxNode& n) { return n.to.node("LogSoftmax", {n.in[0]}, {{"axis", std::int64_t{-1}}}); }

// Images are [n, height, width, channels] here and [n, channels, height, width] in ONNX.
std::string to_nchw(OnnxBuilder& to, const std::string& x) {
  return to.node("Transpose", {x}, {{"perm", Ints{0, 3, 1, 2}}});
}
std::string to_nhwc(OnnxBuilder& to, const std::string& x) {
  return to.node("Transpose", {x}, {{"perm", Ints{0, 2, 3, 1}}});
}

/// x, weight [kernel_h, kernel_w, in, out], bias or none; integer: stride, padding, activation.
std::string conv2d(const OnnxNode& n) {
  const std::int64_t stride = n.attr.integer[0], padding = n.attr.integer[1];
  std::vector<std::string> in = {to_nchw(n.to, n.in[0]),
                                 n.to.node("Transpose", {n.in[1]}, {{"perm", Ints{3, 2, 0, 1}}})};
  if (n.in.size() > 2) in.push_back(n.in[2]);
  const std::string y = n.to.node(
      "Conv", std::move(in), {{"strides", Ints{stride, stride}}, {"pads", Ints{padding, padding, padding, padding}}});
  return to_nhwc(n.to, activate(n.to, y, n.attr.integer[2]));
}

/// y, weight [kernel_h, kernel_w, in, out]; integer: stride, padding; shape: of the result. The transposed convolution.
std::string conv2d_input_grad(const OnnxNode& n) {
  const std::int64_t stride = n.attr.integer[0], padding = n.attr.integer[1];
  Ints more;  // rows and columns that no window of the convolution begins in
  for (const int axis : {0, 1}) {
    const std::int64_t windows = n.in_specs[0].shape[axis + 1] - 1, kernel = n.in_specs[1].shape[axis];
    more.push_back(n.attr.shape[axis + 1] - (windows * stride + kernel - 2 * padding));
  }
  const std::string weight = n.to.node("Transpose", {n.in[1]}, {{"perm", Ints{3, 2, 0, 1}}});
  return to_nhwc(n.to, n.to.node("ConvTranspose", {to_nchw(n.to, n.in[0]), weight},
                                 {{"strides", Ints{stride, stride}},
                                  {"pads", Ints{padding, padding, padding, padding}},
                                  {"output_padding", more}}));
}
/// weight [3, 3, in, out] -> [4, 4, in, out]: the sum of its four places in there; integer[0]: for a transposed
/// convolution, mirrored and with in and out exchanged; real[0]: factor. Runtimes fold it.
std::string box_kernel(const OnnxNode& n) {
  std::vector<std::string> places;
  for (const std::int64_t down : {0, 1}) {
    for (const std::int64_t right : {0, 1}) {
      places.push_back(n.to.node("Pad", {n.in[0], n.to.ints({down, right, 0, 0, 1 - down, 1 - right, 0, 0})}));
    }
  }
  std::string kernel = n.to.node("Sum", std::move(places));
  if (n.attr.real[0] != 1) kernel = n.to.node("Mul", {kernel, n.to.scalar(n.attr.real[0])});
  if (n.attr.integer[0] == 0) return kernel;
  kernel = n.to.node("Slice", {kernel, n.to.ints({3, 3}), n.to.ints({-5, -5}), n.to.ints({0, 1}), n.to.ints({-1, -1})});
  return n.to.node("Transpose", {kernel}, {{"perm", Ints{0, 1, 3, 2}}});
}

/// integer: h, w, kernel, stride, padding.
std::string pool(const OnnxNode& n, std::string_view op, std::vector<OnnxAttribute> more) {
  const std::int64_t kernel = n.attr.integer[2], stride = n.attr.integer[3], padding = n.attr.integer[4];
  more.push_back({"kernel_shape", Ints{kernel, kernel}});
  more.push_back({"strides", Ints{stride, stride}});
  more.push_back({"pads", Ints{padding, padding, padding, padding}});
  return to_nhwc(n.to, n.to.node(op, {to_nchw(n.to, n.in[0])}, std::move(more)));
}
std::string average_pool(const OnnxNode& n) { return pool(n, "AveragePool", {{"count_include_pad", std::int64_t{1}}}); }
std::string max_pool(const OnnxNode& n) { return pool(n, "MaxPool", {}); }
/// real: factor.
std::string global_sum(const OnnxNode& n) {
  const std::string sum = n.to.node("ReduceSum", {n.in[0], n.to.ints({1, 2})}, {{"keepdims", std::int64_t{0}}});
  return n.attr.real[0] == 1 ? sum : n.to.node("Mul", {sum, n.to.scalar(n.attr.real[0])});
}

/// integer: h, w, height, width. Row floor(i * h / height) of rows, then columns: whole numbers, unlike Resize.
std::string resize_nearest(const OnnxNode& n) {
  std::string x = n.in[0];
  for (const std::size_t axis : {0, 1}) {
    const std::int64_t from = n.attr.integer[axis], to = n.attr.integer[2 + axis];
    Ints rows(static_cast<std::size_t>(to));
    for (std::int64_t i = 0; i < to; ++i) rows[static_cast<std::size_t>(i)] = i * from / to;
    x = n.to.node("Gather", {x, n.to.ints(rows)}, {{"axis", static_cast<std::int64_t>(axis) + 1}});
  }
  return x;
}
std::string resize_bilinear(const OnnxNode& n) {
  const std::string sizes = n.to.ints({n.attr.integer[2], n.attr.integer[3]});
  return to_nhwc(n.to, n.to.node("Resize", {to_nchw(n.to, n.in[0]), "", "", sizes},
                                 {{"axes", Ints{2, 3}},
                                  {"mode", std::string("linear")},
                                  {"coordinate_transformation_mode", std::string("half_pixel")}}));
}

std::string add_activation(const OnnxNode& n) {
  return activate(n.to, n.to.node("Add", {n.in[0], n.in[1]}), n.attr.integer[0]);
}
/// x [n, ..., c], gain and offset [n, c].
std::string modulate(const OnnxNode& n) {
  Ints between;
  for (int axis = 1; axis + 1 < n.out.shape.rank(); ++axis) between.push_back(axis);
  const auto spread = [&](const std::string& columns) {
    return between.empty() ? columns : n.to.node("Unsqueeze", {columns, n.to.ints(between)});
  };
  const std::string scaled = n.to.node("Mul", {n.in[0], spread(n.in[1])});
  return activate(n.to, n.to.node("Add", {scaled, spread(n.in[2])}), n.attr.integer[0]);
}

std::string embedding(const OnnxNode& n) { return n.to.node("Gather", {n.in[0], n.in[1]}); }
std::string concat(const OnnxNode& n) { return n.to.node("Concat", {n.in[0], n.in[1]}, {{"axis", std::int64_t{-1}}}); }
std::string slice(const OnnxNode& n) {
  return n.to.node("Slice", {n.in[0], n.to.ints({n.attr.integer[0]}), n.to.ints({n.attr.integer[1]}), n.to.ints({-1})});
}
std::string reshape(const OnnxNode& n) {
  if (n.in_specs[0].shape == n.out.shape) return n.in[0];
  Ints dims(n.out.shape.dims().begin(), n.out.shape.dims().end());
  if (n.out.place == Place::kRows) dims[0] = -1;  // a multiple of the batch
  return n.to.node("Reshape", {n.in[0], n.to.ints(dims)});
}
std::string sum_last(const OnnxNode& n) {
  return n.to.node("ReduceSum", {n.in[0], n.to.ints({-1})}, {{"keepdims", std::int64_t{0}}});
}

template <const char* kOp>
std::string same_op(const OnnxNode& n) {
  return n.to.node(kOp, {n.in.begin(), n.in.end()});
}
constexpr char kAbs[] = "Abs", kDiv[] = "Div", kExp[] = "Exp", kLog[] = "Log", kMax[] = "Max", kMin[] = "Min",
               kSoftplus[] = "Softplus", kSqrt[] = "Sqrt";

enum : std::int64_t { kOnnxFloat = 1, kOnnxInt64 = 7, kOnnxBool = 9 };  // TensorProto.DataType
std::string from_bytes(const OnnxNode& n) {
  const std::string real = n.to.node("Cast", {n.in[0]}, {{"to", std::int64_t{kOnnxFloat}}});
  const std::string scaled = n.attr.real[0] == 1 ? real : n.to.node("Mul", {real, n.to.scalar(n.attr.real[0])});
  return n.attr.real[1] == 0 ? scaled : n.to.node("Add", {scaled, n.to.scalar(n.attr.real[1])});
}
std::string greater(const OnnxNode& n) {
  return n.to.node("Cast", {n.to.node("Greater", {n.in[0], n.in[1]})}, {{"to", std::int64_t{kOnnxFloat}}});
}
std::string where(const OnnxNode& n) {
  return n.to.node("Where", {n.to.node("Cast", {n.in[0]}, {{"to", std::int64_t{kOnnxBool}}}), n.in[1], n.in[2]});
}
std::string gather(const OnnxNode& n) {
  const std::int64_t items = n.in_specs[1].shape.rank();
  const std::string index = n.to.node("Cast", {n.in[1]}, {{"to", std::int64_t{kOnnxInt64}}});
  return n.to.node("GatherND", {n.in[0], n.to.node("Unsqueeze", {index, n.to.ints({items})})}, {{"batch_dims", items}});
}
/// A dimension of 1 stays as long as it is in Expand, so rows need not be known; those of a parameter are the batch's.
std::string broadcast(const OnnxNode& n) {
  Ints dims(n.out.shape.dims().begin(), n.out.shape.dims().end());
  if (n.out.place != Place::kRows) return n.to.node("Expand", {n.in[0], n.to.ints(dims)});
  dims[0] = 1;
  const std::string rest = n.to.node("Expand", {n.in[0], n.to.ints(dims)});
  if (n.in_specs[0].place == Place::kRows) return rest;
  Ints ones(dims.size() - 1, 1);
  const std::string sizes =
      ones.empty() ? n.to.batch_size()
                   : n.to.node("Concat", {n.to.batch_size(), n.to.ints(ones)}, {{"axis", std::int64_t{0}}});
  return n.to.node("Expand", {rest, sizes});
}
std::string sum_to(const OnnxNode& n) {
  const Shape& whole = n.in_specs[0].shape;
  const int missing = whole.rank() - n.out.shape.rank();
  Ints kept, gone;
  for (int d = 0; d < whole.rank(); ++d) {
    if (d < missing) {
      gone.push_back(d);
    } else if (n.out.shape[d - missing] == 1 && whole[d] != 1) {
      kept.push_back(d);
    }
  }
  std::string x = n.in[0];
  if (!kept.empty()) x = n.to.node("ReduceSum", {x, n.to.ints(kept)}, {{"keepdims", std::int64_t{1}}});
  if (!gone.empty()) x = n.to.node("ReduceSum", {x, n.to.ints(gone)}, {{"keepdims", std::int64_t{0}}});
  return x;
}
std::string log_sum_exp(const OnnxNode& n) {
  return n.to.node("ReduceLogSumExp", {n.in[0], n.to.ints({-1})}, {{"keepdims", std::int64_t{0}}});
}

// By name of the op, in alphabetical order.
constexpr auto kRules = std::to_array<std::pair<std::string_view, OnnxRule>>({
    {"abs", same_op<kAbs>},
    {"activation", bias_activation<0>},
    {"add", add},
    {"add_activation", add_activation},
    {"affine", affine},
    {"average_pool", average_pool},
    {"bias_activation", bias_activation<0>},
    {"box_kernel", box_kernel},
    {"broadcast", broadcast},
    {"clip", clip},
    {"clip_gradient_by_row_norm", same},
    {"concat", concat},
    {"conv2d", conv2d},
    {"conv2d_input_grad", conv2d_input_grad},
    {"div", same_op<kDiv>},
    {"embedding", embedding},
    {"exp", same_op<kExp>},
    {"from_bytes", from_bytes},
    {"gather", gather},
    {"global_sum", global_sum},
    {"greater", greater},
    {"inverse_root", inverse_root},
    {"layer_norm", layer_norm},
    {"linear", linear},
    {"log", same_op<kLog>},
    {"log_softmax", log_softmax},
    {"log_sum_exp", log_sum_exp},
    {"matmul", matmul},
    {"max_pool", max_pool},
    {"maximum", same_op<kMax>},
    {"minimum", same_op<kMin>},
    {"modulate", modulate},
    {"mul", mul},
    {"normalise", normalise},
    {"reshape", reshape},
    {"resize_bilinear", resize_bilinear},
    {"resize_nearest", resize_nearest},
    {"slice", slice},
    {"softmax", softmax},
    {"softplus", same_op<kSoftplus>},
    {"sqrt", same_op<kSqrt>},
    {"stop_gradient", same},
    {"sub", sub},
    {"sum_last", sum_last},
    {"sum_to", sum_to},
    {"where", where},
});

}  // namespace

OnnxRule onnx_rule(std::string_view name) {
  const auto* const found = std::ranges::find(kRules, name, [](const auto& rule) { return rule.first; });
  return found == kRules.end() ? nullptr : found->second;
}

}  // namespace troupe::learner
