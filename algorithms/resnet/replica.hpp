#pragma once
// A residual network as replicas: cross-entropy to integer labels with one optimiser, and what evaluators run instead.
// input_fn of each refuses options that validate() refuses; the graph's operations check the columns that a step reads.
#include <memory>

#include <troupe/algorithms/resnet/options.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::resnet {

/// input: pipelines with the columns of batch_signature(options), which may have others. So for evaluation().
/// Metrics: loss (with label smoothing), accuracy (top-1), each the mean over this replica's batch.
std::unique_ptr<Replica> training(const Options& options, InputFn input);

/// The network in a step that updates nothing, for evaluators: with the moving average where there is one, and batch
/// norm's running statistics. Groups and states have the names that they have in training. Metrics: loss (without
/// smoothing), accuracy, and top5_accuracy where there are more than 5 classes.
std::unique_ptr<Replica> evaluation(const Options& options, InputFn input);

}  // namespace troupe::learner::resnet
