#include <troupe/actors/roles/episode_runner.hpp>

#include <algorithm>

#include <troupe/core/rng.hpp>

namespace troupe::actors {

Result<std::unique_ptr<EpisodeRunner>> EpisodeRunner::make(
    const envs::MakeEnvironment& make_environment, std::int64_t episodes,
    const std::function<Result<std::unique_ptr<learner::Policy>>(std::int64_t rows)>& make_policy) {
  std::unique_ptr<EpisodeRunner> runner(new EpisodeRunner);
  for (std::int64_t i = 0; i < episodes; ++i) {
    TROUPE_ASSIGN(runner->environments_.emplace_back(), make_environment(0));
  }
  TROUPE_ASSIGN(runner->policy_, make_policy(episodes));
  const envs::EnvSpec& spec = runner->environments_.front()->spec();
  runner->raw_.resize(row_bytes(spec.observation));
  runner->observations_.resize(static_cast<std::size_t>(episodes * spec.observation_size()));
  runner->actions_.resize(static_cast<std::size_t>(episodes * spec.action_size()));
  runner->env_action_.resize(static_cast<std::size_t>(spec.action_size()));
  runner->returns_.resize(static_cast<std::size_t>(episodes));
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
      ended_[i] = result.last();
    }
  }
  return std::all_of(ended_.begin(), ended_.end(), [](bool ended) { return ended; });
}

}  // namespace troupe::actors
