#include <troupe/actors/roles/episode_runner.hpp>

#include <algorithm>
#include <utility>

#include <troupe/core/rng.hpp>

namespace troupe::actors {
namespace {

bool all_rest(std::span<const envs::Move> moves) {
  return std::ranges::all_of(moves, [](envs::Move move) { return move == envs::Move::kRest; });
}

}  // namespace

Result<std::unique_ptr<EpisodeRunner>> EpisodeRunner::make(const EpisodeRunnerOptions& options) {
  TROUPE_ASSIGN(auto environments,
                envs::VectorEnv::make({.make = options.make_environment, .count = static_cast<int>(options.episodes)}));
  TROUPE_ASSIGN(auto policy, options.make_policy(options.episodes, learner::Device{}));
  TROUPE_ASSIGN(auto player, Player::make(std::move(policy), environments->spec(), options.exploration));
  return std::unique_ptr<EpisodeRunner>(new EpisodeRunner(std::move(environments), std::move(player)));
}

EpisodeRunner::EpisodeRunner(std::unique_ptr<envs::VectorEnv> environments, std::unique_ptr<Player> player)
    : environments_(std::move(environments)),
      player_(std::move(player)),
      returns_(environments_->count()),
      moves_(environments_->count(), envs::Move::kRest) {}

Status EpisodeRunner::begin(std::span<const float> parameters, std::uint64_t layout, std::uint64_t seed) {
  TROUPE_TRY(player_->policy().load(parameters, layout));
  for (std::size_t i = 0; i < environments_->count(); ++i) {
    const auto observation = environments_->observation(i);
    TROUPE_TRY(environments_->environment(i).reset(derive_seed(seed, "episode", i), observation));
    player_->first(i, observation);
    returns_[i] = 0;
    moves_[i] = envs::Move::kStep;
  }
  return {};
}

Result<bool> EpisodeRunner::advance(std::int64_t steps) {
  for (std::int64_t step = 0; step < steps && !all_rest(moves_); ++step) {
    TROUPE_ASSIGN(const auto actions, player_->act());
    environments_->advance(moves_, actions);
    for (std::size_t i = 0; i < moves_.size(); ++i) {
      if (moves_[i] == envs::Move::kRest) continue;
      const Result<envs::TimeStep>& result = environments_->result(i);
      if (!result.ok()) return result.error();
      player_->next(i, environments_->observation(i));
      returns_[i] += result->reward;
      if (result->last()) moves_[i] = envs::Move::kRest;
    }
  }
  return all_rest(moves_);
}

}  // namespace troupe::actors
