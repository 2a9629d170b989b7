#pragma once
// The SN-GAN's residual networks (Miyato et al. 2018, appendix B.4; Miyato & Koyama 2018 for the conditional ones), for
// square images whose side is 4 to 7 times a power of two: 28, 32, 64, 128. Layers and initial values are those of the
// authors' code (pfnet-research/sngan_projection), but that the 1 x 1 convolutions of shortcuts run at the smaller of
// two sizes, since they commute with resizing and averaging.
#include <cstdint>
#include <vector>

#include <troupe/algorithms/sngan/networks.hpp>
#include <troupe/algorithms/sngan/normalised_layers.hpp>
#include <troupe/algorithms/sngan/options.hpp>
#include <troupe/learner/graph/graph.hpp>

namespace troupe::learner::sngan {

/// How wide the networks are, in channels, by their blocks. Up to 32 pixels all blocks are alike, as the paper's for
/// CIFAR-10; for larger images they are wide where the image is small.
struct ResnetPlan {
  std::int64_t bottom = 4;  ///< side of the generator's first image
  std::vector<std::int64_t>
      generator;  ///< channels of that image, then of each block's result, which is twice as large
  std::vector<std::int64_t> discriminator;  ///< of each block's result
  std::int64_t halvings = 0;                ///< of the discriminator's first blocks; the others keep the size
};
/// Errors: kInvalidArgument for an image of another size.
Result<ResnetPlan> resnet_plan(const Options& options);

/// A linear layer to the smallest size, blocks of two 3 x 3 convolutions with batch norm before each, and a last one to
/// the image. With options.classes > 0 batch norm's gain and offset are the label's.
Var resnet_generator(Graph& graph, ParamGroup group, const Options& options, Var noise, Var label,
                     const NetworkMode& mode);

/// Blocks of two 3 x 3 convolutions, the sum over all pixels, a linear layer. With options.classes > 0 the inner
/// product of that sum and the label's embedding is added (projection).
Var resnet_discriminator(NormalisedLayers& layers, const Options& options, Var image, Var label);

}  // namespace troupe::learner::sngan
