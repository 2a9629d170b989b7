#pragma once
// The role that trains: a shell around a replicator (learner/replicate/replicator.hpp) that takes steps on what its
// feed gives (actors/roles/feed.hpp), reports the step's metrics and publishes what has been learnt
// (actors/roles/publication.hpp). It knows no algorithm: its replica says what a step is.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/actors/roles/feed.hpp>
#include <troupe/actors/roles/publication.hpp>
#include <troupe/actors/runtime/cut_listener.hpp>
#include <troupe/actors/runtime/group_member.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/learner/replicate/make_replicator.hpp>
#include <troupe/learner/replicate/multi_worker.hpp>

namespace troupe::actors {

struct TrainerOptions {
  FeedSpec feed;
  PublicationSpec publication;
  /// How replicas run; under kMultiWorker each instance is a member. Names, devices and the first step are each
  /// instance's own.
  learner::ReplicatorOptions how;
  std::int64_t count = 1;      ///< instances; several only under kMultiWorker, which are a group then
  std::int64_t max_steps = 0;  ///< done after so many; 0: never
  /// Called in each instance before the first step of a new run; null: the values are those of the graph.
  std::function<Status(learner::Program&)> begin_with = nullptr;
};

/// Ports: those of its feed and its publication. Its counters in a checkpoint are "steps" and the metrics of the newest
/// step that was not skipped (actors/roles/replica_results.hpp).
/// The replicator is made by the first step(), since where its input begins is known only after restore().
///
/// In a group (RoleSpec::group) all take the same steps, each on inputs of its own, and the first one publishes. A step
/// that fails because a member has gone has changed nothing, and is taken again in the next epoch with the same input.
class Trainer final : public Role, public CutListener {
 public:
  static RoleSpec spec(std::string name, const TrainerOptions& options);
  static Result<std::unique_ptr<Role>> make(const TrainerOptions& options, const RoleIdentity& identity);
  ~Trainer() override;

  Result<Progress> step(RoleContext& context) override;
  std::string waiting_for() const override { return feed_->waiting_for(); }
  void report(Report& report) const override;
  Result<RoleState> save() const override;
  Status restore(const RoleState& state) override;
  void committed() override;

 private:
  Trainer(const TrainerOptions& options, const RoleIdentity& identity);

  /// The replicator, from the restored state if there is one.
  Status start();
  /// Waits for the launch under way, if there is one: before the next, and before a checkpoint.
  Status settle() const;
  /// Does the same; false when the epoch ended in it.
  Result<bool> collect();
  /// What an error of a step means.
  Result<Progress> failed(Error error);
  /// Publishes what is due, and returns whether nothing is left to publish.
  Result<bool> publish(RoleContext& context, bool last);
  learner::Program& program() const { return replicator_->program(); }
  std::int64_t steps() const { return program().step(); }

  const TrainerOptions options_;
  const std::string name_;
  const std::int64_t instance_;
  const std::filesystem::path run_directory_;
  GroupMember member_;
  std::unique_ptr<Feed> feed_;
  std::unique_ptr<Publication> publication_;         ///< null: nobody wants to know
  std::unique_ptr<learner::Replicator> replicator_;  ///< after the feed, whose replica it runs; null: not started
  learner::MultiWorker* members_ = nullptr;          ///< the replicator, in a group
  std::optional<RoleState> restored_;                ///< until the start
  mutable std::int64_t under_way_ = 0;               ///< steps of the launch
  mutable std::vector<Scalar> metrics_;              ///< of the last step that was not skipped
};

}  // namespace troupe::actors
