#pragma once
// A trainer's end of the channel to the evaluator of its model: which steps are published, and of what. Shards of
// parameter servers publish in the same way, by evaluation_frame().
#include <cstdint>
#include <memory>

#include <troupe/actors/roles/publication.hpp>
#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/actors/roles/replica_parameters.hpp>

namespace troupe::actors {

/// The port that publishes: "parameters" (latest, Parameters).
inline constexpr const char* kPublishPort = "parameters";

/// What the model's evaluation takes from the program that trains. Errors: those of the evaluation's program.
Result<ReplicaParameters> evaluated_parameters(const ReplicaModel& model);

/// Publishes what evaluated_parameters() are after the first step, every `every_steps` and after the last. Without
/// ports for a model that has no evaluation.
PublicationSpec evaluation_publication(const ReplicaModel& model, std::int64_t every_steps);

}  // namespace troupe::actors
