#pragma once
// What a replay process keeps across a kill -9 or a power cut: a log of the inserts in a folder of its own, from which
// its next incarnation fills the table again. The replay role (actors/roles/replay_actor) appends every trajectory
// before it gives the producer's credit back, and says which rows have left the table, so that their segments can go.
//
//   append() -> memory -> advance() writes it to the page cache -> a sync, off the caller's thread, makes it durable
//
// Bounds. Rows stay in memory until they are durable, so that a failing disk costs nothing but its own work: the
// journal goes on in a new segment, with those rows again. At most max_unsynced_bytes of them are held; where that is
// not enough, a durable journal takes no more (accepts() is false), and a relaxed one lets rows pass unwritten, says so
// and counts them, so that training goes on. The disk holds the table's rows, 48 bytes more a trajectory, and at most
// two segments more.
//
// Not kept: priorities that learners set, and how often an item was sampled. Rows come back with the priority that they
// were inserted with, unless a checkpoint has a newer one (Table::restore_priorities); the first batches that draw them
// set it anew. Journaling updates would cost a prioritised table of small rows more bytes than its rows.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/clock.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/stacks.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/replay/journal_folder.hpp>
#include <troupe/replay/selector.hpp>

namespace troupe::replay {

/// Which trajectory of which producer; counts up within an incarnation.
struct ProducerSequence {
  std::uint32_t index = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t sequence = 0;
};

/// The last trajectory of each producer, so that one that is sent again is known. Producers send in order.
class SeenProducers {
 public:
  struct Last {
    std::uint32_t incarnation = 0;
    std::uint64_t sequence = 0;
    friend bool operator==(const Last&, const Last&) = default;
  };
  /// Whether this trajectory or a later one of its producer was noted.
  bool seen(const ProducerSequence& id) const;
  void note(const ProducerSequence& id) { last_[id.index] = {id.incarnation, id.sequence}; }
  const std::map<std::uint32_t, Last>& all() const { return last_; }
  friend bool operator==(const SeenProducers&, const SeenProducers&) = default;

