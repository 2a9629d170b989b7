#include <troupe/actors/evaluator.hpp>

#include <algorithm>

#include <troupe/core/rng.hpp>
#include <troupe/messages/parameters.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {
namespace {

/// Control steps of one slice: with ten episodes of a heavy environment some milliseconds.
constexpr std::int64_t kStepsPerSlice = 10;

}  // namespace

Result<std::unique_ptr<EpisodeRunner>> EpisodeRunner::make(
    const std::string& env, std::int64_t episodes,
    const std::function<Result<std::unique_ptr<learner::Policy>>(std::int64_t rows)>& make_policy) {
  std::unique_ptr<EpisodeRunner> runner(new EpisodeRunner);
  const std::vector<std::uint64_t> seeds(static_cast<std::size_t>(episodes), 0);
  TROUPE_ASSIGN(runner->environments_, envs::make_environments(env, seeds));
  TROUPE_ASSIGN(runner->policy_, make_policy(episodes));
  const envs::EnvSpec& spec = runner->environments_.front()->spec();
  runner->raw_.resize(row_bytes(spec.observation));
  runner->observations_.resize(static_cast<std::size_t>(episodes * spec.observation_size()));
  runner->actions_.resize(static_cast<std::size_t>(episodes * spec.action_size()));
  runner->env_action_.resize(static_cast<std::size_t>(spec.action_size()));
  runner->returns_.resize(static_cast<std::size_t>(episodes));
  runner->steps_.resize(static_cast<std::size_t>(episodes));
  runner->ended_.assign(static_cast<std::size_t>(episodes), true);
  return runner;
}

Status EpisodeRunner::begin(std::span<const float> parameters, std::uint64_t layout, std::uint64_t seed) {
  TROUPE_TRY(policy_->load(parameters, layout));
  for (std::size_t i = 0; i < environments_.size(); ++i) {
    const envs::EnvSpec& spec = environments_[i]->spec();
    const auto size = static_cast<std::size_t>(spec.observation_size());
    TROUPE_TRY(environments_[i]->reset(derive_seed(seed, "episode", i), raw_));
    envs::flatten_observation(spec, raw_, std::span(observations_).subspan(i * size, size));
    returns_[i] = 0;
    steps_[i] = 0;
    ended_[i] = false;
  }
  return {};
}

Result<bool> EpisodeRunner::advance(std::int64_t steps) {
  for (std::int64_t step = 0; step < steps; ++step) {
    if (std::all_of(ended_.begin(), ended_.end(), [](bool ended) { return ended; })) return true;
    TROUPE_TRY(policy_->act(observations_, actions_));
    for (std::size_t i = 0; i < environments_.size(); ++i) {
      if (ended_[i]) continue;
      const envs::EnvSpec& spec = environments_[i]->spec();
      const auto size = static_cast<std::size_t>(spec.observation_size());
      std::copy_n(actions_.begin() + static_cast<std::ptrdiff_t>(i * env_action_.size()), env_action_.size(),
                  env_action_.begin());
      TROUPE_ASSIGN(const envs::TimeStep result, environments_[i]->step(env_action_, raw_));
      envs::flatten_observation(spec, raw_, std::span(observations_).subspan(i * size, size));
      returns_[i] += result.reward;
      ++steps_[i];
      ended_[i] = result.last();
    }
  }
  return std::all_of(ended_.begin(), ended_.end(), [](bool ended) { return ended; });
}

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
  TROUPE_ASSIGN(auto runner, EpisodeRunner::make(options.env, options.episodes, options.make_policy));
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
  Inlet& inlet = context.in("parameters");
  if (inlet.empty()) return Progress::kIdle;
  TROUPE_ASSIGN(const auto parameters, messages::read_parameters(inlet.take()));
  if (parameters.info().version < next_version_) return Progress::kMore;
  version_ = parameters.info().version;
  next_version_ = version_ + options_.every_learner_steps;
  const auto* values = reinterpret_cast<const float*>(parameters.data().data());
  TROUPE_TRY(runner_->begin({values, parameters.data().size() / sizeof(float)}, parameters.info().layout_hash,
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
