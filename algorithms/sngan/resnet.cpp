#include <troupe/algorithms/sngan/resnet.hpp>

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <string>

#include <troupe/learner/ops/batch_norm.hpp>
#include <troupe/learner/ops/convolution.hpp>
#include <troupe/learner/ops/embedding.hpp>
#include <troupe/learner/ops/image.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/pooling.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/resize.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::sngan {
namespace {

constexpr double kBeforeRelu = std::numbers::sqrt2;

/// Makes the generator's layers under their names.
class GeneratorLayers {
 public:
  GeneratorLayers(Graph& graph, ParamGroup group, const Options& options, Var label, const NetworkMode& mode)
      : graph_(graph), group_(group), options_(options), label_(label), mode_(mode) {}

  Var param(const std::string& name, const Shape& shape, Init init) { return graph_.param(group_, name, shape, init); }

  Var convolution(const std::string& name, Var x, std::int64_t in, std::int64_t out, std::int64_t kernel, double gain,
                  Activation kind = Activation::kNone) {
    const Shape shape = {kernel, kernel, in, out};
    return conv2d(x, param(name + "/weight", shape, glorot(shape, gain)), param(name + "/bias", Shape{out}, {}),
                  {.padding = kernel / 2, .activation = kind});
  }

  /// ReLU behind it.
  Var norm(const std::string& name, Var x, std::int64_t channels) {
    const auto running = running_statistics(graph_, fmt::format("{}/{}", kGeneratorGroup, name), channels, mode_);
    BatchNormOptions how = {.training = mode_.training, .all_sum = mode_.all_sum};
    if (options_.classes == 0) {
      how.activation = Activation::kRelu;
      return batch_norm(x, param(name + "/gain", Shape{channels}, Init::constant(1)),
                        param(name + "/offset", Shape{channels}, {}), running.mean, running.variance, how);
    }
    const auto constant = [&](float value) {
      return graph_.constant(Shape{channels}, std::vector<float>(static_cast<std::size_t>(channels), value));
    };
    const Shape table = {options_.classes, channels};
    const Var gain = embedding(param(name + "/gain", table, Init::constant(1)), label_);
    const Var offset = embedding(param(name + "/offset", table, {}), label_);
    return modulate(batch_norm(x, constant(1), constant(0), running.mean, running.variance, how), gain, offset,
                    Activation::kRelu);
  }

  /// Twice the size: conv1(relu(norm1(conv0(up(relu(norm0(x))))))) + up(shortcut(x)).
  Var block(const std::string& name, Var x, std::int64_t in, std::int64_t out, std::int64_t side) {
    const Shape kernel = {3, 3, in, out};
    Var h = upsampled_conv2d(norm(name + "/norm0", x, in),
                             param(name + "/conv0/weight", kernel, glorot(kernel, kBeforeRelu)));
    h = bias_activation(h, param(name + "/conv0/bias", Shape{out}, {}));
    h = convolution(name + "/conv1", norm(name + "/norm1", h, out), out, out, 3, kBeforeRelu);
    return add(h, resize_nearest(convolution(name + "/shortcut", x, in, out, 1, 1), 2 * side, 2 * side));
  }

 private:
  Graph& graph_;
  ParamGroup group_;
  const Options& options_;
  Var label_;
  const NetworkMode& mode_;
};

Var convolution(NormalisedLayers& layers, const std::string& name, Var x, std::int64_t in, std::int64_t out,
                std::int64_t kernel, Activation kind = Activation::kNone) {
  const auto [weight, bias] = layers.at(name, {kernel, kernel, in, out}, kernel == 1 ? 1 : kBeforeRelu);
  return conv2d(x, weight, bias, {.padding = kernel / 2, .activation = kind});
}

}  // namespace

