#include <troupe/actors/roles/replica_evaluation.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace troupe::actors {

Result<std::unique_ptr<ReplicaEvaluation>> ReplicaEvaluation::make(const ReplicaModel& model, const std::string& name) {
  std::unique_ptr<ReplicaEvaluation> made(new ReplicaEvaluation);
  made->batch_ = model.evaluation_batch;
  TROUPE_ASSIGN(made->rows_, model.evaluation_rows());
  if (made->batch_ < 1 || made->rows_ < 1) {
    return Error{Code::kInvalidArgument, fmt::format("{}: {} rows in batches of {}", name, made->rows_, made->batch_)};
  }
  TROUPE_ASSIGN(made->replica_, model.make_evaluation());
  TROUPE_ASSIGN(made->replicator_, learner::OneDevice::make(*made->replica_, {.batch = made->batch_}));
  if (model.make_judge) {
    TROUPE_ASSIGN(made->judge_, model.make_judge());
  } else {
    made->judge_ = std::make_unique<learner::MeanJudge>();
  }
  return made;
}

Result<bool> ReplicaEvaluation::prepare() {
  if (!prepared_) {
    TROUPE_ASSIGN(prepared_, judge_->prepare());
  }
  return prepared_;
}

Result<Progress> ReplicaEvaluation::advance() {
  const Status stepped = replicator_->step();
  if (!stepped.ok() && stepped.error().code == Code::kUnavailable) return Progress::kIdle;
  TROUPE_TRY(stepped);
  const std::int64_t rows = std::min(batch_, rows_left_);
  TROUPE_TRY(judge_->take(program(), rows));
  rows_left_ -= rows;
  return rows_left_ > 0 ? Progress::kMore : Progress::kDone;
}

}  // namespace troupe::actors
