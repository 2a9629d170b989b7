#pragma once
// Settings of residual networks (He et al. 2015, arXiv 1512.03385) as classifiers of images: those of ImageNet and the
// small ones of CIFAR, and how they are trained (Goyal et al. 2017, arXiv 1706.02677).
#include <cstdint>
#include <string_view>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/graph/optimizer.hpp>

namespace troupe::learner::resnet {

enum class Block : std::uint8_t {
  kBasic,       ///< two 3x3 convolutions
  kBottleneck,  ///< 1x1, 3x3, 1x1, the last one four times as wide
};

enum class Variant : std::uint8_t {
  kV1,    ///< a bottleneck's stride sits in its first 1x1 convolution, as in the paper
  kV1_5,  ///< in its 3x3 convolution: some 0.5 % better top-1, 12 % more work
};

struct Options {
  // Of the data.
  std::int64_t height = 224, width = 224, channels = 3;
  std::int64_t classes = 1000;
  // Of the network: that of depth 50.
  Block block = Block::kBottleneck;
  Variant variant = Variant::kV1_5;
  std::vector<std::int64_t> blocks = {3, 4, 6, 3};  ///< of each stage; all but the first halve height and width
  std::int64_t filters = 64;                        ///< of the first stage; twice as many in each that follows
  /// Stem of ImageNet: a 7x7 convolution and a maximum, each of stride 2; projections where a stage begins. False, of
  /// CIFAR (section 4.2 of the paper): one 3x3 convolution; shortcuts without parameters, filled up with zeros.
  bool imagenet = true;
  // Of training.
  /// Batch norm with the statistics of the global batch; false: of each replica's own share. Without effect on one.
  bool sync_batch_norm = false;
  double batch_norm_momentum = 0.1;
  /// The gain of each block's last batch norm starts at 0, so blocks start as identities (Goyal et al., section 5.1).
  bool zero_init = true;
  double label_smoothing = 0;
  /// Weight decay leaves biases, gains and offsets out.
  OptimizerSpec optimizer = {.rule =
                                 Sgd{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 1e-4}};
  double average_decay = 0;  ///< of the moving average of the parameters that is evaluated instead; 0: none
};

/// The network of that many layers: 18, 34 (basic blocks), 50, 101, 152 (bottlenecks) of ImageNet; 20, 32, 44, 56, 110
/// of CIFAR. Errors: kInvalidArgument naming these.
Result<Options> of_depth(std::int64_t depth);

/// Errors: kInvalidArgument naming the option, got and expected.
Status validate(const Options& options);

/// Columns of a batch: image, float32 [height, width, channels]; label, int32 []. An input may have others too.
Signature batch_signature(const Options& options);

}  // namespace troupe::learner::resnet
