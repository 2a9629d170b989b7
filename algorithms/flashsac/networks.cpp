#include <troupe/algorithms/flashsac/networks.hpp>

#include <fmt/format.h>

#include <cmath>

#include <troupe/learner/ops/batch_norm.hpp>
#include <troupe/learner/ops/choice.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/norm.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::flashsac {
namespace {

constexpr double kLeastLogStddev = -10, kGreatestLogStddev = 2;
constexpr std::int64_t kExpansion = 4;

class Layers {
 public:
  Layers(Graph& graph, const Applied& applied, const Options& options, std::string prefix)
      : graph_(graph), applied_(applied), options_(options), prefix_(std::move(prefix)) {}

  /// What a head reads.
  Var features(const NetworkSize& size, Var x) {
    x = unit_linear("embed", size.width, norm("embed/norm", Activation::kNone, x));
    for (std::int64_t block = 0; block < size.blocks; ++block) {
      const std::string name = fmt::format("block{}", block);
      Var inner = norm(name + "/norm1", Activation::kRelu, unit_linear(name + "/wide", kExpansion * size.width, x));
      inner = norm(name + "/norm2", Activation::kRelu, unit_linear(name + "/narrow", size.width, inner));
      x = add(inner, x);
    }
    const Var gain = param("norm/gain", Shape{size.width}, Init::constant(1));
    graph_.keep_length({gain}, LengthOf::kAll, std::sqrt(static_cast<double>(size.width)));
    return rms_norm(x, gain);
  }

  Var head(const std::string& name, std::int64_t size, Activation kind, Var x) {
    if (!x) return {};
    const Var weight = unit_weight(name, size, x);
    return linear(x, weight, param(name + "/bias", Shape{size}, Init::constant(0)), kind);
  }

 private:
  Var param(const std::string& name, const Shape& shape, Init init) {
    return graph_.param(applied_.group, prefix_ + name, shape, init);
  }

  Var unit_weight(const std::string& name, std::int64_t size, Var x) {
    const Var weight = param(name + "/weight", Shape{graph_.spec(x).shape[1], size}, Init::orthogonal(1));
    graph_.keep_length({weight}, LengthOf::kColumns);
    return weight;
  }
  Var unit_linear(const std::string& name, std::int64_t size, Var x) {
    return x ? matmul(x, unit_weight(name, size, x)) : Var{};
  }

  Var norm(const std::string& name, Activation kind, Var x) {
    if (!x) return {};
    const std::int64_t n = graph_.spec(x).shape[1];
    const Var gain = param(name + "/gain", Shape{n}, Init::constant(1));
    const Var offset = param(name + "/offset", Shape{n}, Init::constant(0));
    graph_.keep_length({gain, offset}, LengthOf::kAll, std::sqrt(static_cast<double>(n)));
    const NetworkMode& mode = applied_.mode;
    const RunningStatistics running =
        running_statistics(graph_, fmt::format("{}/{}{}", applied_.states, prefix_, name), n, mode);
    const Var y = batch_norm(
        x, gain, offset, running.mean, running.variance,
        {.training = mode.training, .momentum = options_.norm_momentum, .activation = kind, .all_sum = mode.all_sum});
    if (mode.training && applied_.moves) {
      for (const Var state : {running.mean, running.variance}) {
        graph_.assign(state, where(applied_.moves, graph_.latest(state), state));
      }
    }
    return y;
  }

  Graph& graph_;
  const Applied& applied_;
  const Options& options_;
  std::string prefix_;
};

}  // namespace

control::Gaussian policy_network(Graph& graph, const Applied& applied, const Options& options, Var observation) {
  Layers layers(graph, applied, options, "");
  const std::int64_t size = options.environment.action_size();
  const Var features = layers.features(options.policy, observation);
  constexpr double kHalfRange = (kGreatestLogStddev - kLeastLogStddev) / 2;
  const Var raw = layers.head("log_stddev", size, Activation::kTanh, features);
  return {layers.head("mean", size, Activation::kNone, features),
          affine(raw, kHalfRange, kLeastLogStddev + kHalfRange)};
}

TwinLogits twin_critics(Graph& graph, const Applied& applied, const Options& options, Var observation, Var action) {
  const Var input = concat(observation, action);
  const auto logits = [&](const char* name) {
    Layers layers(graph, applied, options, fmt::format("{}/", name));
    return layers.head("value", options.support.count, Activation::kNone, layers.features(options.critic, input));
  };
  const Var first = logits("first");
  const DeviceScope second_device(graph, graph.device() + 1);
  return {first, logits("second")};
}

}  // namespace troupe::learner::flashsac
