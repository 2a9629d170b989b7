#pragma once
// The classifier's network, for training and for judging it.
#include <functional>

#include <troupe/learner/classifier/options.hpp>
#include <troupe/learner/graph.hpp>

namespace troupe::learner::classifier {

/// The parameter group; with options.average_decay "classifier.average" beside it.
inline constexpr const char* kGroup = "classifier";

struct NetworkMode {
  bool training = true;             ///< of batch norm
  std::function<Var(Var)> all_sum;  ///< of batch norm in training; empty: statistics of this replica alone
  std::function<void(Var)> shared;  ///< called with each state that is equal on all replicas; may be empty
  int devices = 1;                  ///< logical devices over which the layers are spread in order, as even stages
};

/// image: [rows, ...] with options.features elements a row, which are flattened. Returns logits: [rows, classes].
Var network(Graph& graph, ParamGroup group, const Options& options, Var image, const NetworkMode& mode);

/// What users run: input "image", output "logits", with the moving average where there is one.
void inference(Graph& graph, const Options& options);

}  // namespace troupe::learner::classifier
