#pragma once
// A policy that plays: network, columns and the choice of actions for several environments, with parameters that its
// owner gives. Evaluations (actors/roles/episode_runner) and films (run/pictures/film) play with it, outside of a run's
// data.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <troupe/actors/roles/policy_rows.hpp>
#include <troupe/algorithms/acting/exploration.hpp>
#include <troupe/core/error.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/learner/engine/policy.hpp>

namespace troupe::actors {

class Player {
 public:
  /// Plays policy->rows() environments of `spec`. Errors: kShapeMismatch, naming the column, when policy, exploration
  /// and environment do not fit each other; those of `exploration`.
  static Result<std::unique_ptr<Player>> make(std::unique_ptr<learner::Policy> policy, const envs::EnvSpec& spec,
                                              const acting::MakeExploration& exploration);

  learner::Policy& policy() { return *policy_; }
  /// The environment of a row begins an episode, or goes on, with this observation (packed).
  void first(std::size_t row, std::span<const std::byte> observation);
  void next(std::size_t row, std::span<const std::byte> observation);
  /// The actions of all rows, [rows, spec.action.tensor.bytes()]; valid until the next call. Errors: the policy's;
  /// kInternal when it gives values that are not finite.
  Result<std::span<const std::byte>> act();

 private:
  Player(std::unique_ptr<learner::Policy> policy, std::unique_ptr<PolicyRows> rows,
         std::vector<std::unique_ptr<acting::Exploration>> explorations, std::size_t action_bytes);

  std::unique_ptr<learner::Policy> policy_;
  std::unique_ptr<PolicyRows> rows_;
  std::vector<std::unique_ptr<acting::Exploration>> explorations_;  // one a row
  std::vector<bool> first_;
  std::vector<std::byte> acted_;    // one packed row
  std::vector<std::byte> actions_;  // [rows, action_bytes_]
  std::size_t action_bytes_;
};

/// One exploration for each of `count` environments, the first of which is environment `first` of `all` in the run,
/// each with a seed of its own; the first has `seed` itself. Errors: kShapeMismatch when what they give does not begin
/// with the environment's action, or differs among them; those of `make`.
Result<std::vector<std::unique_ptr<acting::Exploration>>> make_explorations(const acting::MakeExploration& make,
                                                                            const envs::EnvSpec& spec,
                                                                            std::int64_t count,
                                                                            const acting::Explorer& first);

/// The seed of the instance `index` of several that one actor owns; the first has `seed` itself.
std::uint64_t instance_seed(std::uint64_t seed, std::int64_t index);

}  // namespace troupe::actors
