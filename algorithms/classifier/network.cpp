#include <troupe/algorithms/classifier/network.hpp>

#include <fmt/format.h>

#include <cmath>
#include <string>

#include <troupe/learner/ops/batch_norm.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::classifier {

Var network(Graph& graph, ParamGroup group, const Options& options, Var image, const NetworkMode& mode) {
  Var x = reshape(image, Shape{graph.batch(), options.features});
  std::int64_t width = options.features;
  const auto layers = static_cast<std::int64_t>(options.sizes.size()) + 1;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const DeviceScope stage(graph, static_cast<int>(layer * mode.devices / layers));
    const bool head = layer + 1 == layers;
    const std::int64_t size = head ? options.classes : options.sizes[static_cast<std::size_t>(layer)];
    const auto param = [&](const char* name, const Shape& shape, Init init) {
      return graph.param(group, fmt::format("layer{}/{}", layer, name), shape, init);
    };
    // He et al. 2015, Eq. 10 (fan in); the head has no ReLU behind it, so half of that variance.
    const double deviation = std::sqrt((head ? 1.0 : 2.0) / static_cast<double>(width));
    const Var weight = param("weight", Shape{width, size}, Init::normal(deviation));
    if (!head && options.batch_norm) {
      const Var gain = param("gain", Shape{size}, Init::constant(1)), offset = param("offset", Shape{size}, {});
      const auto running = running_statistics(graph, fmt::format("{}/layer{}", kGroup, layer), size, mode);
      x = batch_norm(matmul(x, weight), gain, offset, running.mean, running.variance,
                     {.training = mode.training, .activation = Activation::kRelu, .all_sum = mode.all_sum});
    } else {
      x = linear(x, weight, param("bias", Shape{size}, {}), head ? Activation::kNone : Activation::kRelu);
    }
    width = size;
  }
  return x;
}

void inference(Graph& graph, const Options& options) {
  ParamGroup group = graph.group(kGroup);
  if (options.average_decay > 0) group = graph.average(group, options.average_decay);
  const Var image = graph.input("image", Shape{options.features});
  graph.output("logits", network(graph, group, options, image, {.training = false}));
}

}  // namespace troupe::learner::classifier
