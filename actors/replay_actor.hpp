#pragma once
// The replay role: a shell around replay::Table. Inserts what env actors send and samples batches for learners, as far
// as the table's rate limiter admits; whoever must wait is held back by the credits of its channel. Several instances
// are one table in shards (replay/shards.hpp).
#include <memory>
#include <optional>
#include <vector>

#include <troupe/actors/replay_journal.hpp>
#include <troupe/actors/topology.hpp>
#include <troupe/messages/trajectory.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::actors {

struct ReplayActorOptions {
  replay::TableOptions table;  ///< of all instances together; its seed is replaced by one from the role's identity
  std::int64_t batch = 256;    ///< rows of each batch sent
  ReplayJournalOptions journal;
};

/// Ports: in trajectories (stream, Trajectory), priorities (stream, Priorities; always drained); out batches (stream,
/// Batch). Batches are sampled ahead as far as the learners have room for them. A trajectory that does not fit the
/// table is dropped and counted. With a journal, a trajectory's credit goes back when it is safe, and one that comes
/// again after a restart is known.
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
  ReplayActor(const ReplayActorOptions& options, std::string name, std::unique_ptr<replay::Table> table,
              std::unique_ptr<ReplayJournal> journal);

  Status take_priorities(Inlet& inlet);
  /// The next trajectory to insert becomes current_. False when there is none.
  Result<bool> take_trajectory(Inlet& inlet);
  Status check(const messages::TrajectoryView& trajectory) const;
  Result<RestoredRows> restore_table(const RoleState& state);
  /// The newest rows of the journal that this role's state is made of.
  std::int64_t journaled_rows() const;
  /// Inserts what the limiter admits of the trajectories that wait. True when anything was inserted.
  Result<bool> insert(Inlet& inlet);
  /// Samples one batch if it is admitted and somebody has room. True when one was sent.
  Result<bool> sample(RoleContext& context);

  const std::string name_;
  std::int64_t batch_;
  std::unique_ptr<replay::Table> table_;
  std::unique_ptr<ReplayJournal> journal_;  ///< null: none is kept
  std::shared_ptr<const Signature> signature_;
  std::vector<replay::SampledItem> items_;
  std::uint64_t batches_ = 0;
  std::int64_t unknown_priorities_ = 0;
  std::int64_t rejected_ = 0;
  std::int64_t duplicates_ = 0;
  /// A trajectory of which only the first rows were admitted so far. Its credit may have gone back already, so at most
  /// one frame more than the channel's capacity is held. The journal has all of it.
  std::optional<messages::TrajectoryView> current_;
  std::int64_t current_row_ = 0;
};

}  // namespace troupe::actors
