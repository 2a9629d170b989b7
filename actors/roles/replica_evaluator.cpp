#include <troupe/actors/roles/replica_evaluator.hpp>

#include <fmt/format.h>

#include <troupe/actors/roles/replica_results.hpp>
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
  TROUPE_ASSIGN(role->evaluation_, ReplicaEvaluation::make(options.model, options.name));
  role->parameters_ = std::make_unique<ReplicaParameters>(role->evaluation_->program());
  return std::unique_ptr<Role>(std::move(role));
}

Result<bool> ReplicaEvaluator::begin(RoleContext& context) {
  for (Inlet& inlet = context.in("parameters"); !inlet.empty();) {
    const auto view = messages::read_parameters(inlet.take());
    if (view.ok() && view->info().version <= evaluated_) continue;
    const Status good =
        view.ok() ? parameters_->scatter(*view, evaluation_->program(), options_.name) : Status(view.error());
    if (!good.ok()) {
      context.refuse("parameters", good.error());
      continue;
    }
    evaluating_ = view->info().version;
    evaluation_->begin();
    return true;
  }
  return false;
}

Result<Progress> ReplicaEvaluator::step(RoleContext& context) {
  if (evaluated_ >= options_.last_step) return Progress::kDone;
  TROUPE_ASSIGN(const bool prepared, evaluation_->prepare());
  if (!prepared) return Progress::kMore;
  if (!evaluation_->under_way()) {
    TROUPE_ASSIGN(const bool begun, begin(context));
    return begun ? Progress::kMore : Progress::kIdle;
  }
  TROUPE_ASSIGN(const Progress advanced, evaluation_->advance());
  if (advanced == Progress::kIdle) context.wake_after(kInputPatience);
  if (advanced != Progress::kDone) return advanced;
  TROUPE_ASSIGN(learner::Verdict verdict, evaluation_->verdict());
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
