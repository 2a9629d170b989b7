#pragma once
// What a replica group trains and how its result is judged: made by a user's program for train_replica(), or by name
// for the models that ship (actors/shipped_models.hpp). Role factories call these functions on their own threads.
#include <cstdint>
#include <functional>
#include <memory>

#include <troupe/core/error.hpp>
#include <troupe/learner/replica.hpp>

namespace troupe::actors {

using MakeReplica = std::function<Result<std::unique_ptr<learner::Replica>>()>;

struct ReplicaModel {
  MakeReplica make;
  /// The same networks in a step that updates nothing and whose metrics judge them, on data of its own, from
  /// InputContext::first_step 0 on. Its parameter groups and states are looked up by name in the trained program.
  /// Null: there is no evaluator.
  MakeReplica make_evaluation = nullptr;
  std::int64_t evaluation_rows = 0;  ///< of that data in all
  std::int64_t evaluation_batch = 500;
};

}  // namespace troupe::actors
