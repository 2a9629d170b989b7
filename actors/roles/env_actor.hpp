#pragma once
// The env actor: acts in one environment with the newest policy plus exploration noise and sends n-step transitions to
// replay. First role of the flow env -> actor -> replay -> learner -> parameter store -> actor.
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/roles/acting.hpp>
#include <troupe/actors/roles/guarded_environment.hpp>
#include <troupe/actors/roles/step_budget.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/messages/trajectory.hpp>
#include <troupe/replay/n_step_adder.hpp>

namespace troupe::actors {

struct EnvActorOptions {
  /// Makes the environment, whose episodes follow from the seed.
  envs::MakeEnvironment make_environment;
  ActingSpec acting;
  double sigma = 0.3;  ///< of the Gaussian noise, in units of half the action range (Acme: fixed, not annealed)
  /// Of the noise of two successive steps, in [0, 1): an AR(1) process, which DDPG's Ornstein-Uhlenbeck noise is
  /// (Lillicrap et al. 2016, arXiv 1509.02971; 1 - theta dt). Its deviation stays sigma; each episode begins anew.
  double noise_correlation = 0;
  std::int64_t n_step = 5;
  double discount = 0.99;
};

/// Ports: out trajectories (stream, Trajectory), use (stream, ParametersUse), episodes (stream, Episode), that of its
/// StepBudget, and those of its acting. It waits for room for trajectories, for actions and for steps that it may take;
/// it is done when the run has had all of its steps. Uses and episodes are for people to look at, so when
/// nobody takes them they are merged and counted as unreported, and acting goes on. Use goes to the first
/// parameter store, so that each step is counted once.
/// An environment that fails is reset; see GuardedEnvironment for how often, and for the error that ends the instance.
class EnvActor final : public Role {
 public:
  /// What it may be restarted with: nothing but options and identity.
  static RoleSpec spec(std::string name, std::int64_t count, const EnvActorOptions& options);
  static Result<std::unique_ptr<Role>> make(const EnvActorOptions& options, const RoleIdentity& identity);

  Result<Progress> step(RoleContext& context) override;
  std::string waiting_for() const override;
  void report(Report& report) const override;
  Result<RoleState> save() const override;
  Status restore(const RoleState& state) override;

 private:
  EnvActor(EnvActorOptions options, const RoleIdentity& identity, std::unique_ptr<envs::Environment> environment,
           std::unique_ptr<Acting> acting, replay::NStepAdder adder);

  enum class Acted { kStep, kEpisodeEnd, kWaiting, kFailed };
  /// One environment step, with whatever reset must precede it.
  Result<Acted> act(RoleContext& context);
  /// Errors: kInternal when the action before it is not finite.
  Status add_noise();
  /// Drops the episode; the next step begins another. kFailed, or the error that ends the instance.
  Result<Acted> environment_failed(RoleContext& context, const Error& cause);
  std::int64_t rows_at_most() const;

  Status begin_trajectory(RoleContext& context);
  void send_trajectory(RoleContext& context);
  void count_use();
  void end_episode();
  /// Sends what there is room for.
  Status send_observations(RoleContext& context);

  EnvActorOptions options_;
  RoleIdentity identity_;
  GuardedEnvironment environment_;
  std::unique_ptr<Acting> acting_;
  StepBudget budget_;
  replay::NStepAdder adder_;
  std::shared_ptr<const Signature> signature_;
  Rng rng_;

  std::vector<float> observation_;
  std::vector<float> action_;
  std::vector<double> noise_;  ///< of the last step, of deviation 1

  bool in_episode_ = false;
  bool waiting_ = false;       ///< for an action
  std::int64_t version_ = -1;  ///< that chose the last action
  std::int64_t episodes_ = 0;
  std::int64_t dropped_steps_ = 0;  ///< whose transitions a failure of the environment cut off
  double episode_return_ = 0;
  std::int64_t episode_steps_ = 0;

  /// The trajectory that is being filled, over several calls of step() when actions come from a server.
  std::optional<messages::TrajectoryBuilder> trajectory_;
  std::vector<std::byte> restored_rows_;  ///< of a checkpoint, column by column, until there is a frame to fill
  std::int64_t trajectory_rows_ = 0;
  std::int64_t trajectory_steps_ = 0;
  std::uint64_t sequence_ = 0;

  std::deque<messages::ParametersUse> uses_;      ///< not yet sent, oldest first; bounded
  std::deque<messages::EpisodeReport> finished_;  ///< not yet sent, oldest first; bounded
  std::int64_t episodes_unreported_ = 0;          ///< dropped, because nobody took them
};

}  // namespace troupe::actors
