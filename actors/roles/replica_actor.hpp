#pragma once
// The role of a replica group: a shell around a replicator (learner/replicate/replicator.hpp). It takes a step at a
// time, reports the model's metrics and publishes what the group's evaluator judges.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <troupe/actors/roles/replica_exchange.hpp>
#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/actors/roles/replica_options.hpp>
#include <troupe/actors/roles/replica_publisher.hpp>
#include <troupe/actors/runtime/group_member.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/learner/replicate/multi_worker.hpp>
#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::actors {

struct ReplicaActorOptions {
  ReplicaModel model;
  ReplicaGroupOptions group;
  /// For a role with channels of its own: its replica is the exchange's, not the model's.
  std::optional<ReplicaExchangeSpec> exchange = std::nullopt;
};

/// Ports: when the model has an evaluation, out parameters (latest, Parameters; see ReplicaPublisher); those of its
/// exchange. Done after the group's steps. Its counters in a checkpoint are "steps" and the metrics of the newest step
/// (actors/roles/replica_results.hpp).
///
/// In a group (RoleSpec::group) a step that ends because a member has gone has changed nothing and is taken again in
/// the next epoch (actors/runtime/group_member.hpp).
class ReplicaActor final : public Role {
 public:
  /// The role of all of the group's replicators but those of a parameter server.
  static RoleSpec spec(const ReplicaActorOptions& options);
  static Result<std::unique_ptr<Role>> make(const ReplicaActorOptions& options, const RoleIdentity& identity);

  Result<Progress> step(RoleContext& context) override;
  std::string waiting_for() const override { return waiting_; }
  void report(Report& report) const override;
  Result<RoleState> save() const override;
  Status restore(const RoleState& state) override;

 private:
  ReplicaActor(ReplicaActorOptions options, const RoleIdentity& identity, ReplicaPublisher publisher);

  learner::Replica& replica() { return exchange_ != nullptr ? exchange_->replica() : *replica_; }
  /// The replicator, from the restored state if there is one. Not in make(), because where its input begins is known
  /// only after restore().
  Status start();
  std::int64_t steps() const { return replicator_->program().step(); }

  ReplicaActorOptions options_;
  std::string name_;
  std::int64_t instance_;
  std::filesystem::path run_directory_;
  GroupMember member_;
  std::unique_ptr<ReplicaExchange> exchange_;  ///< null: it trains alone
  std::unique_ptr<learner::Replica> replica_;  ///< null: it is the exchange's
  std::unique_ptr<learner::Replicator> replicator_;
  learner::MultiWorker* members_ = nullptr;  ///< replicator_, in a group
  ReplicaPublisher publisher_;
  RoleState restored_;  ///< until the start
  std::string waiting_;
};

}  // namespace troupe::actors
