#include <troupe/actors/replica_evaluator.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/actors/replica_results.hpp>
#include <troupe/core/log.hpp>
#include <troupe/messages/parameters.hpp>

namespace troupe::actors {

RoleSpec ReplicaEvaluator::spec(const ReplicaEvaluatorOptions& options) {
  RoleSpec spec;
  spec.name = options.name;
  spec.inlets = {{"parameters", "Parameters", ChannelKind::kLatest}};
  spec.execution = Execution::kThread;
  spec.restart.from = RestartFrom::kLastCut;
  spec.make = [options](const RoleIdentity&) { return make(options); };
  return spec;
}

Result<std::unique_ptr<Role>> ReplicaEvaluator::make(const ReplicaEvaluatorOptions& options) {
  auto role = std::unique_ptr<ReplicaEvaluator>(new ReplicaEvaluator(options));
  const ReplicaModel& model = options.model;
  TROUPE_ASSIGN(role->rows_, model.evaluation_rows());
  if (model.evaluation_batch < 1 || role->rows_ < 1) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: {} rows in batches of {}", options.name, role->rows_, model.evaluation_batch)};
  }
  TROUPE_ASSIGN(role->replica_, model.make_evaluation());
  TROUPE_ASSIGN(role->replicator_, learner::OneDevice::make(*role->replica_, {.batch = model.evaluation_batch}));
  role->parameters_ = std::make_unique<ReplicaParameters>(role->replicator_->program());
  if (model.make_judge) {
    TROUPE_ASSIGN(role->judge_, model.make_judge());
  } else {
    role->judge_ = std::make_unique<learner::MeanJudge>();
  }
  return std::unique_ptr<Role>(std::move(role));
}

Result<bool> ReplicaEvaluator::begin(Inlet& inlet) {
  while (!inlet.empty()) {
    TROUPE_ASSIGN(const auto view, messages::read_parameters(inlet.take()));
    if (view.info().version <= evaluated_) continue;
    TROUPE_TRY(parameters_->scatter(view, replicator_->program(), options_.name));
    evaluating_ = view.info().version;
    rows_left_ = rows_;
    return true;
  }
  return false;
}

Result<Progress> ReplicaEvaluator::step(RoleContext& context) {
  if (evaluated_ >= options_.last_step) return Progress::kDone;
  if (!prepared_) {
    TROUPE_ASSIGN(prepared_, judge_->prepare());
    if (!prepared_) return Progress::kMore;
  }
  if (rows_left_ == 0) {
    TROUPE_ASSIGN(const bool begun, begin(context.in("parameters")));
    return begun ? Progress::kMore : Progress::kIdle;
  }
  const Status stepped = replicator_->step();
  if (!stepped.ok() && stepped.error().code == Code::kUnavailable) {
    context.wake_after(kInputPatience);
    return Progress::kIdle;
  }
  TROUPE_TRY(stepped);
  const std::int64_t rows = std::min(options_.model.evaluation_batch, rows_left_);
  TROUPE_TRY(judge_->take(replicator_->program(), rows));
  rows_left_ -= rows;
  if (rows_left_ > 0) return Progress::kMore;
  TROUPE_ASSIGN(learner::Verdict verdict, judge_->verdict());
  results_ = std::move(verdict.scalars);
  evaluated_ = evaluating_;
  for (Picture& picture : verdict.pictures) {
    picture.source = options_.group;
    picture.step = evaluated_;
    if (options_.pictures != nullptr) TROUPE_TRY(options_.pictures->write(picture));
  }
  std::string text;
  for (const Scalar& result : results_) text += fmt::format(" {} {:.5g}", result.name, result.value);
  log::info("{}: step {}:{}", options_.name, evaluated_, text);
  return Progress::kMore;
}

void ReplicaEvaluator::report(Report& report) const {
  if (evaluated_ < 0) return;
  report.gauges.push_back({"step", static_cast<double>(evaluated_)});
  for (const Scalar& result : results_) report.gauges.push_back(result);
}

Result<RoleState> ReplicaEvaluator::save() const {
  // An evaluation under way is not kept.
  RoleState state;
  state.counters = metric_counters(results_);
  state.counters.push_back({"steps", evaluated_});
  return state;
}

Status ReplicaEvaluator::restore(const RoleState& state) {
  TROUPE_ASSIGN(evaluated_, state.counter("steps"));
  std::vector<messages::Counter> named;
  for (const messages::Counter& counter : state.counters)
    named.push_back({options_.name + "/" + counter.name, counter.value});
  results_ = replica_summary(options_.name, named).metrics;
  return {};
}

}  // namespace troupe::actors
