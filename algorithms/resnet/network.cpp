#include <troupe/algorithms/resnet/network.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include <troupe/learner/ops/batch_norm.hpp>
#include <troupe/learner/ops/convolution.hpp>
#include <troupe/learner/ops/image.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/pooling.hpp>
#include <troupe/learner/ops/shaping.hpp>

namespace troupe::learner::resnet {
namespace {

constexpr std::int64_t kBottleneckExpansion = 4;

class Builder {
 public:
  Builder(Graph& graph, ParamGroup group, const Options& options, const NetworkMode& mode)
      : graph_(graph), group_(group), options_(options), mode_(mode) {}

  Var stem(Var image) {
    if (!options_.imagenet) {
      return convolve("stem", image, {.kernel = 3, .out = options_.filters, .activation = Activation::kRelu});
    }
    const Var x =
        convolve("stem", image, {.kernel = 7, .stride = 2, .out = options_.filters, .activation = Activation::kRelu});
    return max_pool(x, {.kernel = 3, .stride = 2, .padding = 1});
  }

  Var block(const std::string& name, Var x, std::int64_t filters, std::int64_t stride) {
    const auto relu = Activation::kRelu;
    Var y;
    std::int64_t out = filters;
    if (options_.block == Block::kBottleneck) {
      out *= kBottleneckExpansion;
      const bool first = options_.variant == Variant::kV1;
      y = convolve(name + "/conv1", x, {.kernel = 1, .stride = first ? stride : 1, .out = filters, .activation = relu});
      y = convolve(name + "/conv2", y, {.kernel = 3, .stride = first ? 1 : stride, .out = filters, .activation = relu});
      y = convolve(name + "/conv3", y, {.kernel = 1, .out = out, .last = true});
    } else {
      y = convolve(name + "/conv1", x, {.kernel = 3, .stride = stride, .out = out, .activation = relu});
      y = convolve(name + "/conv2", y, {.kernel = 3, .out = out, .last = true});
    }
    return add_activation(y, shortcut(name, x, out, stride), relu);
  }

  Var head(Var x) {
    const Var mean = global_mean(x);
    if (!mean) return {};
    const std::int64_t width = graph_.spec(mean).shape[1];
    const Var weight = graph_.param(group_, "head/weight", Shape{width, options_.classes}, Init::normal(0.01));
    const Var bias = graph_.param(group_, "head/bias", Shape{options_.classes}, {});
    graph_.exempt_from_decay(bias);
    return linear(mean, weight, bias);
  }

 private:
  struct Convolution {
    std::int64_t kernel, stride = 1, out;
    Activation activation = Activation::kNone;
    bool last = false;  ///< of its block
  };

  std::int64_t channels(Var x) const { return graph_.spec(x).shape[3]; }

  /// A convolution that keeps the size, but for its stride, and batch norm.
  Var convolve(const std::string& name, Var x, const Convolution& of) {
    if (!x) return {};
    const double fan_out = static_cast<double>(of.kernel * of.kernel * of.out);
    const Var weight = graph_.param(group_, name + "/weight", Shape{of.kernel, of.kernel, channels(x), of.out},
                                    Init::normal(std::sqrt(2 / fan_out)));
    const bool zero = of.last && options_.zero_init;
    const Var gain = graph_.param(group_, name + "/gain", Shape{of.out}, Init::constant(zero ? 0 : 1));
    const Var offset = graph_.param(group_, name + "/offset", Shape{of.out}, {});
    graph_.exempt_from_decay(gain);
    graph_.exempt_from_decay(offset);
    const auto running = running_statistics(graph_, fmt::format("{}/{}", kGroup, name), of.out, mode_);
    return batch_norm(conv2d(x, weight, {.stride = of.stride, .padding = of.kernel / 2}), gain, offset, running.mean,
                      running.variance,
                      {.training = mode_.training,
                       .momentum = options_.batch_norm_momentum,
                       .activation = of.activation,
                       .all_sum = mode_.all_sum});
  }

  Var shortcut(const std::string& name, Var x, std::int64_t out, std::int64_t stride) {
    if (!x || (channels(x) == out && stride == 1)) return x;
    if (options_.imagenet) return convolve(name + "/shortcut", x, {.kernel = 1, .stride = stride, .out = out});
    // Option A of the paper: every second pixel, and zeros for the channels that are new.
    Var kept = stride == 1 ? x : average_pool(x, {.kernel = 1, .stride = stride});
    while (kept && channels(kept) < out)
      kept = concat(kept, affine(slice(kept, 0, std::min(channels(kept), out - channels(kept))), 0));
    return kept;
  }

  Graph& graph_;
  const ParamGroup group_;
  const Options& options_;
  const NetworkMode& mode_;
};

}  // namespace

Var network(Graph& graph, ParamGroup group, const Options& options, Var image, const NetworkMode& mode) {
  if (!image) return {};
  const Shape& got = graph.spec(image).shape;
  const Shape wanted{options.height, options.width, options.channels};
  if (got != wanted.with_leading(got[0])) {
    return graph.fail(Code::kShapeMismatch,
                      fmt::format("resnet: images of {}, expected rows of {}", got.to_string(), wanted.to_string()));
  }
  Builder builder(graph, group, options, mode);
  const auto all = std::reduce(options.blocks.begin(), options.blocks.end());
  std::int64_t made = 0, filters = options.filters;
  Var x = builder.stem(image);
  for (std::size_t stage = 0; stage < options.blocks.size(); ++stage, filters *= 2) {
    for (std::int64_t block = 0; block < options.blocks[stage]; ++block, ++made) {
      const DeviceScope on(graph, static_cast<int>(made * mode.devices / all));
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      x = builder.block(fmt::format("stage{}/block{}", stage + 1, block + 1), x, filters, stride);
    }
  }
  const DeviceScope last(graph, mode.devices - 1);
  return builder.head(x);
}

void inference(Graph& graph, const Options& options) {
  ParamGroup group = graph.group(kGroup);
  if (options.average_decay > 0) group = graph.average(group, options.average_decay);
  const Var image = graph.input("image", Shape{options.height, options.width, options.channels});
  graph.output("logits", network(graph, group, options, image, {.training = false}));
}

}  // namespace troupe::learner::resnet
