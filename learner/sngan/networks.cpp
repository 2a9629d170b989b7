#include <troupe/learner/sngan/networks.hpp>

#include <fmt/format.h>

#include <cmath>

#include <troupe/learner/ops/batch_norm.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/learner/ops/spectral_norm.hpp>

namespace troupe::learner::sngan {
namespace {

/// Glorot & Bengio 2010, Eq. 16: the reference implementation's initialiser.
Init glorot(std::int64_t in, std::int64_t out) { return Init::uniform(std::sqrt(6.0 / static_cast<double>(in + out))); }

}  // namespace

Var generator(Graph& graph, ParamGroup group, const Options& options, Var noise, const GeneratorMode& mode) {
  Var x = noise;
  std::int64_t width = options.noise_size, layer = 0;
  const auto param = [&](const char* name, const Shape& shape, Init init) {
    return graph.param(group, fmt::format("layer{}/{}", layer, name), shape, init);
  };
  for (const std::int64_t size : options.generator_sizes) {
    const auto state = [&](const char* name, double start) {
      return graph.state(fmt::format("{}/layer{}/{}", kGeneratorGroup, layer, name), Shape{size},
                         Init::constant(start));
    };
    // No bias: batch norm takes the mean away.
    const Var weight = param("weight", Shape{width, size}, glorot(width, size));
    const Var gain = param("gain", Shape{size}, Init::constant(1)), offset = param("offset", Shape{size}, {});
    const Var running_mean = state("mean", 0), running_variance = state("variance", 1);
    if (mode.all_sum && mode.shared) {  // averages over all replicas' rows
      mode.shared(running_mean);
      mode.shared(running_variance);
    }
    x = batch_norm(matmul(x, weight), gain, offset, running_mean, running_variance,
                   {.training = mode.training, .activation = Activation::kRelu, .all_sum = mode.all_sum});
    width = size;
    ++layer;
  }
  const std::int64_t pixels = options.image.elements();
  const Var weight = param("weight", Shape{width, pixels}, glorot(width, pixels));
  const Var image = linear(x, weight, param("bias", Shape{pixels}, {}), Activation::kTanh);
  return reshape(image, options.image.with_leading(graph.batch()));
}

Discriminator::Discriminator(Graph& graph, ParamGroup group, const Options& options, bool training)
    : pixels_(options.image.elements()) {
  std::int64_t width = pixels_;
  std::vector<std::int64_t> sizes = options.discriminator_sizes;
  sizes.push_back(1);
  for (const std::int64_t size : sizes) {
    const std::string name = fmt::format("layer{}", layers_.size());
    const Var weight = graph.param(group, name + "/weight", Shape{width, size}, glorot(width, size));
    const Var u = graph.state(fmt::format("{}/{}/u", kDiscriminatorGroup, name), Shape{size}, Init::normal(1));
    layers_.push_back({spectral_norm(weight, u, training), graph.param(group, name + "/bias", Shape{size}, {}), u});
    width = size;
  }
}

std::vector<Var> Discriminator::state() const {
  std::vector<Var> all;
  for (const Layer& layer : layers_) all.push_back(layer.u);
  return all;
}

Var Discriminator::operator()(Var image) const {
  if (!image) return {};
  Var x = reshape(image, Shape{image.graph->batch(), pixels_});
  for (const Layer& layer : layers_) {
    const bool head = &layer == &layers_.back();
    x = linear(x, layer.weight, layer.bias, head ? Activation::kNone : Activation::kLeakyRelu);
  }
  return x;
}

}  // namespace troupe::learner::sngan