 private:
  std::map<std::uint32_t, Last> last_;
};

/// Producer indices lie below it: each producer takes 16 bytes at the head of every segment.
inline constexpr std::uint32_t kMaxJournalProducers = 65'536;

/// One trajectory. Borrows.
struct JournalRecord {
  std::optional<ProducerSequence> producer;  ///< none: rows that were in the table before the journal began
  std::int64_t samples = 0;  ///< drawn from the table before this insert: the limiter goes on from the last one
  BatchView rows;            ///< at least one, whole or split
  std::span<const double> priorities;  ///< one a row, or empty
};

enum class Durability {
  kRelaxed,  ///< an insert is safe from a kill at once, from a power cut after sync_period and a sync
  kDurable,  ///< an insert counts as acknowledged only once it is safe from a power cut
};

struct JournalOptions {
  std::string owner;  ///< whose journal it is, e.g. "RUN_ID/replay-0"; another's is refused
  Signature signature;
  Durability durability = Durability::kRelaxed;
  Duration sync_period = std::chrono::milliseconds(500);      ///< of a relaxed journal: age at which rows are synced
  Duration retry_period = std::chrono::seconds(1);            ///< after a failure of the disk
  std::int64_t segment_bytes = std::int64_t{64} << 20;        ///< 4 KiB..128 MiB; passed by at most one write
  std::int64_t max_unsynced_bytes = std::int64_t{256} << 20;  ///< 4 KiB..256 MiB
  /// Sync on a second thread. Without, advance() blocks for the disk: for runs that must repeat.
  bool background = true;
};

/// A point between two records, for a checkpoint to name.
struct JournalPosition {
  std::uint64_t generation = 0;  ///< counts the openings of the journal
  std::uint64_t row = 0;
};

/// What recovery found.
struct Recovery {
  std::int64_t rows = 0;
  std::int64_t bytes = 0;         ///< read
  std::int64_t torn_bytes = 0;    ///< of writes that were not finished and are dropped
  std::int64_t missing_rows = 0;  ///< before the position asked for: written less than a sync before a power cut
};

/// Gets every record in order, with the key of its first row; keys are consecutive. Borrowed for the call. An error
/// ends the recovery.
using RecordSink = std::function<Status(Key first, const JournalRecord& record)>;

struct JournalStats {
  std::int64_t disk_bytes = 0;
  std::int64_t unsynced_bytes = 0;
  std::int64_t lost_rows = 0;  ///< passed unwritten since the journal was opened
  std::int64_t failures = 0;   ///< of writes and syncs
  Duration last_sync{};        ///< how long it took
};

/// Not thread-safe; two journals never write to one folder at a time, and if they do (a process that was declared dead
/// wakes up), the one opened last is believed.
class Journal {
 public:
  struct Opened {
    std::unique_ptr<Journal> journal;
    Recovery recovery;
  };
  /// Hands all rows to `sink` and goes on behind them. `until`: only what was there at that point of an earlier run;
  /// what came later is forgotten. Every byte that counts is verified first. What a crash left unfinished, behind what
  /// was synced, is dropped with one line; a disk that takes no writes yet is a matter of advance().
  /// Errors: kCorrupt (a segment is damaged or missing, naming file, offset, got and expected: nothing is skipped or
  /// repaired), kInvalidArgument (another owner, an option), kShapeMismatch (another signature), kIo, the sink's.
  static Result<Opened> recover(std::shared_ptr<JournalFolder> folder, const JournalOptions& options, Duration now,
                                const RecordSink& sink, std::optional<JournalPosition> until = {});
  /// Hands the rows to `sink` as recover() does, and leaves the folder as it is: for rows that move elsewhere.
  static Result<Recovery> read(JournalFolder& folder, const JournalOptions& options, const RecordSink& sink,
                               JournalPosition until);
  /// Forgets what the folder holds and begins with the row of this key. Errors: as recover().
  static Result<std::unique_ptr<Journal>> begin(std::shared_ptr<JournalFolder> folder, const JournalOptions& options,
                                                Duration now, Key first, const SeenProducers& producers = {});
  ~Journal();  ///< Syncs what was written, if the disk lets it.
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// False while a durable journal is full and must wait for its disk.
  bool accepts() const;
  /// Copies the record into memory. Errors: kInvalidArgument (no rows, another signature, more bytes than a segment
  /// may have, a plane that is not there, or a producer beyond the bound); kUnavailable when !accepts().
  Status append(const JournalRecord& record);
  /// Writes what was appended, takes note of a finished sync and begins one that is due. A failure of the disk is
  /// logged once and tried again; it is no error of the caller.
  void advance(Duration now);
  /// How long after now advance() wants to be called; nothing: not before the next append().
  std::optional<Duration> due(Duration now) const;

  /// Rows appended so far count up to here; those before acknowledged() keep what the durability promises.
  std::uint64_t appended() const { return appended_; }
  std::uint64_t acknowledged() const;
  const SeenProducers& producers() const { return producers_; }
  /// False while the disk fails: then the rows since the last sync are in memory only.
  bool healthy() const { return state_ == State::kWorking; }
  /// "journal: fdatasync /data/journal-...: Input/output error (12.0 s ago)"; empty when nobody needs to wait.
  std::string waiting_for(Duration now) const;

  /// Where a checkpoint taken now finds its rows again. Nothing when it must store them itself: the disk fails, or rows
  /// have passed unwritten.
  std::optional<JournalPosition> position() const;
  /// Segments that hold none of the newest `rows` rows on disk are deleted in the background.
  void keep_newest(std::int64_t rows);

  JournalStats stats() const;

