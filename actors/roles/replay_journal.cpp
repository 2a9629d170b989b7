#include <troupe/actors/roles/replay_journal.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include <troupe/core/clock.hpp>
#include <troupe/core/log.hpp>
#include <troupe/core/stacks.hpp>
#include <troupe/replay/bytes.hpp>

namespace troupe::actors {
namespace {

using replay::Durability;
using replay::Journal;
using replay::Key;

/// Of a run's directory, the folder with one for each node (run/node.hpp).
constexpr const char* kNodes = "nodes";
/// A table is copied into a new journal in pieces of about so many bytes, each of which gets this long on the disk.
constexpr std::size_t kCopyBytes = std::size_t{1} << 20;
constexpr Duration kCopyPatience = std::chrono::seconds(60);

replay::ProducerSequence id_of(const messages::TrajectoryInfo& info) {
  return {info.producer, info.incarnation, info.sequence};
}

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

/// restore_items(), with a line when items are missing.
Status restore(replay::Table& table, std::span<const std::vector<std::byte>> items, const std::string& name,
               const replay::RowSource& source) {
  TROUPE_ASSIGN(const std::int64_t missing, table.restore_items(items, source));
  if (missing == 0) return {};
  log::warn("TRP-W302 {}: {} items of the checkpoint are not in the journal any more; {} are", name, missing,
            table.info().items);
  return {};
}

}  // namespace

std::vector<std::byte> encode(const RowsElsewhere& rows) {
  replay::ByteWriter out;
  out.put_string(rows.folder);
  out.put(rows.position.generation);
  out.put(rows.position.row);
  out.put(rows.rows);
  return out.take();
}

Result<RowsElsewhere> decode_rows_elsewhere(std::span<const std::byte> bytes,
                                            const std::filesystem::path& run_directory) {
  replay::ByteReader in(bytes);
  RowsElsewhere rows;
  rows.folder = in.get_string();
  rows.position.generation = in.get<std::uint64_t>();
  rows.position.row = in.get<std::uint64_t>();
  if (!in.finished()) rows.rows = in.get<std::uint64_t>();
  if (!in.finished()) return Error{Code::kCorrupt, "the place of the table's rows has another length than its fields"};
  const std::filesystem::path written = rows.folder;
  const std::filesystem::path node = written.parent_path().parent_path(), nodes = node.parent_path();
  if (!run_directory.empty() && nodes.filename() == kNodes) {
    rows.folder = (run_directory / written.lexically_relative(nodes.parent_path())).string();
  }
  return rows;
}

Result<RestoredRows> restore_elsewhere(replay::Table& table, std::span<const std::vector<std::byte>> items,
                                       const RowsElsewhere& rows, const std::string& name) {
  std::int64_t missing = 0;
  TROUPE_TRY(restore(table, items, name, [&](const replay::RowTaker& take) -> Status {
    if (!is_directory(rows.folder)) return {};
    TROUPE_ASSIGN(const auto folder, replay::open_journal_folder(rows.folder));
    const replay::JournalOptions options{.owner = name, .signature = table.options().signature};
    auto sink = [&](Key first, const replay::JournalRecord& record) { return take(first, record.rows); };
    TROUPE_ASSIGN(const replay::Recovery recovery, Journal::read(*folder, options, sink, rows.position));
    missing = recovery.missing_rows;
    return {};
  }));
  return RestoredRows{.newest_missing = missing > 0, .begun_anew = true};
}

Result<std::unique_ptr<ReplayJournal>> ReplayJournal::make(const ReplayJournalOptions& options,
                                                           const RoleIdentity& identity,
                                                           const replay::TableOptions& table) {
  const bool automatic = options.durability == "auto";
  if (options.durability == "off" || (automatic && identity.directory.empty())) return std::unique_ptr<ReplayJournal>();
  if (!automatic && options.durability != "relaxed" && options.durability != "durable") {
    return Error{Code::kInvalidArgument, fmt::format("replay.durability is \"{}\", expected auto, off, relaxed or "
                                                     "durable",
                                                     options.durability)};
  }
  if (identity.directory.empty()) {
    return Error{Code::kInvalidArgument,
                 fmt::format("replay.durability is \"{}\", but in a run within one process {} has no folder of its own "
                             "(its checkpoints hold the table); expected auto or off",
                             options.durability, identity.name())};
  }
  if (table.remover.kind != replay::SelectorKind::kFifo || table.max_times_sampled > 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: a journal needs a table that its oldest items leave first, but its remover is {} and "
                             "its max_times_sampled {}; expected fifo and 0, or replay.durability off",
                             identity.name(), to_string(table.remover.kind), table.max_times_sampled)};
  }
  replay::JournalOptions journal;
  journal.owner = identity.name();
  journal.signature = table.signature;
  journal.durability = options.durability == "durable" ? Durability::kDurable : Durability::kRelaxed;
  journal.background = options.background;
  journal.segment_bytes = options.segment_bytes;
  return std::unique_ptr<ReplayJournal>(
      new ReplayJournal(identity.name(), identity.directory / "journal", std::move(journal)));
}

