#include <troupe/actors/roles/replay_intake.hpp>

#include <fmt/format.h>

#include <troupe/core/log.hpp>
#include <troupe/core/stacks.hpp>
#include <troupe/core/worth_a_line.hpp>
#include <troupe/replay/rate_limiter.hpp>
#include <troupe/replay/shards.hpp>

namespace troupe::actors {
namespace {

/// 1 in the state of a table whose rows the state does not hold.
constexpr const char* kRowsElsewhere = "rows_elsewhere";

/// Whether chunks[1] says where they are. Errors: kCorrupt.
Result<bool> rows_are_elsewhere(const RoleState& state) {
  // An older checkpoint does not have this counter, and holds its rows.
  const auto elsewhere = state.counter(kRowsElsewhere);
  if (!elsewhere.ok() || *elsewhere == 0) return false;
  if (state.chunks.size() < 2) return Error{Code::kCorrupt, "state does not say where the table's rows are"};
  return true;
}

}  // namespace

Result<std::unique_ptr<ReplayIntake>> ReplayIntake::make(const ReplayActorOptions& options,
                                                         const RoleIdentity& identity, const MakeTable& make_table) {
  replay::TableOptions table_options = replay::shard_options(options.table, identity.index, identity.count);
  // A trajectory is inserted row by row if need be, a batch is drawn whole.
  TROUPE_TRY(replay::check_batch_sizes(table_options.limiter, 1, options.batch));
  table_options.seed = identity.seed;
  TROUPE_ASSIGN(auto journal, ReplayJournal::make(options.journal, identity, table_options));
  TROUPE_ASSIGN(auto table, make_table(std::move(table_options)));
  // After a restart the journal has the newest rows, and a checkpoint older ones; a run that resumes wants the latter.
  if (journal && !identity.resumes) TROUPE_TRY(journal->recover(*table));
  return std::unique_ptr<ReplayIntake>(new ReplayIntake(identity, std::move(table), std::move(journal)));
}

ReplayIntake::ReplayIntake(const RoleIdentity& identity, std::unique_ptr<replay::Table> table,
                           std::unique_ptr<ReplayJournal> journal)
    : name_(identity.name()),
      run_directory_(identity.run_directory),
      table_(std::move(table)),
      journal_(std::move(journal)),
      signature_(std::make_shared<const Signature>(table_->options().signature)) {}

Result<bool> ReplayIntake::take(RoleContext& context) {
  if (journal_ && !journal_->open()) TROUPE_TRY(journal_->adopt(*table_));  // it resumes, but there was no state
  Inlet& trajectories = context.in("trajectories");
  TROUPE_ASSIGN(const bool inserted, insert(context));
  if (journal_) journal_->advance(context, trajectories, journaled_rows());
  return inserted;
}

Result<bool> ReplayIntake::take_trajectory(RoleContext& context) {
  Inlet& inlet = context.in("trajectories");
  while (!inlet.empty() && (!journal_ || journal_->accepts())) {
    auto view = messages::read_trajectory(journal_ ? inlet.take_held() : inlet.take());
    Status good = view.ok() ? check(*view) : Status(view.error());
    const bool seen = good.ok() && journal_ && journal_->seen(view->info());
    if (good.ok() && journal_ && !seen) {
      good = journal_->append(*view, 0, table_->info().samples);
      // Of another error the disk is to blame. One that is too long for a record would come again for ever.
      if (!good.ok() && good.error().code != Code::kInvalidArgument) return good.error();
    }
    if (!good.ok()) {
      ++rejected_;
      context.refuse("trajectories", good.error());
    } else if (seen) {
      if (log::worth_a_line(static_cast<std::uint64_t>(++duplicates_))) {
        log::info("TRP-S707 {}: trajectory {} of producer {} is there already: dropped ({} so far)", name_,
                  view->info().sequence, view->info().producer, duplicates_);
      }
    } else {
      current_ = std::move(*view);
      current_row_ = 0;
    }
    if (journal_) journal_->hold();
    if (current_) return true;
  }
  return false;
}

Status ReplayIntake::check(const messages::TrajectoryView& trajectory) const {
  const messages::TrajectoryInfo& info = trajectory.info();
  const std::string where = fmt::format("trajectory {} of producer {}", info.sequence, info.producer);
  TROUPE_TRY(check_same(trajectory.signature(), *signature_, where));
  if (!trajectory.rows().planes.empty() && !same_stacks(trajectory.signature(), *signature_)) {
    return Error{Code::kShapeMismatch, where + ": its rows are split into other planes than the table's"};
  }
  for (const double priority : trajectory.priorities()) {
    if (replay::valid_priority(priority)) continue;
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: priority {}, expected 0..{}", where, priority, replay::kMaxPriority)};
  }
  if (info.producer < replay::kMaxJournalProducers) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{}: expected a producer below {}", where, replay::kMaxJournalProducers)};
}

Result<bool> ReplayIntake::insert(RoleContext& context) {
  bool inserted = false;
  for (;;) {
    if (!current_) {
      TROUPE_ASSIGN(const bool taken, take_trajectory(context));
      if (!taken) return inserted;
    }
    const std::int64_t left = current_->rows().rows - current_row_;
    const std::int64_t admitted = left > 0 ? table_->insertable(left) : 0;
    if (admitted > 0) {
      auto priorities = current_->priorities();
      if (!priorities.empty()) {
        priorities = priorities.subspan(static_cast<std::size_t>(current_row_), static_cast<std::size_t>(admitted));
      }
      TROUPE_TRY(table_->insert(current_->rows().slice(current_row_, admitted), priorities));
      current_row_ += admitted;
      inserted = true;
    }
    if (current_row_ < current_->rows().rows) return inserted;
    current_.reset();
  }
}

std::string ReplayIntake::waiting_for(std::int64_t batch) const {
  const std::string insert = current_ ? table_->insert_blocker(1) : "";
  const std::string sample = table_->sample_blocker(batch);
  const std::string journal = journal_ ? journal_->waiting_for() : "";
  std::string all;
  for (const std::string& reason : {insert, sample, journal}) {
    all += (all.empty() || reason.empty() ? "" : "; ") + reason;
  }
  return all;
}

void ReplayIntake::report(Report& report) const {
  const replay::TableInfo info = table_->info();
  report.counters.push_back({"inserts", static_cast<double>(info.inserts)});
  report.counters.push_back({"samples", static_cast<double>(info.samples)});
  report.counters.push_back({"rejected", static_cast<double>(rejected_)});
  report.sums.push_back({"items", static_cast<double>(info.items)});
  report.sums.push_back({"bytes", static_cast<double>(info.bytes)});
  if (!journal_) return;
  report.counters.push_back({"duplicates", static_cast<double>(duplicates_)});
  journal_->report(report);
}

std::int64_t ReplayIntake::journaled_rows() const {
  return table_->info().items + (current_ ? current_->rows().rows - current_row_ : 0);
}

void ReplayIntake::save(RoleState& state) const {
  state.counters.push_back({"rows_inserted", current_row_});
  auto& trajectory = state.chunks.emplace_back();
  if (current_) {
    const auto bytes = current_->frame().bytes();
    trajectory.assign(bytes.begin(), bytes.end());
  }
  const auto elsewhere = journal_ ? journal_->save(journaled_rows()) : std::nullopt;
  state.counters.push_back({kRowsElsewhere, elsewhere ? 1 : 0});
  if (elsewhere) state.chunks.push_back(encode(*elsewhere));
  for (auto& chunk : elsewhere ? table_->save_items() : table_->save()) state.chunks.push_back(std::move(chunk));
}

Status ReplayIntake::restore(const RoleState& state) {
  if (state.chunks.empty()) return Error{Code::kCorrupt, "state has no chunks, expected 1 or more"};
  TROUPE_ASSIGN(const std::int64_t rows_inserted, state.counter("rows_inserted"));
  std::optional<messages::TrajectoryView> current;
  if (!state.chunks[0].empty()) {
    messages::FramePool pool;
    TROUPE_ASSIGN(const Frame frame, pool.copy(state.chunks[0]));
    TROUPE_ASSIGN(auto view, messages::read_trajectory(frame));
    TROUPE_TRY(check(view));
    if (rows_inserted < 0 || rows_inserted > view.rows().rows) {
      return Error{Code::kCorrupt,
                   fmt::format("{} rows of a trajectory of {} were inserted", rows_inserted, view.rows().rows)};
    }
    current = std::move(view);
  }
  if (journal_ && journal_->open()) {
    // This instance alone was restarted: its journal's rows are newer, but have the priorities of their insertion.
    TROUPE_ASSIGN(const bool elsewhere, rows_are_elsewhere(state));
    if (!elsewhere) return {};
    TROUPE_ASSIGN(const RowsElsewhere rows, decode_rows_elsewhere(state.chunks[1], run_directory_));
    journal_->keep(rows);
    return table_->restore_priorities(std::span(state.chunks).subspan(2));
  }
  TROUPE_ASSIGN(const RestoredRows restored, restore_table(state));
  // It was inserted after the rows that are missing, or with them.
  if (!current || restored.newest_missing) return {};
  current_row_ = rows_inserted;
  current_ = std::move(current);
  if (journal_ && restored.begun_anew) return journal_->append(*current_, current_row_, table_->info().samples);
  return {};
}

Result<RestoredRows> ReplayIntake::restore_table(const RoleState& state) {
  const auto chunks = std::span(state.chunks).subspan(1);
  TROUPE_ASSIGN(const bool elsewhere, rows_are_elsewhere(state));
  if (!elsewhere) {
    TROUPE_TRY(table_->restore(chunks));
    if (journal_) TROUPE_TRY(journal_->adopt(*table_));
    return RestoredRows{.begun_anew = true};
  }
  TROUPE_ASSIGN(const RowsElsewhere rows, decode_rows_elsewhere(chunks.front(), run_directory_));
  if (journal_) {
    TROUPE_ASSIGN(const RestoredRows restored, journal_->resume(*table_, chunks.subspan(1), rows));
    if (!restored.begun_anew) journal_->keep(rows);  // it may be gone on from once more
    return restored;
  }
  return restore_elsewhere(*table_, chunks.subspan(1), rows, name_);
}

}  // namespace troupe::actors
