#include <troupe/actors/roles/evaluator.hpp>

#include <fmt/format.h>

#include <utility>

#include <troupe/actors/roles/evaluation.hpp>
#include <troupe/actors/roles/replica_results.hpp>
#include <troupe/core/log.hpp>
#include <troupe/messages/parameters.hpp>

namespace troupe::actors {
namespace {

constexpr const char* kParametersPort = "parameters";
constexpr const char* kUnsent = "unsent";  // checkpoints of older versions have no such counter

}  // namespace

RoleSpec Evaluator::spec(std::string name, const EvaluatorActorOptions& options) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.inlets = {{kParametersPort, "Parameters", ChannelKind::kLatest}};
  if (options.has_listener) spec.outlets = {{kEvaluationsPort, "Evaluation"}};
  spec.execution = Execution::kThread;
  spec.make = [options](const RoleIdentity& identity) { return make(options, identity); };
  return spec;
}

Result<std::unique_ptr<Role>> Evaluator::make(const EvaluatorActorOptions& options, const RoleIdentity& identity) {
  TROUPE_ASSIGN(auto examination, options.examine(identity));
  return std::unique_ptr<Role>(new Evaluator(options, identity.name(), std::move(examination)));
}

bool Evaluator::begin(RoleContext& context) {
  const std::int64_t next = evaluated_ < 0 ? 0 : evaluated_ + options_.every;
  for (Inlet& inlet = context.in(kParametersPort); !inlet.empty();) {
    const auto view = messages::read_parameters(inlet.take());
    if (view.ok() && view->info().version < next) continue;
    const Status good = view.ok() ? examination_->begin(*view) : Status(view.error());
    if (!good.ok()) {
      context.refuse(kParametersPort, good.error());
      continue;
    }
    judging_ = view->info().version;
    return true;
  }
  return false;
}

Result<Progress> Evaluator::step(RoleContext& context) {
  if (unsent_ && options_.has_listener) {
    TROUPE_ASSIGN(const bool sent, send_evaluation(context, {name_, evaluated_, results_}));
    if (!sent) return Progress::kIdle;
  }
  unsent_ = false;
  if (options_.last > 0 && evaluated_ >= options_.last) {
    return !options_.has_listener || all_recorded(context) ? Progress::kDone : Progress::kIdle;
  }
  TROUPE_ASSIGN(const bool prepared, examination_->prepare());
  if (!prepared) return Progress::kMore;
  if (!under_way_) {
    under_way_ = begin(context);
    return under_way_ ? Progress::kMore : Progress::kIdle;
  }
  TROUPE_ASSIGN(const Progress advanced, examination_->advance());
  if (advanced == Progress::kIdle) context.wake_after(kInputPatience);
  if (advanced != Progress::kDone) return advanced;
  under_way_ = false;
  TROUPE_TRY(conclude());
  return Progress::kMore;
}

Status Evaluator::conclude() {
  TROUPE_ASSIGN(learner::Verdict verdict, examination_->verdict());
  results_ = std::move(verdict.scalars);
  evaluated_ = judging_;
  unsent_ = true;
  for (Picture& picture : verdict.pictures) {
    picture.source = options_.trainer;
    picture.step = evaluated_;
    if (options_.pictures != nullptr) TROUPE_TRY(options_.pictures->write(picture));
  }
  std::string text;
  for (const Scalar& result : results_) text += fmt::format(" {} {:.5g}", result.name, result.value);
  log::debug("{}: step {}:{}", name_, evaluated_, text);
  return {};
}

Result<RoleState> Evaluator::save() const {
  RoleState state;
  state.counters = metric_counters(results_);
  state.counters.push_back({"steps", evaluated_});
  state.counters.push_back({kUnsent, unsent_});
  return state;
}

Status Evaluator::restore(const RoleState& state) {
  TROUPE_ASSIGN(evaluated_, state.counter("steps"));
  const auto unsent = state.counter(kUnsent);
  unsent_ = unsent.ok() && *unsent != 0;
  std::vector<messages::Counter> named;
  for (const messages::Counter& counter : state.counters) named.push_back({name_ + "/" + counter.name, counter.value});
  results_ = replica_summary(name_, named).metrics;
  return {};
}

}  // namespace troupe::actors
