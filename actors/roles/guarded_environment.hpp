#pragma once
// An environment whose answers are not trusted: simulators diverge, and users write environments of their own. Between
// an env actor and its environment, so that one bad episode costs that episode and nothing else, and no NaN ever
// reaches replay. (An environment that never comes back from a call is the node's business, not this one's.)
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/envs/environment.hpp>

namespace troupe::actors {

class GuardedEnvironment {
 public:
  /// Failures within the window at which the environment is given up.
  static constexpr std::size_t kMostFailures = 5;
  static constexpr Duration kWindow = std::chrono::seconds(60);

  explicit GuardedEnvironment(std::unique_ptr<envs::Environment> environment);

  const envs::EnvSpec& spec() const { return environment_->spec(); }

  /// As the environment's, with observations as flat floats: observation has spec().observation_size() elements.
  /// Errors, after all of which only reset() may follow: the environment's own; what it threw; kInternal when an
  /// observation or reward is not finite, the discount is not in 0..1, or an episode does not begin with its first step
  /// and only there.
  Result<envs::TimeStep> reset(std::span<float> observation);
  Result<envs::TimeStep> step(std::span<const float> action, std::span<float> observation);

  /// Counts a failure of `who`'s environment and says so in the log. Errors: `TRP-E150 ...` with the cause when it is
  /// the fifth in 60 s: this environment does not work.
  Status survive(const std::string& who, const Error& cause, std::int64_t dropped_steps, Duration now);
  std::int64_t failures() const { return failures_; }

  std::vector<std::byte> save_state() const { return environment_->save_state(); }
  Status restore_state(std::span<const std::byte> state) { return environment_->restore_state(state); }

 private:
  Result<envs::TimeStep> checked(const Result<envs::TimeStep>& result, bool first, std::span<float> observation) const;

  std::unique_ptr<envs::Environment> environment_;
  std::vector<std::byte> raw_observation_;
  std::vector<double> action_;
  std::deque<Duration> recent_;  ///< times of the failures within the window; at most kMostFailures
  std::int64_t failures_ = 0;
};

}  // namespace troupe::actors
