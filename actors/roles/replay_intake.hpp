#pragma once
// The way into replay, for the role that owns a table: trajectories of env actors are checked, kept in the journal,
// inserted as far as the rate limiter admits, and acknowledged. Who draws from the table is another matter: the replay
// role, which sends batches to trainers (actors/roles/replay_actor), or a trainer that holds it, with rows in its
// device's memory (actors/roles/held_replay_feed).
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <troupe/actors/roles/replay_journal.hpp>
#include <troupe/actors/runtime/role.hpp>
#include <troupe/messages/trajectory.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::actors {

struct ReplayActorOptions {
  replay::TableOptions table;  ///< of all instances together; its seed is replaced by one from the role's identity
  std::int64_t batch = 256;    ///< rows of each batch
  ReplayJournalOptions journal;
  bool clients = false;  ///< programs outside of the run may ask for samples
};

using MakeTable = std::function<Result<std::unique_ptr<replay::Table>>(replay::TableOptions)>;

/// Port: in trajectories (stream, Trajectory). A trajectory that does not fit the table is dropped and counted. With a
/// journal, a trajectory's credit goes back when it is safe, and one that comes again after a restart is known.
class ReplayIntake {
 public:
  /// Errors: those of make_table; kInvalidArgument when the limiter can never admit a whole batch.
  static Result<std::unique_ptr<ReplayIntake>> make(const ReplayActorOptions& options, const RoleIdentity& identity,
                                                    const MakeTable& make_table = &replay::Table::make);

  replay::Table& table() { return *table_; }
  const replay::Table& table() const { return *table_; }
  const std::shared_ptr<const Signature>& signature() const { return signature_; }
  bool has_journal() const { return journal_ != nullptr; }

  /// Inserts what the limiter admits of the trajectories that wait. True when anything was inserted.
  Result<bool> take(RoleContext& context);

  /// Why nothing can be inserted, kept, or drawn as a batch of so many rows; empty: all can.
  std::string waiting_for(std::int64_t batch) const;
  void report(Report& report) const;
  /// Adds the table, or where its rows are, and a trajectory of which only the first rows were admitted so far.
  void save(RoleState& state) const;
  Status restore(const RoleState& state);
  void committed() {
    if (journal_) journal_->committed();
  }

 private:
  ReplayIntake(const RoleIdentity& identity, std::unique_ptr<replay::Table> table,
               std::unique_ptr<ReplayJournal> journal);

  /// The next trajectory to insert becomes current_. False when there is none.
  Result<bool> take_trajectory(RoleContext& context);
  Status check(const messages::TrajectoryView& trajectory) const;
  Result<bool> insert(RoleContext& context);
  Result<RestoredRows> restore_table(const RoleState& state);
  /// The newest rows of the journal that this role's state is made of.
  std::int64_t journaled_rows() const;

  const std::string name_;
  const std::filesystem::path run_directory_;
  std::unique_ptr<replay::Table> table_;
  std::unique_ptr<ReplayJournal> journal_;  ///< null: none is kept
  std::shared_ptr<const Signature> signature_;
  std::int64_t rejected_ = 0;
  std::int64_t duplicates_ = 0;
  /// A trajectory of which only the first rows were admitted so far. Its credit may have gone back already, so at most
  /// one frame more than the channel's capacity is held. The journal has all of it.
  std::optional<messages::TrajectoryView> current_;
  std::int64_t current_row_ = 0;
};

}  // namespace troupe::actors
