#pragma once
// The replay role: a shell around replay::Table. Inserts what env actors send and samples batches for learners, as far
// as the table's rate limiter admits; whoever must wait is held back by the credits of its channel. Several instances
// are one table in shards (replay/shards.hpp).
#include <memory>
#include <optional>
#include <vector>

#include <troupe/actors/topology.hpp>
#include <troupe/messages/trajectory.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::actors {

struct ReplayActorOptions {
  replay::TableOptions table;  ///< of all instances together; its seed is replaced by one from the role's identity
  std::int64_t batch = 256;    ///< rows of each batch sent
};

/// Ports: in trajectories (stream, Trajectory), priorities (stream, Priorities; always drained); out batches (stream,
/// Batch). Batches are sampled ahead as far as the learners have room for them.
class ReplayActor final : public Role {
 public:
  static RoleSpec spec(std::string name, std::int64_t count, const ReplayActorOptions& options);
  /// Errors: those of Table::make; kInvalidArgument when the limiter can never admit a whole batch.
  static Result<std::unique_ptr<Role>> make(const ReplayActorOptions& options, const RoleIdentity& identity);

  Result<Progress> step(RoleContext& context) override;
  std::string waiting_for() const override;
  void report(Report& report) const override;
  Result<RoleState> save() const override;
  Status restore(const RoleState& state) override;

 private:
  ReplayActor(const ReplayActorOptions& options, std::unique_ptr<replay::Table> table);

  Status take_priorities(Inlet& inlet);
  /// Inserts what the limiter admits of the trajectories that wait. True when anything was inserted.
  Result<bool> insert(Inlet& inlet);
  /// Samples one batch if it is admitted and somebody has room. True when one was sent.
  Result<bool> sample(RoleContext& context);

  std::int64_t batch_;
  std::unique_ptr<replay::Table> table_;
  std::shared_ptr<const Signature> signature_;
  std::vector<replay::SampledItem> items_;
  std::uint64_t batches_ = 0;
  std::int64_t unknown_priorities_ = 0;
  /// A trajectory of which only the first rows were admitted so far. Its credit has gone back already, so at most one
  /// frame more than the channel's capacity is held.
  std::optional<messages::TrajectoryView> current_;
  std::int64_t current_row_ = 0;
};

}  // namespace troupe::actors
