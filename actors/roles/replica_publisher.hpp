#pragma once
// The group's end of the channel to its evaluator: which steps are published, and of what. Used by the roles that train
// a replica, whatever its replicator.
#include <cstdint>
#include <optional>

#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/actors/roles/replica_parameters.hpp>
#include <troupe/actors/runtime/role.hpp>
#include <troupe/learner/engine/program.hpp>

namespace troupe::actors {

/// The port that publishes, of a role whose model has an evaluation: "parameters" (latest, Parameters).
inline constexpr const char* kPublishPort = "parameters";

class ReplicaPublisher {
 public:
  /// Publishes every `every_steps` and the last one. Errors: those of the evaluation's program, from which it follows
  /// what is published.
  static Result<ReplicaPublisher> make(const ReplicaModel& model, std::int64_t every_steps, std::int64_t last_step);

  /// The trained program's values as those of `step`. Must not be called without an evaluation.
  Result<Frame> frame(messages::FramePool& pool, learner::Program& trained, std::int64_t step) const;
  /// Publishes the trained program's values as those of `step`, if they are due and were not published before.
  Status publish_if_due(RoleContext& context, learner::Program& trained, std::int64_t step);

 private:
  ReplicaPublisher(std::int64_t every_steps, std::int64_t last_step)
      : every_steps_(every_steps), last_step_(last_step) {}

  std::int64_t every_steps_, last_step_;
  std::optional<ReplicaParameters> parameters_;  ///< empty: nobody evaluates
  std::int64_t next_step_ = 0;
};

}  // namespace troupe::actors
