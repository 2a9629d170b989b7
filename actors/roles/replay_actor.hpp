#pragma once
// The replay role: a shell around replay::Table. Inserts what env actors send (actors/roles/replay_intake) and samples
// batches for learners, as far as the table's rate limiter admits; whoever must wait is held back by the credits of its
// channel. Several instances are one table in shards (replay/shards.hpp).
#include <memory>
#include <vector>

#include <troupe/actors/roles/replay_intake.hpp>
#include <troupe/actors/roles/sample_requests.hpp>
#include <troupe/actors/runtime/cut_listener.hpp>
#include <troupe/actors/runtime/topology.hpp>
#include <troupe/messages/reports.hpp>

namespace troupe::actors {

/// Ports: in trajectories (stream, Trajectory), priorities (stream, Priorities; always drained); with clients also
/// samples (request, SampleRequest, answered by Batch); out batches (stream, Batch). Batches are sampled ahead as far
/// as the learners have room for them. Clients and learners draw in turns; clients in their order, each until its time
/// is over.
class ReplayActor final : public Role, public CutListener {
 public:
  static RoleSpec spec(std::string name, std::int64_t count, const ReplayActorOptions& options);
  /// Errors: those of ReplayIntake::make().
  static Result<std::unique_ptr<Role>> make(const ReplayActorOptions& options, const RoleIdentity& identity);

  Result<Progress> step(RoleContext& context) override;
  std::string waiting_for() const override { return intake_->waiting_for(batch_); }
  void report(Report& report) const override;
  Result<RoleState> save() const override;
  Status restore(const RoleState& state) override;
  void committed() override { intake_->committed(); }

 private:
  ReplayActor(const ReplayActorOptions& options, std::unique_ptr<ReplayIntake> intake);

  Status take_priorities(RoleContext& context);
  /// How many of its keys were unknown.
  Result<std::int64_t> apply(const messages::PriorityUpdate& update);
  /// Samples one batch if it is admitted and somebody has room. True when one was sent.
  Result<bool> sample(RoleContext& context);
  Result<Frame> draw(RoleContext& context, std::int64_t rows);
  void take_requests(RoleContext& context);
  /// Answers the client that has waited the longest, if its rows are admitted. True when it did.
  Result<bool> serve(RoleContext& context);

  const std::int64_t batch_;
  const bool clients_;
  std::unique_ptr<ReplayIntake> intake_;
  std::vector<replay::SampledItem> items_;
  AskedBatches asked_;         ///< by clients
  bool clients_turn_ = false;  ///< learners have drawn the last batch
  std::uint64_t batches_ = 0;
  std::int64_t unknown_priorities_ = 0;
};

}  // namespace troupe::actors
