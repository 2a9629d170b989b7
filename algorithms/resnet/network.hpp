#pragma once
// Residual networks, for training and for judging them.
#include <troupe/algorithms/resnet/options.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/network_mode.hpp>

namespace troupe::learner::resnet {

/// The parameter group; with options.average_decay "resnet.average" beside it.
inline constexpr const char* kGroup = "resnet";

/// image: [rows, height, width, channels]. Returns logits: [rows, classes].
/// Convolutions start as He et al. 2015 (arXiv 1502.01852, Eq. 14, fan out), the last layer with deviation 0.01 (Goyal
/// et al. 2017, section 5.1). Tensors are called "stem", "stage1/block2/conv3", each with weight, gain and offset, and
/// "stage2/block1/shortcut", "head".
Var network(Graph& graph, ParamGroup group, const Options& options, Var image, const NetworkMode& mode);

/// What users run: input "image", output "logits", with the moving average where there is one.
void inference(Graph& graph, const Options& options);

}  // namespace troupe::learner::resnet
