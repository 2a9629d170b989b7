#include <troupe/algorithms/classifier/network.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <troupe/learner/ops/batch_norm.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/learner/replicate/mesh.hpp>

namespace troupe::learner::classifier {

Var network(ReplicaContext& context, ParamGroup group, const Options& options, Var image, const NetworkMode& mode) {
  Graph& graph = context.graph();
  const auto layers = static_cast<std::int64_t>(options.sizes.size()) + 1;
  const auto size = [&](std::int64_t layer) { return options.sizes[static_cast<std::size_t>(layer)]; };
  const auto apply = [&](const MeshValue& x, std::int64_t layer) -> MeshValue {
    const std::string name = fmt::format("layer{}", layer);
    const bool head = layer + 1 == layers;
    const std::int64_t in = layer == 0 ? options.features : size(layer - 1), out = head ? options.classes : size(layer);
    // He et al. 2015, Eq. 10 (fan in), for ReLU; the head has none behind it, so half of that variance.
    const Init weight = Init::normal(std::sqrt((head ? 1.0 : 2.0) / static_cast<double>(in)));
    if (head || !options.batch_norm) {
      return mesh_linear(context, x,
                         {.group = group,
                          .name = name,
                          .out = out,
                          .activation = head ? Activation::kNone : options.activation,
                          .weight = weight,
                          .bias = {}},
                         options.layer_split);
    }
    const Var product = matmul(x.whole(), graph.param(group, name + "/weight", Shape{in, out}, weight));
    const Var gain = graph.param(group, name + "/gain", Shape{out}, Init::constant(1));
    const Var offset = graph.param(group, name + "/offset", Shape{out}, {});
    const auto running = running_statistics(graph, fmt::format("{}/{}", kGroup, name), out, mode);
    return batch_norm(product, gain, offset, running.mean, running.variance,
                      {.training = mode.training, .activation = options.activation, .all_sum = mode.all_sum});
  };

  const Var flat = reshape(image, Shape{graph.batch(), options.features});
  if (options.layer_split != Split::kNone) {
    MeshValue x = flat;
    for (std::int64_t layer = 0; layer < layers; ++layer) x = apply(x, layer);
    return x.whole();
  }
  std::vector<Stage> stages;
  for (std::int64_t device = 0; device < context.devices(); ++device) {
    stages.emplace_back([&, device](Var x) {
      for (std::int64_t layer = 0; layer < layers; ++layer) {
        if (layer * context.devices() / layers == device) x = apply(x, layer).whole();
      }
      return x;
    });
  }
  std::int64_t parts = mode.training ? std::min(options.pipeline_parts, graph.batch()) : 1;
  while (graph.batch() % parts != 0) --parts;
  return pipeline(context, flat, parts, stages);
}

void inference(Graph& graph, const Options& options) {
  ParamGroup group = graph.group(kGroup);
  if (options.average_decay > 0) group = graph.average(group, options.average_decay);
  const Var image = graph.input("image", Shape{options.features});
  ReplicaContext alone(graph, {.replica_batch = graph.batch(), .global_batch = graph.batch()}, nullptr);
  graph.output("logits", network(alone, group, options, image, {.training = false}));
}

}  // namespace troupe::learner::classifier
