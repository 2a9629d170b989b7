#pragma once
// A trainer's end of the channel to the evaluator of its model: which steps are published, and of what.
#include <cstdint>
#include <functional>

#include <troupe/actors/roles/publication.hpp>
#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/actors/roles/replica_parameters.hpp>

namespace troupe::actors {

/// The port that publishes: "parameters" (latest, Parameters).
inline constexpr const char* kPublishPort = "parameters";

/// Makes a message of what a program has learnt in so many steps.
using MakeParametersFrame =
    std::function<Result<Frame>(messages::FramePool& pool, learner::Program& program, std::int64_t step)>;

/// Publishes after the first step, every `every_steps` and after the last. make: once for each instance.
PublicationSpec step_publication(std::function<Result<MakeParametersFrame>()> make, std::int64_t every_steps);

/// The same, of what the model's evaluation takes from the program that trains. Without ports for a model that has no
/// evaluation.
PublicationSpec evaluation_publication(const ReplicaModel& model, std::int64_t every_steps);

}  // namespace troupe::actors
