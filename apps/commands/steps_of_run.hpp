#pragma once
// The step that each part of a run takes, for commands that look at steps without a run: verify and compile.
#include <vector>

#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/actors/roles/replica_options.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/replicate/verify.hpp>
#include <troupe/run/train_options.hpp>

namespace troupe::apps {

/// The learners of an agent, or a replica group.
struct PartStep {
  actors::ReplicaGroupOptions group;  ///< what meets elsewhere than within a step as a group that does meet there
  learner::ReplicaFactory make;       ///< an agent's steps are on batches that are made up
};

/// data: of models, whether it is to be read. With kElsewhere it is looked at where the configuration does not say its
/// shapes. Errors: those of make_agent() and model_of().
Result<std::vector<PartStep>> steps_of_run(const actors::TrainOptions& options, actors::ModelContext::Data data);

}  // namespace troupe::apps
