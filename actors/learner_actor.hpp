#pragma once
// The learner role: a shell around the D4PG learner. Takes batches from replay, steps, publishes the policy's
// parameters and sends new priorities back, to the shard of replay that drew the batch, when replay is prioritised.
#include <filesystem>
#include <memory>
#include <vector>

#include <troupe/actors/group_member.hpp>
#include <troupe/actors/topology.hpp>
#include <troupe/learner/d4pg/learner.hpp>
#include <troupe/learner/param_partition.hpp>
#include <troupe/messages/batch.hpp>
#include <troupe/replay/shards.hpp>

namespace troupe::actors {

struct LearnerActorOptions {
  learner::d4pg::LearnerOptions learner;
  std::vector<learner::Device> devices = {};  ///< instance i computes on the i-th modulo their count
  std::int64_t count = 1;                     ///< instances; several are a group, each with d4pg.batch rows of a step
  std::int64_t publish_period = 1;            ///< learner steps between two publications of the parameters
  std::int64_t max_steps = 0;                 ///< done after so many; 0: never
  std::size_t replay_shards = 1;              ///< instances of replay behind `batches` and `priorities`
  std::size_t parameter_shards = 1;           ///< instances behind `updates`; each gets its piece of every version
  learner::ParamPartition partition = learner::ParamPartition::kRoundRobin;  ///< of the variables over them
  /// Exponent of the importance weights w = (1 / (N P))^beta / max w, used when learner.d4pg.importance_weights is set
  /// (Schaul et al. 2016, section 3.4).
  double importance_exponent = 0.4;
};

/// Ports: in batches (stream, Batch); out updates (latest, Parameters), priorities (stream, Priorities).
/// The first parameters are published before the first batch comes, since nobody can act without them. A version is
/// published when every parameter store has taken the one before, else a later one is: so all shards see the same ones.
/// Of a group all take the same steps, each on batches of its own, and rank 0 publishes. A step that fails because a
/// member has gone is taken again in the next epoch with the same batch.
class LearnerActor final : public Role {
 public:
  static RoleSpec spec(std::string name, const LearnerActorOptions& options);
  static Result<std::unique_ptr<Role>> make(const LearnerActorOptions& options, const RoleIdentity& identity);

  Result<Progress> step(RoleContext& context) override;
  void report(Report& report) const override;
  Result<RoleState> save() const override;
  Status restore(const RoleState& state) override;

 private:
  LearnerActor(const LearnerActorOptions& options, std::shared_ptr<GroupSeat> seat,
               std::unique_ptr<learner::d4pg::Learner> learner);

  /// Of a new epoch: no two members may give out a version twice, whichever of them publishes.
  Status agree_on_versions();

  /// Publishes the version if it is due and every store has room. Whether there is nothing left to publish.
  Result<bool> publish_if_due(Outlet& updates, messages::FramePool& pool, std::int64_t period);
  Status publish(Outlet& updates, messages::FramePool& pool);
  /// The replay shard whose batch is next, if a batch waits that may be taken.
  Result<std::optional<std::size_t>> next_shard(RoleContext& context);
  /// The batch's columns with the importance weights behind them. share: of its shard, see replay::ShardMix.
  BatchView with_weights(const messages::SampledBatchView& batch, double share);
  Result<Frame> new_priorities(messages::FramePool& pool, const messages::SampledBatchView& batch) const;
  std::int64_t steps() const { return learner_->program().step(); }
  std::int64_t version() const { return version_offset_ + steps(); }
  /// Promises on disk that no version up to `version` is ever used again, whatever happens to this process.
  Status reserve(std::int64_t version);

  LearnerActorOptions options_;
  std::string name_;
  std::filesystem::path run_directory_;
  GroupMember member_;
  bool agreed_ = false;          ///< has been in an epoch
  Frame batch_;                  ///< of the step under way, or of the one that is to be taken again
  std::size_t batch_shard_ = 0;  ///< where it is from
  std::unique_ptr<learner::d4pg::Learner> learner_;
  replay::ShardMix mix_;
  Signature weighted_signature_;
  std::vector<float> weights_;
  std::vector<messages::ParametersPiece> pieces_;  ///< by parameter store; of one store the whole
  std::int64_t published_ = -1;                    ///< version
  std::uint64_t publications_ = 0;
  // A learner that was restarted from a checkpoint repeats steps, but not versions: those that it had published since
  // are known to actors. So it goes on behind the last version that it had reserved in its own folder.
  std::filesystem::path reservation_;  ///< empty: it has no folder, and is never restarted alone
  std::int64_t reserved_ = 0;
  std::int64_t version_offset_ = 0;  ///< version - steps
  learner::d4pg::StepMetrics metrics_;
};

}  // namespace troupe::actors