 private:
  struct Segment {
    std::string name;
    std::uint64_t first_row = 0;
    std::uint64_t end_row = 0;  ///< behind its last row that counts
    std::uint64_t bytes = 0;
    std::shared_ptr<JournalFile> file;  ///< while something of it is not synced, or it is the newest
    bool dirty = false;
  };
  /// Encoded records on their way to the disk, one write.
  struct Block {
    std::vector<std::byte> bytes;
    std::uint64_t end_row = 0;
    std::vector<ProducerSequence> producers;
  };
  /// What the second thread does, in this order.
  struct Job {
    std::vector<std::shared_ptr<JournalFile>> files;  ///< to sync
    std::string rename_from, rename_to;               ///< empty: none
    bool sync_names = false;
    std::vector<std::byte> claim;     ///< to be made durable; empty: none
    std::vector<std::string> remove;  ///< needs a claim that says so
  };
  enum class State {
    kWorking,
    kFailed,      ///< until retry_at_
    kRestarting,  ///< a new segment is being made durable
  };

  struct Done {
    Status status;                         ///< of all but the removals
    std::vector<std::string> not_removed;  ///< to be tried again
  };

  Journal(std::shared_ptr<JournalFolder> folder, JournalOptions options);
  static Status check(const JournalOptions& options);
  Status start_generation(Duration now, bool must);
  Block& open_block();
  void add_block(std::span<const std::byte> record, std::uint64_t rows,
                 const std::optional<ProducerSequence>& producer);
  void lose(std::int64_t rows);
  std::uint64_t written() const;
  SeenProducers producers_before(std::size_t block) const;
  Result<Segment> create_segment(std::size_t block, std::uint64_t synced_row, std::string_view suffix);
  void give_up(const std::string& name);
  void write_blocks(Duration now);
  void fail(const Error& error, Duration now);
  void restart(Duration now);
  bool dirty() const;
  bool sync_due(Duration now) const;
  void start_sync(Duration now);
  void start(Job job, std::uint64_t row, Duration now);
  static Done run(JournalFolder& folder, const Job& job);
  void reap(Duration now, bool wait);
  void synced_through(std::uint64_t row);
  std::uint64_t oldest_row() const;
  std::vector<std::byte> claim(std::uint64_t synced_row) const;

  const std::shared_ptr<JournalFolder> folder_;
  const JournalOptions options_;
  const Stacks stacks_;
  State state_ = State::kFailed;
  std::uint64_t generation_ = 1;
  std::uint64_t next_number_ = 1;
  std::vector<JournalPosition> lineage_;  // see the head of a segment
  Key key_offset_ = 0;                    // key of a row = row + key_offset_, as long as nothing was lost
  std::uint64_t appended_ = 0;
  std::uint64_t synced_ = 0;
  SeenProducers producers_;                    // of everything appended
  SeenProducers synced_producers_;             // of rows before synced_
  std::vector<Segment> segments_;              // oldest first; the last is written to while working
  std::deque<Block> blocks_;                   // rows synced_ .. appended_
  std::size_t written_blocks_ = 0;             // of blocks_, into segments_
  std::vector<std::vector<std::byte>> spare_;  // memory of former blocks
  std::vector<std::string> doomed_;            // names to remove with the next sync
  std::vector<std::string> superseded_;        // names that are doomed once a new segment stands
  bool names_dirty_ = false;
  bool losing_ = false;  // and has said so
  JournalStats stats_;
  std::string last_error_;
  std::optional<Duration> failed_since_;
  // The job under way.
  std::future<Done> job_;
  std::uint64_t job_row_ = 0;  // rows before it are durable when it succeeds
  Duration job_started_{};
  std::optional<Segment> restarted_;  // the newest segment when it succeeds
  // Times.
  Duration now_{};          // of the last advance()
  Duration dirty_since_{};  // of the oldest write that no sync has covered
  Duration retry_at_{};
  Duration remove_at_{};
};

}  // namespace troupe::replay