/// Nobody but the user can say that what is left of it is enough.
Error ReplayJournal::refused(const Error& error) const {
  if (error.code != Code::kCorrupt) return error;
  return {Code::kCorrupt,
          fmt::format("{}; refused: to go on without its rows, remove {}", error.message, folder_.string())};
}

Status ReplayJournal::recover(replay::Table& table) {
  const SteadyClock clock;
  const Duration start = clock.now();
  TROUPE_ASSIGN(std::shared_ptr<replay::JournalFolder> folder, replay::open_journal_folder(folder_.string()));
  auto sink = [&](Key first, const replay::JournalRecord& record) {
    return table.recover(first, record.rows, record.priorities, record.samples);
  };
  auto recovered = Journal::recover(std::move(folder), options_, now_, sink);
  if (!recovered.ok()) return refused(recovered.error());
  Journal::Opened opened = std::move(recovered).value();
  journal_ = std::move(opened.journal);
  recovery_s_ = seconds(clock.now() - start);
  if (opened.recovery.rows > 0) {
    log::info("TRP-I301 {}: {} items recovered in {:.2f} s from a journal of {} KiB", name_, table.info().items,
              recovery_s_, opened.recovery.bytes >> 10);
  }
  return {};
}

Result<RestoredRows> ReplayJournal::resume(replay::Table& table, std::span<const std::vector<std::byte>> items,
                                           const RowsElsewhere& rows) {
  // In another placement its node was called otherwise.
  if (rows.folder != folder_.string() && is_directory(rows.folder)) {
    TROUPE_ASSIGN(const RestoredRows restored, restore_elsewhere(table, items, rows, name_));
    TROUPE_TRY(adopt(table));
    return restored;
  }
  replay::Recovery recovery;
  TROUPE_TRY(restore(table, items, name_, [&](const replay::RowTaker& take) -> Status {
    if (!is_directory(folder_.string())) return {};  // on another host, or somebody wants to go on without the rows
    TROUPE_ASSIGN(std::shared_ptr<replay::JournalFolder> folder, replay::open_journal_folder(folder_.string()));
    TROUPE_ASSIGN(const std::vector<std::string> names, folder->list());
    if (names.empty() && rows.rows > 0) {
      return refused({Code::kCorrupt, fmt::format("{}: journal {}: it is empty, expected the rows before row {}", name_,
                                                  folder_.string(), rows.position.row)});
    }
    auto sink = [&](Key first, const replay::JournalRecord& record) { return take(first, record.rows); };
    auto recovered = Journal::recover(std::move(folder), options_, now_, sink, rows.position);
    if (!recovered.ok()) return refused(recovered.error());
    journal_ = std::move(recovered->journal);
    recovery = recovered->recovery;
    return {};
  }));
  // With none of its rows, the journal has lost count of the keys, too.
  if (recovery.rows == 0) TROUPE_TRY(adopt(table));
  return RestoredRows{.newest_missing = recovery.missing_rows > 0, .begun_anew = recovery.rows == 0};
}

