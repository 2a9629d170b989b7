#include <troupe/actors/roles/replica_evaluator.hpp>

#include <fmt/format.h>

#include <troupe/actors/roles/evaluation.hpp>
#include <troupe/actors/roles/replica_results.hpp>
#include <troupe/core/log.hpp>
#include <troupe/messages/parameters.hpp>

namespace troupe::actors {
namespace {

constexpr const char* kUnsent = "unsent";  // checkpoints of older versions have no such counter

}  // namespace

RoleSpec ReplicaEvaluator::spec(const ReplicaEvaluatorOptions& options) {
  RoleSpec spec;
  spec.name = options.name;
  spec.inlets = {{"parameters", "Parameters", ChannelKind::kLatest}};
  if (options.has_listener) spec.outlets = {{kEvaluationsPort, "Evaluation"}};
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
  if (unsent_ && options_.has_listener) {
    TROUPE_ASSIGN(const bool sent, send_evaluation(context, {options_.name, evaluated_, results_}));
    if (!sent) return Progress::kIdle;
  }
  unsent_ = false;
  if (evaluated_ >= options_.last_step) {
    return !options_.has_listener || all_recorded(context) ? Progress::kDone : Progress::kIdle;
  }
  TROUPE_ASSIGN(const bool prepared, evaluation_->prepare());
  if (!prepared) return Progress::kMore;
  if (!evaluation_->under_way()) {
    TROUPE_ASSIGN(const bool begun, begin(context));
    return begun ? Progress::kMore : Progress::kIdle;
  }
  TROUPE_ASSIGN(const Progress advanced, evaluation_->advance());
  if (advanced == Progress::kIdle) context.wake_after(kInputPatience);
  if (advanced != Progress::kDone) return advanced;
  TROUPE_TRY(conclude());
  return Progress::kMore;
}

Status ReplicaEvaluator::conclude() {
  TROUPE_ASSIGN(learner::Verdict verdict, evaluation_->verdict());
  results_ = std::move(verdict.scalars);
  evaluated_ = evaluating_;
  unsent_ = true;
  for (Picture& picture : verdict.pictures) {
    picture.source = options_.group;
    picture.step = evaluated_;
    if (options_.pictures != nullptr) TROUPE_TRY(options_.pictures->write(picture));
  }
  std::string text;
  for (const Scalar& result : results_) text += fmt::format(" {} {:.5g}", result.name, result.value);
  log::info("{}: step {}:{}", options_.name, evaluated_, text);
  return {};
}

Result<RoleState> ReplicaEvaluator::save() const {
  // An evaluation under way is not kept.
  RoleState state;
  state.counters = metric_counters(results_);
  state.counters.push_back({"steps", evaluated_});
  state.counters.push_back({kUnsent, unsent_});
  return state;
}

Status ReplicaEvaluator::restore(const RoleState& state) {
  TROUPE_ASSIGN(evaluated_, state.counter("steps"));
  const auto unsent = state.counter(kUnsent);
  unsent_ = unsent.ok() && *unsent != 0;
  std::vector<messages::Counter> named;
  for (const messages::Counter& counter : state.counters)
    named.push_back({options_.name + "/" + counter.name, counter.value});
  results_ = replica_summary(options_.name, named).metrics;
  return {};
}

}  // namespace troupe::actors
