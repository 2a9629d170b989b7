#pragma once
// Reads out of a checkpoint what a part of a run has learnt, for commands that use it when training is over or paused
// (export, sample, evaluate, render). A part is an agent, which has the name of its learner's role, or a replica group.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/graph/graph.hpp>
#include <troupe/messages/checkpoint.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::actors {

struct TrainedTensor {
  std::string name;  ///< of its layout: "policy/layer0/weight", "generator.average/layer0/weight"
  Shape shape;
  std::vector<float> values;
};

struct TrainedPart {
  std::string name;
  std::string model;  ///< the agent's algorithm, or the group's model
  std::int64_t step = 0;
  /// All parameter groups, targets and averages ("NAME.target", "NAME.average") among them, and the states; not what
  /// optimisers remember.
  std::vector<TrainedTensor> tensors;
};

/// The parts of such a run, agents first; with a model (TrainedPart::model) only those that train it.
std::vector<std::string> part_names(const TrainOptions& options, const std::string& model = "");

/// Reads a part out of the pieces of a checkpoint (open_run_checkpoint()). When several instances hold the same, the
/// one that is furthest is read. Under a parameter server the shards are put together, for which the data that the
/// model learns from must be there. Errors: kNotFound: no such part, or nothing of it yet; kCorrupt, kShapeMismatch:
/// not of this run.
Result<TrainedPart> read_part(const TrainOptions& options, std::span<const messages::OpenCheckpoint> checkpoint,
                              const std::string& name);

/// Copies the values into a program whose parameter groups and states have the names of training.
/// Errors: kNotFound or kShapeMismatch naming the tensor; nothing changed.
Status load_part(const TrainedPart& part, learner::Program& program);

/// The flat values of one parameter group, e.g. the policy's. Errors: kNotFound or kShapeMismatch, naming the tensor.
Result<std::vector<float>> group_values(const TrainedPart& part, const learner::ParamLayout& layout);

/// The network that users of a part run: inputs and outputs by name, with the parameters that an evaluation takes.
/// Errors: kNotFound when the part has none.
Result<std::function<void(learner::Graph&)>> inference_network(const TrainOptions& options, const std::string& name);

}  // namespace troupe::actors
