#pragma once
// The classifier's network, for training and for judging it.
#include <troupe/algorithms/classifier/options.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/learner/replicate/network_mode.hpp>

namespace troupe::learner::classifier {

/// The parameter group; with options.average_decay "classifier.average" beside it.
inline constexpr const char* kGroup = "classifier";

/// image: [rows, ...] with options.features elements a row, which are flattened. Returns logits: [rows, classes].
/// With several devices, options say how they share the layers; parameters and states are the same for all ways.
Var network(ReplicaContext& context, ParamGroup group, const Options& options, Var image, const NetworkMode& mode);

/// What users run: input "image", output "logits", with the moving average where there is one.
void inference(Graph& graph, const Options& options);

}  // namespace troupe::learner::classifier