Status ReplayJournal::adopt(const replay::Table& table) {
  journal_.reset();
  const replay::TableInfo info = table.info();
  auto key = static_cast<Key>(info.inserts - info.items);
  TROUPE_ASSIGN(std::shared_ptr<replay::JournalFolder> folder, replay::open_journal_folder(folder_.string()));
  TROUPE_ASSIGN(journal_, Journal::begin(std::move(folder), options_, now_, key));
  const Signature& signature = options_.signature;
  const Stacks stacks(signature);
  StackSplitter splitter(stacks);
  // Rows that are split together share planes.
  std::size_t bytes = row_bytes(stacks.split());
  for (const Stacks::Pool& pool : stacks.pools()) bytes += pool.bytes;
  const auto at_once = static_cast<std::int64_t>(std::max<std::size_t>(1, kCopyBytes / bytes));
  for (std::int64_t left = info.items; left > 0;) {
    const std::int64_t count = std::min(left, at_once);
    BatchBuffer rows(signature, count);
    std::vector<double> priorities(static_cast<std::size_t>(count));
    TROUPE_TRY(table.read(key, rows.mutable_view(), priorities));
    TROUPE_TRY(
        journal_->append({.samples = info.samples, .rows = splitter.split(rows.view()), .priorities = priorities}));
    // Nothing may be lost or refused here, so the disk sets the pace.
    const SteadyClock clock;
    const Duration give_up = clock.now() + kCopyPatience;
    while (journal_->healthy() && journal_->stats().unsynced_bytes > options_.max_unsynced_bytes / 2) {
      journal_->advance(now_);
      if (clock.now() >= give_up) {
        return Error{Code::kDeadlineExceeded, fmt::format("journal {}: no sync came to an end within {:.0f} s",
                                                          folder_.string(), seconds(kCopyPatience))};
      }
      if (options_.background) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!journal_->healthy()) return Error{Code::kIo, journal_->waiting_for(now_)};
    key += static_cast<Key>(count);
    left -= count;
  }
  journal_->advance(now_);
  return {};
}

bool ReplayJournal::seen(const messages::TrajectoryInfo& info) const { return journal_->producers().seen(id_of(info)); }

Status ReplayJournal::append(const messages::TrajectoryView& trajectory, std::int64_t first, std::int64_t samples) {
  const std::int64_t count = trajectory.rows().rows - first;
  if (count == 0) return {};
  auto priorities = trajectory.priorities();
  if (!priorities.empty()) priorities = priorities.subspan(static_cast<std::size_t>(first));
  return journal_->append({.producer = id_of(trajectory.info()),
                           .samples = samples,
                           .rows = trajectory.rows().slice(first, count),
                           .priorities = priorities});
}

void ReplayJournal::advance(RoleContext& context, Inlet& inlet, std::int64_t rows) {
  now_ = context.clock().now();
  // Rows of recent checkpoints stay, unless they would be more than those of the table once more.
  std::uint64_t oldest = saved_.value_or(journal_->appended());
  for (const std::uint64_t row : cut_rows_) oldest = std::min(oldest, row);
  const auto since_cut = static_cast<std::int64_t>(journal_->appended() - std::min(oldest, journal_->appended()));
  journal_->keep_newest(std::max(rows, std::min(since_cut, 2 * rows)));
  journal_->advance(now_);
  std::size_t free = 0;
  for (; !held_.empty() && held_.front() <= journal_->acknowledged(); ++free) held_.pop_front();
  if (free > 0) inlet.release_held(free);
  // One timer at a time: a step may be called thousands of times before it is due.
  const auto due = journal_->due(now_);
  if (due && (wake_at_ <= now_ || now_ + *due < wake_at_)) {
    wake_at_ = now_ + *due;
    context.wake_after(*due);
  }
}

std::optional<RowsElsewhere> ReplayJournal::save(std::int64_t rows) {
  const auto position = journal_->position();
  if (!position) return {};
  const auto count = std::min(position->row, static_cast<std::uint64_t>(rows));
  saved_ = position->row - count;
  return RowsElsewhere{folder_.string(), *position, count};
}

void ReplayJournal::committed() {
  if (!saved_) return;
  cut_rows_.push_back(*std::exchange(saved_, std::nullopt));
  if (cut_rows_.size() > kCheckpoints) cut_rows_.pop_front();
}

void ReplayJournal::keep(const RowsElsewhere& rows) {
  cut_rows_.push_back(rows.position.row - std::min(rows.position.row, rows.rows));
}

void ReplayJournal::report(Report& report) const {
  const replay::JournalStats stats = journal_->stats();
  report.counters.push_back({"journal_lost_rows", static_cast<double>(stats.lost_rows)});
  report.counters.push_back({"journal_failures", static_cast<double>(stats.failures)});
  report.sums.push_back({"journal_bytes", static_cast<double>(stats.disk_bytes)});
  report.sums.push_back({"journal_unsynced_bytes", static_cast<double>(stats.unsynced_bytes)});
  if (!options_.background) return;  // of a deterministic run no number may depend on the disk's speed
  report.gauges.push_back({"journal_sync_s", seconds(stats.last_sync)});
  report.gauges.push_back({"recovery_s", recovery_s_});
}

}  // namespace troupe::actors
