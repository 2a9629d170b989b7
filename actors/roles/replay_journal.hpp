#pragma once
// The replay role's side of its journal (replay/journal.hpp): which trajectories may be acknowledged, where a table
// comes from after a restart, and what a checkpoint says instead of the table's rows.
//
// A checkpoint of a table with a journal names a place in the journal and holds the items' priorities, so that a cut of
// gigabytes takes milliseconds and no second copy of the rows lies on disk. The journal keeps the rows of the newest
// kCheckpoints cuts that were committed and of the one under way, but never more than twice the table's: from an older
// checkpoint the oldest items may be missing. While the disk fails, the checkpoint holds the rows itself.
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/actors/runtime/role.hpp>
#include <troupe/messages/trajectory.hpp>
#include <troupe/replay/journal.hpp>
#include <troupe/replay/table.hpp>

namespace troupe::actors {

struct ReplayJournalOptions {
  /// "relaxed" or "durable", see replay::Durability; "off"; "auto": relaxed where instances have folders of their own.
  std::string durability = "auto";
  bool background = true;                               ///< see replay::JournalOptions
  std::int64_t segment_bytes = std::int64_t{64} << 20;  ///< the same
};

/// Where the rows of a saved table are: in a journal on this host.
struct RowsElsewhere {
  std::string folder;
  replay::JournalPosition position;  ///< behind the newest of them
  std::uint64_t rows = 0;            ///< how many; 0: an older checkpoint does not say
};
std::vector<std::byte> encode(const RowsElsewhere& rows);
/// The folder as it is now: a run's directory, unless it is empty, may have been moved or copied, and takes its
/// journals (nodes/NODE/INSTANCE/journal) along. What is at the old place may be another run's. Errors: kCorrupt.
Result<RowsElsewhere> decode_rows_elsewhere(std::span<const std::byte> bytes,
                                            const std::filesystem::path& run_directory);

/// What has come back of it.
struct RestoredRows {
  bool newest_missing = false;  ///< rows that had not been synced when the power went
  bool begun_anew = false;      ///< nothing but the table's rows is in the new journal
};

class ReplayJournal {
 public:
  static constexpr std::size_t kCheckpoints = 3;

  /// Null where no journal is to be kept. Errors: kInvalidArgument (asked for, but there is no folder; or the table's
  /// items do not leave in the order in which they came).
  static Result<std::unique_ptr<ReplayJournal>> make(const ReplayJournalOptions& options, const RoleIdentity& identity,
                                                     const replay::TableOptions& table);

  // One of these before anything else. Errors: those of replay::Journal and replay::Table.

  /// Puts all rows of earlier incarnations into an empty table.
  Status recover(replay::Table& table);
  /// Fills the table as a checkpoint says.
  Result<RestoredRows> resume(replay::Table& table, std::span<const std::vector<std::byte>> items,
                              const RowsElsewhere& rows);
  /// Begins with the rows that the table holds, wherever they came from.
  Status adopt(const replay::Table& table);
  bool open() const { return journal_ != nullptr; }

  /// False while no more can be taken until the disk has caught up.
  bool accepts() const { return journal_->accepts(); }
  bool seen(const messages::TrajectoryInfo& info) const;
  /// Rows from `first` on of a trajectory. Errors: kInvalidArgument.
  Status append(const messages::TrajectoryView& trajectory, std::int64_t first, std::int64_t samples);
  /// The frame that was taken from the inlet last is given back once everything appended so far may be acknowledged.
  void hold() { held_.push_back(journal_->appended()); }
  /// Writes, syncs, gives credits back and lets go of all but the newest `rows` rows. Called after every insert.
  void advance(RoleContext& context, Inlet& inlet, std::int64_t rows);

  /// What a checkpoint of the newest `rows` rows says of them. Empty: it must hold them itself.
  std::optional<RowsElsewhere> save(std::int64_t rows);
  /// The checkpoint of the newest save() counts.
  void committed();
  /// An earlier process has saved these rows for a checkpoint that counts.
  void keep(const RowsElsewhere& rows);
  void report(Report& report) const;
  std::string waiting_for() const { return journal_->waiting_for(now_); }

 private:
  ReplayJournal(std::string name, std::filesystem::path folder, replay::JournalOptions options)
      : name_(std::move(name)), folder_(std::move(folder)), options_(std::move(options)) {}

  Error refused(const Error& error) const;

  const std::string name_;
  const std::filesystem::path folder_;
  const replay::JournalOptions options_;
  std::unique_ptr<replay::Journal> journal_;
  std::deque<std::uint64_t> held_;      // of each frame held, the row that must be acknowledged first
  std::deque<std::uint64_t> cut_rows_;  // oldest rows of the newest checkpoints that count
  std::optional<std::uint64_t> saved_;  // of the one under way
  double recovery_s_ = 0;
  Duration now_{};
  Duration wake_at_{-1};
};

/// Does the same as ReplayJournal::resume() for a table that goes on without a journal, or with another one. When the
/// folder is not there (on another host), the table has no items.
Result<RestoredRows> restore_elsewhere(replay::Table& table, std::span<const std::vector<std::byte>> items,
                                       const RowsElsewhere& rows, const std::string& name);

}  // namespace troupe::actors
