#pragma once
// Plays whole episodes with fixed parameters and no exploration noise, for the evaluator's periodic evaluations and for
// the one at the end of a run. Passive: it advances when its owner says so, as far as its owner says.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <troupe/actors/roles/acting.hpp>
#include <troupe/actors/roles/player.hpp>
#include <troupe/core/error.hpp>
#include <troupe/envs/vector_env.hpp>

namespace troupe::actors {

struct EpisodeRunnerOptions {
  envs::MakeEnvironment make_environment;
  MakePolicy make_policy;               ///< is asked for `episodes` rows on the processor
  acting::MakeExploration exploration;  ///< one that does not explore
  std::int64_t episodes = 10;
};

/// Plays `episodes` episodes side by side, one batched policy call for each control step.
class EpisodeRunner {
 public:
  /// Errors: those of the environment and the policy.
  static Result<std::unique_ptr<EpisodeRunner>> make(const EpisodeRunnerOptions& options);

  /// Starts anew: episode i begins from a state that follows from (seed, i).
  Status begin(std::span<const float> parameters, std::uint64_t layout, std::uint64_t seed);
  /// Takes at most `steps` control steps in every episode that has not ended. True when all have ended.
  Result<bool> advance(std::int64_t steps);
  /// Undiscounted, one an episode.
  std::span<const double> returns() const { return returns_; }

 private:
  EpisodeRunner(std::unique_ptr<envs::VectorEnv> environments, std::unique_ptr<Player> player);

  std::unique_ptr<envs::VectorEnv> environments_;
  std::unique_ptr<Player> player_;
  std::vector<double> returns_;
  std::vector<envs::Move> moves_;  ///< kRest: the episode has ended
};

}  // namespace troupe::actors
