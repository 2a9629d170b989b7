#pragma once
// The env actor: acts in its environments with the newest policy and the algorithm's exploration, and sends the items
// that the algorithm's adder makes to replay. First role of the flow env -> actor -> replay -> learner -> parameter
// store -> actor. With several environments it asks the policy once for all of them, which is what a batch of a network
// and a GPU want; each environment has its own random streams, adder, guard and episodes.
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <troupe/actors/roles/acting.hpp>
#include <troupe/actors/roles/guarded_environment.hpp>
#include <troupe/actors/roles/policy_rows.hpp>
#include <troupe/actors/roles/step_budget.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/algorithms/acting/exploration.hpp>
#include <troupe/envs/vector_env.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/messages/trajectory.hpp>
#include <troupe/replay/adder.hpp>

namespace troupe::actors {

struct EnvActorOptions {
  /// Makes an environment, whose episodes follow from the seed. Its columns are what policy and adder take.
  envs::MakeEnvironment make_environment;
  ActingSpec acting;
  acting::MakeExploration exploration;
  replay::MakeAdder adder;
  std::int64_t environments = 1;
  int threads = 1;  ///< that step them; changes no bit
};

/// Ports: out trajectories (stream, Trajectory), use (stream, ParametersUse), episodes (stream, Episode), that of its
/// StepBudget, and those of its acting. It waits for room for trajectories, for actions and for steps that it may take;
/// it is done when the run has had all of its steps. Uses and episodes are for people to look at, so when
/// nobody takes them they are merged and counted as unreported, and acting goes on. `use` goes to the first parameter
/// store, so that each step is counted once.
/// An environment that fails is reset alone; see EnvironmentFailures for how often, and for the error that ends the
/// instance. A trajectory holds items of all environments.
class EnvActor final : public Role {
 public:
  /// A restarted instance needs nothing but options and identity.
  static RoleSpec spec(std::string name, std::int64_t count, const EnvActorOptions& options);
  /// Errors: kShapeMismatch or kInvalidArgument when environment, policy, exploration and adder do not fit each other;
  /// theirs.
  static Result<std::unique_ptr<Role>> make(const EnvActorOptions& options, const RoleIdentity& identity);

  Result<Progress> step(RoleContext& context) override;
  std::string waiting_for() const override;
  void report(Report& report) const override;
  Result<RoleState> save() const override;
  Status restore(const RoleState& state) override;

 private:
  /// What each environment has of its own, besides its row in environments_ and rows_.
  struct Slot {
    std::unique_ptr<replay::Adder> adder;
    std::unique_ptr<acting::Exploration> exploration;
    EnvironmentFailures failures;
    std::optional<Error> failed;  ///< in this round, and not yet told
    bool in_episode = false;
    double episode_return = 0;
    std::int64_t episode_steps = 0;
  };
  EnvActor(const RoleIdentity& identity, std::unique_ptr<envs::VectorEnv> environments,
           std::unique_ptr<PolicyRows> rows, std::unique_ptr<Acting> acting, std::vector<Slot> slots);

  enum class Acted { kSteps, kEpisodeEnd, kWaiting };
  /// One step of every environment that may take one, with the resets that must precede them.
  Result<Acted> act(RoleContext& context);
  Status begin_episodes();
  /// Chooses actions for at most budget_.left() environments, in turn.
  Status choose_actions();
  /// Adds what the environments answered. Whether an episode has ended.
  Result<bool> take_steps();
  void break_off(std::size_t slot, const Error& cause);
  /// Sends what is written and counts the failures of this round. Errors: a failure that ends the instance.
  Status tell_failures(RoleContext& context);
  bool any_failed() const;
  std::int64_t rows_of_round() const;  ///< the most that a round may add
  std::int64_t rows_at_most() const;   ///< the most that a trajectory may have
  bool room_for_a_round() const;

  Status begin_trajectory(RoleContext& context);
  void send_trajectory(RoleContext& context);
  void count_use(std::int64_t steps);
  void end_episode(Slot& slot);
  /// Sends what there is room for.
  Status send_observations(RoleContext& context);
  std::vector<std::byte> written_rows() const;

  RoleIdentity identity_;
  std::unique_ptr<envs::VectorEnv> environments_;
  std::unique_ptr<PolicyRows> rows_;
  std::unique_ptr<Acting> acting_;
  std::vector<Slot> slots_;
  StepBudget budget_;
  std::shared_ptr<const Signature> signature_;

  // What belongs to the round under way.
  std::vector<envs::Move> moves_;
  std::vector<std::byte> acted_;    ///< [environments, acted_bytes_], packed rows
  std::vector<std::byte> actions_;  ///< [environments, bytes of an action]
  std::size_t acted_bytes_;

  bool waiting_ = false;       ///< for actions
  std::size_t turn_ = 0;       ///< the environment that steps first when not all may
  std::int64_t version_ = -1;  ///< that chose the last actions
  std::int64_t episodes_ = 0;
  std::int64_t dropped_steps_ = 0;  ///< whose items a failure of an environment cut off

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
