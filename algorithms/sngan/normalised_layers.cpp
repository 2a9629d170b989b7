#include <troupe/algorithms/sngan/normalised_layers.hpp>

#include <fmt/format.h>

#include <cmath>

#include <troupe/algorithms/sngan/networks.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/learner/ops/spectral_norm.hpp>

namespace troupe::learner::sngan {

Init glorot(const Shape& weight, double gain) {
  const std::int64_t out = weight[weight.rank() - 1], in = weight[weight.rank() - 2];
  const auto fans = static_cast<double>(weight.elements() / (in * out) * (in + out));
  return Init::uniform(gain * std::sqrt(6 / fans));
}

Var NormalisedLayers::normalised(const std::string& name, const Shape& weight, double gain) {
  const std::int64_t out = weight[weight.rank() - 1];
  const Var raw = graph_.param(group_, name + "/weight", weight, glorot(weight, gain));
  const Var u = graph_.state(fmt::format("{}/{}/u", kDiscriminatorGroup, name), Shape{out}, Init::normal(1));
  state_.push_back(u);
  if (weight.rank() == 2) return spectral_norm(raw, u, training_);
  return reshape(spectral_norm(reshape(raw, Shape{weight.elements() / out, out}), u, training_), weight);
}

NormalisedLayers::Layer NormalisedLayers::at(const std::string& name, const Shape& weight, double gain) {
  const auto found = layers_.find(name);
  if (found != layers_.end()) return found->second;
  const Var of_group = normalised(name, weight, gain);
  const Var bias = graph_.param(group_, name + "/bias", Shape{weight[weight.rank() - 1]}, {});
  return layers_[name] = {of_group, bias};
}

Var NormalisedLayers::table(const std::string& name, const Shape& weight) {
  const auto found = layers_.find(name);
  if (found != layers_.end()) return found->second.weight;
  return (layers_[name] = {normalised(name, weight, 1), {}}).weight;
}

}  // namespace troupe::learner::sngan