Result<ResnetPlan> resnet_plan(const Options& options) {
  ResnetPlan plan;
  const std::int64_t side = options.image[0];
  std::int64_t doublings = 0;
  for (plan.bottom = side; plan.bottom > 7 && plan.bottom % 2 == 0; plan.bottom /= 2) ++doublings;
  if (options.image[1] != side || doublings == 0 || plan.bottom < 4 || plan.bottom > 7) {
    return Error{Code::kInvalidArgument,
                 fmt::format("sngan: images of {} x {}, expected a square whose side is 4 to 7 times a power of two, "
                             "such as 28, 32, 64 or 128",
                             side, options.image[1])};
  }
  const std::int64_t g = options.generator_width, d = options.discriminator_width;
  if (side <= 32) {
    plan.generator.assign(static_cast<std::size_t>(doublings) + 1, g);
    plan.discriminator.assign(4, d);
    plan.halvings = std::min<std::int64_t>(doublings, 2);
  } else {
    // 64: 16 8 4 2 1 and 1 2 4 8 16; 128: 16 16 8 4 2 1 and 1 2 4 8 16 16, the last of the same size.
    for (std::int64_t i = 0; i <= doublings; ++i) {
      plan.generator.push_back(g * std::min<std::int64_t>(16, std::int64_t{1} << (doublings - i)));
      plan.discriminator.push_back(d * std::min<std::int64_t>(16, std::int64_t{1} << i));
    }
    plan.halvings = 5;
  }
  return plan;
}

Var resnet_generator(Graph& graph, ParamGroup group, const Options& options, Var noise, Var label,
                     const NetworkMode& mode) {
  const Result<ResnetPlan> plan = resnet_plan(options);
  if (!plan.ok()) return graph.fail(plan.error().code, plan.error().message);
  GeneratorLayers layers(graph, group, options, label, mode);
  std::int64_t side = plan->bottom, width = plan->generator[0];
  const Shape first = {options.noise_size, side * side * width};
  Var x = linear(noise, layers.param("input/weight", first, glorot(first)),
                 layers.param("input/bias", Shape{first[1]}, {}));
  x = reshape(x, Shape{graph.batch(), side, side, width});
  for (std::size_t i = 1; i < plan->generator.size(); ++i) {
    x = layers.block(fmt::format("block{}", i - 1), x, width, plan->generator[i], side);
    width = plan->generator[i];
    side *= 2;
  }
  return layers.convolution("output", layers.norm("norm", x, width), width, options.image[2], 3, 1, Activation::kTanh);
}

Var resnet_discriminator(NormalisedLayers& layers, const Options& options, Var image, Var label) {
  if (!image) return {};
  const Result<ResnetPlan> plan = resnet_plan(options);
  if (!plan.ok()) return image.graph->fail(plan.error().code, plan.error().message);
  Var x = image;
  std::int64_t width = options.image[2];
  for (std::size_t i = 0; i < plan->discriminator.size(); ++i) {
    const std::string name = fmt::format("block{}", i);
    const std::int64_t out = plan->discriminator[i];
    const bool halves = static_cast<std::int64_t>(i) < plan->halvings;
    const auto half = [&](Var h) { return halves ? average_pool(h) : h; };
    // The first block sees pixels, which are not activated before it; the others keep as many channels within.
    const std::int64_t within = i == 0 ? out : width;
    Var h = convolution(layers, name + "/conv0", i == 0 ? x : relu(x), width, within, 3, Activation::kRelu);
    if (halves) {
      const auto [weight, bias] = layers.at(name + "/conv1", {3, 3, within, out}, kBeforeRelu);
      h = downsampled_conv2d(h, weight, bias);
    } else {
      h = convolution(layers, name + "/conv1", h, within, out, 3);
    }
    const bool same = !halves && width == out;
    const Var shortcut = same ? x : convolution(layers, name + "/shortcut", half(x), width, out, 1);
    const bool last = i + 1 == plan->discriminator.size();
    x = last ? add_activation(h, shortcut, Activation::kRelu) : add(h, shortcut);
    width = out;
  }
  const Var seen = global_sum(x);
  const auto [weight, bias] = layers.at("output", {width, 1});
  const Var logits = linear(seen, weight, bias);
  if (options.classes == 0) return logits;
  const Var direction = embedding(layers.table("embedding", {options.classes, width}), label);
  return add(logits, reshape(sum_last(mul(direction, seen)), Shape{image.graph->batch(), 1}));
}

}  // namespace troupe::learner::sngan
