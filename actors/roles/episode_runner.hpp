#pragma once
// Plays whole episodes with fixed parameters and no exploration noise, for the evaluator's periodic evaluations and for
// the one at the end of a run. Passive: it advances when its owner says so, as far as its owner says.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/learner/engine/policy.hpp>

namespace troupe::actors {

/// Plays `episodes` episodes side by side, one batched policy call for each control step.
class EpisodeRunner {
 public:
  /// make_policy: for as many rows as it is asked for. Errors: those of the environment and the policy.
  static Result<std::unique_ptr<EpisodeRunner>> make(
      const envs::MakeEnvironment& make_environment, std::int64_t episodes,
      const std::function<Result<std::unique_ptr<learner::Policy>>(std::int64_t rows)>& make_policy);

  /// Starts anew: episode i begins from a state that follows from (seed, i).
  Status begin(std::span<const float> parameters, std::uint64_t layout, std::uint64_t seed);
  /// At most `steps` control steps of every episode that has not ended. True when all have.
  Result<bool> advance(std::int64_t steps);
  /// Undiscounted, one an episode.
  std::span<const double> returns() const { return returns_; }

 private:
  EpisodeRunner() = default;

  std::vector<std::unique_ptr<envs::Environment>> environments_;
  std::unique_ptr<learner::Policy> policy_;
  std::vector<std::byte> raw_;       // one packed observation
  std::vector<float> observations_;  // [episodes, observation_size]
  std::vector<float> actions_;       // [episodes, action_size]
  std::vector<double> env_action_;
  std::vector<double> returns_;
  std::vector<bool> ended_;
};

}  // namespace troupe::actors
