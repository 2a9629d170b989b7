#include <troupe/actors/roles/evaluator.hpp>

#include <troupe/core/rng.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {
namespace {

/// Control steps of one slice: with ten episodes of a heavy environment some milliseconds.
constexpr std::int64_t kStepsPerSlice = 10;

}  // namespace

RoleSpec Evaluator::spec(std::string name, const EvaluatorActorOptions& options) {
  RoleSpec spec;
  spec.name = std::move(name);
  spec.inlets = {{"parameters", "Parameters", ChannelKind::kLatest}};
  spec.outlets = {{"episodes", "Episode"}};
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
    sent_ = 0;
    ++evaluations_;
  }
  if (evaluations_ > 0 && sent_ < runner_->returns().size()) return send_results(context);
  return wait_for_parameters(context);
}

Result<Progress> Evaluator::send_results(RoleContext& context) {
  Outlet& episodes = context.out("episodes");
  for (; sent_ < runner_->returns().size(); ++sent_) {
    if (!episodes.ready()) return Progress::kIdle;
    TROUPE_ASSIGN(Frame frame,
                  messages::make_episode(context.pool(), {identity_.role, static_cast<std::uint32_t>(identity_.index),
                                                          runner_->returns()[sent_], runner_->steps(sent_), version_}));
    episodes.send(std::move(frame));
  }
  return Progress::kMore;
}

Result<Progress> Evaluator::wait_for_parameters(RoleContext& context) {
  const auto parameters = assembler_.take(context, "parameters");
  if (!parameters || parameters->version < next_version_) return Progress::kIdle;
  version_ = parameters->version;
  next_version_ = version_ + options_.every_learner_steps;
  TROUPE_TRY(runner_->begin(parameters->values, parameters->layout_hash,
                            derive_seed(identity_.seed, "evaluation", static_cast<std::uint64_t>(evaluations_))));
  playing_ = true;
  return Progress::kMore;
}

void Evaluator::report(Report& report) const {
  report.counters.push_back({"evaluations", static_cast<double>(evaluations_)});
}

Result<RoleState> Evaluator::save() const {
  // An evaluation under way is not kept: after a restart its version counts as evaluated.
  RoleState state;
  state.counters = {{"next_version", next_version_}};
  return state;
}

Status Evaluator::restore(const RoleState& state) {
  TROUPE_ASSIGN(next_version_, state.counter("next_version"));
  return {};
}

}  // namespace troupe::actors
