#pragma once
// Settings of the SN-GAN (Miyato et al. 2018, arXiv 1802.05957): optimiser and losses are the paper's, the networks its
// residual ones or, where they are to be quick, multi-layer perceptrons.
#include <cstdint>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/learner/graph/optimizer.hpp>
#include <troupe/learner/ops/elementwise.hpp>

namespace troupe::learner::sngan {

enum class Network : std::uint8_t { kMlp, kResnet };

struct Options {
  Network network = Network::kMlp;
  Shape image = {28, 28, 1};  ///< height, width, channels; values in [-1, 1]
  /// 0: labels are not looked at. Else those of Miyato & Koyama 2018 (arXiv 1802.05637): conditional batch norm in the
  /// generator, projection in the discriminator. Only of kResnet.
  std::int64_t classes = 0;
  std::int64_t noise_size = 64;
  std::int64_t generator_width = 256;  ///< channels of kResnet's blocks, see resnet_plan()
  std::int64_t discriminator_width = 128;
  std::vector<std::int64_t> generator_sizes = {256, 512};      ///< kMlp's hidden layers, with batch norm
  Activation generator_activation = Activation::kRelu;         ///< behind each of these
  std::vector<std::int64_t> discriminator_sizes = {512, 256};  ///< kMlp's hidden layers, with spectral norm
  Activation discriminator_activation = Activation::kLeakyRelu;
  /// Batch norm with the statistics of the global batch; false: of each replica's own share.
  bool sync_batch_norm = true;
  /// The generator is updated in every n_dis-th step, the discriminator in each.
  std::int64_t n_dis = 1;
  /// Of both. Its schedule is over steps, of which the generator is updated in fewer; the paper's falls linearly to 0.
  OptimizerSpec optimizer = {.rule = Adam{.learning_rate = 2e-4, .beta1 = 0, .beta2 = 0.9}};
  double average_decay = 0;  ///< of the moving average of the generator; 0: none
};

/// Errors: kInvalidArgument naming the option, got and expected.
Status validate(const Options& options);

/// The discriminator's is options.optimizer.
OptimizerSpec generator_optimizer(const Options& options);

/// The generator's columns: noise, float32 [noise_size], standard normal; with classes label, int32 [].
Signature noise_signature(const Options& options);

/// Columns of a batch: image, float32 [height, width, channels], and the generator's. Noise comes with the data so that
/// runs repeat and do not depend on how many replicas share a batch. An input may have others too.
Signature batch_signature(const Options& options);

}  // namespace troupe::learner::sngan
