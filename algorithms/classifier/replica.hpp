#pragma once
// The classifier as replicas: cross-entropy to integer labels with one optimiser, and what evaluators run instead.
// input_fn of each refuses options that validate() refuses; the graph's operations check the columns that a step reads.
#include <memory>

#include <troupe/algorithms/classifier/options.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::classifier {

/// input: pipelines with the columns of batch_signature(options), which may have others. So for evaluation().
/// Metrics: loss, accuracy, each the mean over this replica's batch.
std::unique_ptr<Replica> training(const Options& options, InputFn input);

/// The network in a step that updates nothing, for evaluators. Metrics as above, of the moving average where there is
/// one, with batch norm's running statistics. Groups and states have the names that they have in training.
std::unique_ptr<Replica> evaluation(const Options& options, InputFn input);

}  // namespace troupe::learner::classifier
