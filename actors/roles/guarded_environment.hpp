#pragma once
// An environment whose answers are not trusted: simulators diverge, and users write environments of their own. It
// stands between an env actor and its environment, so that one bad episode costs that episode and nothing else, and no
// NaN ever reaches replay. (The node looks after an environment that never comes back from a call.)
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/envs/wrapper.hpp>

namespace troupe::actors {

/// Errors of reset() and step(), after all of which only reset() may follow: those of the environment inside; what it
/// threw; kInternal when a number of the observation or the reward is not finite, the discount is not in 0..1, or an
/// episode does not begin with its first step and only there.
class GuardedEnvironment final : public envs::Wrapper {
 public:
  explicit GuardedEnvironment(std::unique_ptr<envs::Environment> inside) : Wrapper(std::move(inside)) {}

  Result<envs::TimeStep> reset(std::uint64_t seed, std::span<std::byte> observation) override;
  Result<envs::TimeStep> reset(std::span<std::byte> observation) override;
  Result<envs::TimeStep> step(std::span<const std::byte> action, std::span<std::byte> observation) override;

 private:
  Result<envs::TimeStep> checked(const Result<envs::TimeStep>& result, bool first,
                                 std::span<const std::byte> observation) const;
};

/// How often one environment has failed, and how often it may.
class EnvironmentFailures {
 public:
  /// Failures within the window at which the environment is given up.
  static constexpr std::size_t kMost = 5;
  static constexpr Duration kWindow = std::chrono::seconds(60);

  /// Counts a failure of `who`'s environment and says so in the log. Errors: `TRP-E150 ...` with the cause when it is
  /// the fifth in 60 s: this environment does not work.
  Status survive(const std::string& who, const std::string& environment, const Error& cause, std::int64_t dropped_steps,
                 Duration now);
  std::int64_t count() const { return count_; }

 private:
  std::deque<Duration> recent_;  ///< times of the failures within the window; at most kMost
  std::int64_t count_ = 0;
};

}  // namespace troupe::actors
