#pragma once
// Runs a model's evaluation over its data and has its judge say what the parameters are worth. Passive: it advances
// when its owner says so, a batch at a time. Used by the evaluator of a replica group
// (actors/roles/examination.hpp), and by whoever evaluates a run that has ended (run/evaluate_part.hpp), so both
// come to the same numbers.
#include <cstdint>
#include <memory>
#include <string>

#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/actors/runtime/role.hpp>
#include <troupe/core/error.hpp>
#include <troupe/learner/judging/judge.hpp>
#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::actors {

/// prepare() until it is true; then for each version of the parameters: write them into program(), begin(), advance()
/// until it is done, verdict().
class ReplicaEvaluation {
 public:
  /// name: the owner's, for errors. Errors: those of the model's data, evaluation and judge.
  static Result<std::unique_ptr<ReplicaEvaluation>> make(const ReplicaModel& model, const std::string& name);

  /// Has the parameters and states that are evaluated.
  learner::Program& program() { return replicator_->program(); }
  /// Does a bounded slice of what the judge needs once. True when nothing is left.
  Result<bool> prepare();
  /// Makes advance() go over the whole data from its beginning.
  void begin() { rows_left_ = rows_; }
  bool under_way() const { return rows_left_ > 0; }
  /// Evaluates a batch. kIdle: there is no input yet, ask again after kInputPatience; kDone: it was the last batch.
  Result<Progress> advance();
  /// Called once, after the last batch.
  Result<learner::Verdict> verdict() { return judge_->verdict(); }

 private:
  ReplicaEvaluation() = default;

  std::unique_ptr<learner::Replica> replica_;
  std::unique_ptr<learner::Replicator> replicator_;
  std::unique_ptr<learner::Judge> judge_;
  bool prepared_ = false;  ///< the judge is
  std::int64_t batch_ = 0;
  std::int64_t rows_ = 0;  ///< of the evaluation's data
  std::int64_t rows_left_ = 0;
};

}  // namespace troupe::actors
