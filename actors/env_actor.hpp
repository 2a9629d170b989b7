#pragma once
// The env actor: acts in one environment with the newest policy plus exploration noise and sends n-step transitions to
// replay. First role of the flow env -> actor -> replay -> learner -> parameter store -> actor.
#include <memory>
#include <vector>

#include <troupe/actors/parameters_assembler.hpp>
#include <troupe/actors/topology.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/envs/environment.hpp>
#include <troupe/learner/policy.hpp>
#include <troupe/replay/n_step_adder.hpp>

namespace troupe::actors {

struct EnvActorOptions {
  std::string env;
  double sigma = 0.3;  ///< of the Gaussian noise, in units of half the action range (Acme: fixed, not annealed)
  std::int64_t n_step = 5;
  double discount = 0.99;
  std::int64_t max_env_steps = 0;  ///< of all instances together, in equal shares; 0: no limit
  /// Makes the policy network for one observation at a time.
  std::function<Result<std::unique_ptr<learner::Policy>>()> make_policy;
};

/// Ports: in parameters (latest, Parameters); out trajectories (stream, Trajectory), use (stream, ParametersUse),
/// episodes (stream, Episode). Waits for the first parameters before it acts. Use goes to the first parameter store, so
/// that each step is counted once.
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
           std::unique_ptr<learner::Policy> policy, replay::NStepAdder adder);

  Status take_parameters(RoleContext& context);
  /// Starts the next episode.
  Status reset();
  /// One environment step; appends transitions to `out` at row `row` and moves it. True when the episode has ended.
  Result<bool> act(const MutableBatchView& out, std::int64_t& row);

  EnvActorOptions options_;
  RoleIdentity identity_;
  std::unique_ptr<envs::Environment> environment_;
  std::unique_ptr<learner::Policy> policy_;
  ParametersAssembler assembler_;
  replay::NStepAdder adder_;
  std::shared_ptr<const Signature> signature_;
  Rng rng_;

  std::vector<std::byte> raw_observation_;
  std::vector<float> observation_;
  std::vector<float> action_;
  std::vector<double> env_action_;

  bool in_episode_ = false;
  std::int64_t version_ = -1;  ///< of the policy; -1 before the first
  std::int64_t env_steps_ = 0;
  std::int64_t episodes_ = 0;
  std::uint64_t sequence_ = 0;
  double episode_return_ = 0;
  std::int64_t episode_steps_ = 0;
};

}  // namespace troupe::actors
