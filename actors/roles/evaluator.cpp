#include <troupe/actors/roles/evaluator.hpp>

#include <troupe/actors/roles/evaluation.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/messages/parameters.hpp>

namespace troupe::actors {
namespace {

/// Control steps of one slice: with ten episodes of a heavy environment some milliseconds.
constexpr std::int64_t kStepsPerSlice = 10;

}  // namespace

RoleSpec Evaluator::spec(std::string name, const EvaluatorActorOptions& options) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.inlets = {{"parameters", "Parameters", ChannelKind::kLatest}};
  spec.outlets = {{kEvaluationsPort, "Evaluation"}};
  spec.execution = Execution::kThread;
  spec.make = [options](const RoleIdentity& identity) { return make(options, identity); };
  return spec;
}

Result<std::unique_ptr<Role>> Evaluator::make(const EvaluatorActorOptions& options, const RoleIdentity& identity) {
  TROUPE_ASSIGN(auto runner, EpisodeRunner::make(options.runner));
  return std::unique_ptr<Role>(new Evaluator(options, identity, std::move(runner)));
}

Evaluator::Evaluator(EvaluatorActorOptions options, RoleIdentity identity, std::unique_ptr<EpisodeRunner> runner)
    : options_(std::move(options)), identity_(std::move(identity)), runner_(std::move(runner)) {}

Result<Progress> Evaluator::step(RoleContext& context) {
  if (playing_) {
    TROUPE_ASSIGN(const bool finished, runner_->advance(kStepsPerSlice));
    if (!finished) return Progress::kMore;
    playing_ = false;
    unsent_ = true;
    ++evaluations_;
  }
  if (unsent_) {
    TROUPE_ASSIGN(const bool sent,
                  send_evaluation(context, {identity_.name(), version_, values_of_returns(runner_->returns())}));
    if (!sent) return Progress::kIdle;
    unsent_ = false;
  }
  return wait_for_parameters(context);
}

Result<Progress> Evaluator::wait_for_parameters(RoleContext& context) {
  for (Inlet& inlet = context.in("parameters"); !inlet.empty();) {
    const auto parameters = messages::read_parameters(inlet.take());
    const auto values = parameters.ok() ? parameters->floats() : parameters.error();
    if (!values.ok()) {
      context.refuse("parameters", values.error());
      continue;
    }
    if (parameters->info().version < next_version_) continue;
    version_ = parameters->info().version;
    next_version_ = version_ + options_.every_learner_steps;
    TROUPE_TRY(runner_->begin(*values, parameters->info().layout_hash,
                              derive_seed(identity_.seed, "evaluation", static_cast<std::uint64_t>(evaluations_))));
    playing_ = true;
    return Progress::kMore;
  }
  return Progress::kIdle;
}

Result<RoleState> Evaluator::save() const {
  // Of an evaluation that nobody has heard of yet only the version is kept, which is then evaluated, or a newer one.
  RoleState state;
  state.counters = {{"next_version", playing_ || unsent_ ? version_ : next_version_}};
  return state;
}

Status Evaluator::restore(const RoleState& state) {
  TROUPE_ASSIGN(next_version_, state.counter("next_version"));
  return {};
}

}  // namespace troupe::actors
