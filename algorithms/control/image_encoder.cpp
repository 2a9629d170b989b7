#include <troupe/algorithms/control/image_encoder.hpp>

#include <fmt/format.h>

#include <cmath>

#include <troupe/learner/ops/convolution.hpp>
#include <troupe/learner/ops/image.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/norm.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::control {
namespace {

constexpr int kConvolutions = 4;
/// The least side of an image of which four convolutions of 3x3, the first with stride 2, leave a pixel.
constexpr std::int64_t kLeastSide = 15;

}  // namespace

Status validate(const ImageEncoder& encoder, std::string_view where) {
  const Shape& pixels = encoder.pixels;
  if (pixels.rank() != 3 || pixels[0] < kLeastSide || pixels[1] < kLeastSide || pixels[2] < 1) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: got images of {}, expected [height, width, channels] of at least {}x{} pixels", where,
                             pixels.to_string(), kLeastSide, kLeastSide)};
  }
  const auto check = [where](std::string_view option, std::int64_t got, std::int64_t least) -> Status {
    if (got >= least) return {};
    return Error{Code::kInvalidArgument, fmt::format("{}: {} is {}, expected at least {}", where, option, got, least)};
  };
  TROUPE_TRY(check("filters", encoder.filters, 1));
  TROUPE_TRY(check("features", encoder.features, 1));
  return check("shift_padding", encoder.shift_padding, 0);
}

Var encode(Graph& graph, ParamGroup group, const ImageEncoder& encoder, Var pixels) {
  Var x = from_bytes(pixels, 1.0 / 255, -0.5);
  for (int i = 0; i < kConvolutions && x; ++i) {
    const std::int64_t channels = graph.spec(x).shape[3];
    const Var weight = graph.param(group, fmt::format("conv{}/weight", i), Shape{3, 3, channels, encoder.filters},
                                   Init::orthogonal(std::sqrt(2.0)));
    const Var bias = graph.param(group, fmt::format("conv{}/bias", i), Shape{encoder.filters}, Init::constant(0));
    x = conv2d(x, weight, bias, {.stride = i == 0 ? 2 : 1, .activation = Activation::kRelu});
  }
  return x ? reshape(x, Shape{graph.batch(), graph.spec(x).shape.elements() / graph.batch()}) : Var{};
}

Var trunk(Graph& graph, ParamGroup group, const ImageEncoder& encoder, Var seen) {
  if (!seen) return {};
  const Shape columns{encoder.features};
  const Var weight =
      graph.param(group, "trunk/weight", Shape{graph.spec(seen).shape[1], encoder.features}, Init::orthogonal(1));
  return layer_norm(matmul(seen, weight), graph.param(group, "trunk/bias", columns, Init::constant(0)),
                    graph.param(group, "trunk/gain", columns, Init::constant(1)),
                    graph.param(group, "trunk/offset", columns, Init::constant(0)), Activation::kTanh);
}

Signature image_transitions(const EnvironmentShape& shape, const ImageEncoder& encoder, bool importance_weights) {
  Signature signature = transitions(shape, importance_weights);
  for (TensorSpec& column : signature) {
    if (column.name == "observation") column = {"pixels", DType::kU8, encoder.pixels};
    if (column.name == "next_observation") column = {"next_pixels", DType::kU8, encoder.pixels};
  }
  return signature;
}

}  // namespace troupe::learner::control
