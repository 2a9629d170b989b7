#include <troupe/algorithms/sngan/networks.hpp>

#include <fmt/format.h>

#include <troupe/algorithms/sngan/resnet.hpp>
#include <troupe/learner/ops/batch_norm.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::sngan {
namespace {

Var mlp_generator(Graph& graph, ParamGroup group, const Options& options, Var noise, const NetworkMode& mode) {
  Var x = noise;
  std::int64_t width = options.noise_size, layer = 0;
  const auto param = [&](const char* name, const Shape& shape, Init init) {
    return graph.param(group, fmt::format("layer{}/{}", layer, name), shape, init);
  };
  for (const std::int64_t size : options.generator_sizes) {
    // No bias: batch norm takes the mean away.
    const Var weight = param("weight", Shape{width, size}, glorot({width, size}));
    const Var gain = param("gain", Shape{size}, Init::constant(1)), offset = param("offset", Shape{size}, {});
    const auto running = running_statistics(graph, fmt::format("{}/layer{}", kGeneratorGroup, layer), size, mode);
    x = batch_norm(matmul(x, weight), gain, offset, running.mean, running.variance,
                   {.training = mode.training, .activation = options.generator_activation, .all_sum = mode.all_sum});
    width = size;
    ++layer;
  }
  const std::int64_t pixels = options.image.elements();
  const Var weight = param("weight", Shape{width, pixels}, glorot({width, pixels}));
  const Var image = linear(x, weight, param("bias", Shape{pixels}, {}), Activation::kTanh);
  return reshape(image, options.image.with_leading(graph.batch()));
}

Var mlp_discriminator(NormalisedLayers& layers, const Options& options, Var image) {
  std::int64_t width = options.image.elements();
  Var x = image ? reshape(image, Shape{image.graph->batch(), width}) : Var{};
  for (std::size_t i = 0; i <= options.discriminator_sizes.size(); ++i) {
    const bool head = i == options.discriminator_sizes.size();
    const std::int64_t size = head ? 1 : options.discriminator_sizes[i];
    const auto [weight, bias] = layers.at(fmt::format("layer{}", i), {width, size});
    x = linear(x, weight, bias, head ? Activation::kNone : options.discriminator_activation);
    width = size;
  }
  return x;
}

}  // namespace

Var generator(Graph& graph, ParamGroup group, const Options& options, Var noise, Var label, const NetworkMode& mode) {
  if (options.network == Network::kMlp) return mlp_generator(graph, group, options, noise, mode);
  return resnet_generator(graph, group, options, noise, label, mode);
}

void inference(Graph& graph, const Options& options) {
  ParamGroup group = graph.group(kGeneratorGroup);
  if (options.average_decay > 0) group = graph.average(group, options.average_decay);
  const Var noise = graph.input("noise", Shape{options.noise_size});
  const Var label = options.classes > 0 ? graph.input("label", Shape{}, DType::kI32) : Var{};
  graph.output("image", generator(graph, group, options, noise, label, {.training = false}));
}

Var discriminator(NormalisedLayers& layers, const Options& options, Var image, Var label) {
  if (options.network == Network::kMlp) return mlp_discriminator(layers, options, image);
  return resnet_discriminator(layers, options, image, label);
}

}  // namespace troupe::learner::sngan
