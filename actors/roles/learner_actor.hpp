#pragma once
// The learner role: a shell around the D4PG learner. Takes steps on what its input gives (actors/roles/learner_input),
// and publishes the policy's parameters.
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <troupe/actors/roles/learner_input.hpp>
#include <troupe/actors/roles/replay_batches.hpp>
#include <troupe/actors/roles/replay_intake.hpp>
#include <troupe/actors/runtime/cut_listener.hpp>
#include <troupe/actors/runtime/group_member.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/algorithms/d4pg/learner.hpp>
#include <troupe/learner/replicate/param_partition.hpp>

namespace troupe::actors {

struct LearnerActorOptions {
  learner::d4pg::LearnerOptions learner;
  std::vector<learner::Device> devices = {};  ///< instance i computes on the i-th modulo their count
  std::int64_t count = 1;                     ///< instances; several are a group, each with d4pg.batch rows of a step
  std::int64_t publish_period = 1;            ///< learner steps between two publications of the parameters
  std::int64_t max_steps = 0;                 ///< done after so many; 0: never
  std::size_t replay_shards = 1;              ///< instances of replay behind `batches` and `priorities`
  /// Replay in the memory of the learner's GPU: no replay role then. Of one learner alone.
  std::optional<ReplayActorOptions> gpu_replay = std::nullopt;
  std::size_t parameter_shards = 1;  ///< instances behind `updates`; each gets its piece of every version
  learner::ParamPartition partition = learner::ParamPartition::kRoundRobin;  ///< of the variables over them
  double importance_exponent = 0.4;  ///< used when learner.d4pg.importance_weights is set, see ReplayBatchesOptions
};

/// Ports: those of its input, ReplayBatches or GpuReplay; out updates (latest, Parameters); in refused (latest,
/// ParametersVersion), behind which its versions go on then.
/// The first parameters are published before the first step, since nobody can act without them. A version is published
/// when every parameter store has taken the one before, else a later one is: so all shards see the same ones. Of a GPU
/// they are copied while the next launch runs, and sent when they are there.
/// Of a group all take the same steps, each on batches of its own, and rank 0 publishes. A step that fails because a
/// member has gone is taken again in the next epoch with the same batch.
class LearnerActor final : public Role, public CutListener {
 public:
  static RoleSpec spec(std::string name, const LearnerActorOptions& options);
  static Result<std::unique_ptr<Role>> make(const LearnerActorOptions& options, const RoleIdentity& identity);

  Result<Progress> step(RoleContext& context) override;
  std::string waiting_for() const override { return input_->waiting_for(); }
  void report(Report& report) const override;
  Result<RoleState> save() const override;
  Status restore(const RoleState& state) override;
  void committed() override { input_->committed(); }

 private:
  LearnerActor(const LearnerActorOptions& options, std::shared_ptr<GroupSeat> seat,
               std::unique_ptr<learner::d4pg::Learner> learner, std::unique_ptr<LearnerInput> input);

  /// Of a new epoch: no two members may give out a version twice, whichever of them publishes.
  Status agree_on_versions();

  /// A parameter store knows newer versions: those of members that went on while this one was away, and are no more.
  void go_behind(RoleContext& context);

  /// Waits for the launch under way, if there is one: before the next, and before a checkpoint.
  Status settle() const;
  /// The same. False when the epoch ended in it.
  Result<bool> collect();
  /// What an error of a step means.
  Result<Progress> failed(Error error);
  /// Publishes the version if it is due and every store has room. Whether there is nothing left to publish.
  Result<bool> publish_if_due(Outlet& updates, messages::FramePool& pool, std::int64_t period);
  /// Sends the parameters that are being copied, if they are there.
  Status send_parameters(Outlet& updates, messages::FramePool& pool);
  std::int64_t steps() const { return learner_->program().step(); }
  std::int64_t version() const { return version_offset_ + steps(); }
  /// Promises on disk that no version up to `version` is ever used again, whatever happens to this process.
  Status reserve(std::int64_t version);

  LearnerActorOptions options_;
  std::string name_;
  std::filesystem::path run_directory_;
  GroupMember member_;
  bool agreed_ = false;  ///< has been in an epoch
  std::unique_ptr<learner::d4pg::Learner> learner_;
  std::unique_ptr<LearnerInput> input_;            ///< after the learner, whose memory it may use
  mutable std::int64_t under_way_ = 0;             ///< steps of the launch
  std::vector<messages::ParametersPiece> pieces_;  ///< by parameter store; of one store the whole
  std::int64_t published_ = -1;                    ///< version
  std::optional<std::int64_t> copied_;             ///< the version that is being copied from the learner's device
  std::uint64_t publications_ = 0;
  // A learner that was restarted from a checkpoint repeats steps, but not versions: those that it had published since
  // are known to actors. So it goes on behind the last version that it had reserved in its own folder.
  std::filesystem::path reservation_;  ///< empty: it has no folder, and is never restarted alone
  std::int64_t reserved_ = 0;
  std::int64_t version_offset_ = 0;             ///< version - steps
  mutable learner::d4pg::StepMetrics metrics_;  ///< of the last launch that ended
};

}  // namespace troupe::actors
