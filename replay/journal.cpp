#include <troupe/replay/journal.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include <troupe/core/log.hpp>
#include <troupe/replay/detail/journal_format.hpp>
#include <troupe/replay/detail/journal_reader.hpp>

namespace troupe::replay {
namespace {

/// Records are gathered into writes of about so many bytes.
constexpr std::size_t kWriteBytes = std::size_t{1} << 20;
constexpr std::size_t kSpareBlocks = 16;
constexpr std::int64_t kMinBytes = 4096;
constexpr std::int64_t kMaxSegmentBytes = std::int64_t{128} << 20;
constexpr std::int64_t kMaxUnsyncedBytes = std::int64_t{256} << 20;

}  // namespace

bool SeenProducers::seen(const ProducerSequence& id) const {
  const auto found = last_.find(id.index);
  if (found == last_.end()) return false;
  const Last& last = found->second;
  return id.incarnation < last.incarnation || (id.incarnation == last.incarnation && id.sequence <= last.sequence);
}

Status Journal::check(const JournalOptions& options) {
  auto outside = [](std::string_view what, std::int64_t is, std::int64_t most) {
    return Error{Code::kInvalidArgument, fmt::format("journal: {} is {}, expected {}..{}", what, is, kMinBytes, most)};
  };
  if (options.segment_bytes < kMinBytes || options.segment_bytes > kMaxSegmentBytes) {
    return outside("segment_bytes", options.segment_bytes, kMaxSegmentBytes);
  }
  if (options.max_unsynced_bytes < kMinBytes || options.max_unsynced_bytes > kMaxUnsyncedBytes) {
    return outside("max_unsynced_bytes", options.max_unsynced_bytes, kMaxUnsyncedBytes);
  }
  return check_stacks(options.signature, "journal");
}

Journal::Journal(std::shared_ptr<JournalFolder> folder, JournalOptions options)
    : folder_(std::move(folder)), options_(std::move(options)), stacks_(options_.signature) {}

Result<Journal::Opened> Journal::recover(std::shared_ptr<JournalFolder> folder, const JournalOptions& options,
                                         Duration now, const RecordSink& sink, std::optional<JournalPosition> until) {
  TROUPE_TRY(check(options));
  TROUPE_ASSIGN(detail::JournalNames names, detail::list_journal(*folder));
  TROUPE_ASSIGN(detail::ReadJournal read, detail::read_journal(*folder, names.segments, options, sink, until));
  // They go first, newest first: the next recovery must not find some of them among older rows.
  for (auto name = read.abandoned.rbegin(); name != read.abandoned.rend(); ++name) {
    TROUPE_TRY(folder->remove(*name));
    TROUPE_TRY(folder->sync());
  }
  std::unique_ptr<Journal> journal(new Journal(std::move(folder), options));
  journal->generation_ = names.newest_generation + 1;
  journal->lineage_ = std::move(read.lineage);
  journal->key_offset_ = read.first_key - read.first_row;
  journal->synced_ = read.synced_row;
  journal->appended_ = read.synced_row;
  journal->producers_ = journal->synced_producers_ = read.producers;
  journal->doomed_ = std::move(names.unfinished);
  for (std::string& name : read.useless) journal->doomed_.push_back(std::move(name));
  for (detail::ReadSegment& segment : read.segments) {
    journal->segments_.push_back({.name = std::move(segment.name),
                                  .first_row = segment.first_row,
                                  .end_row = segment.end_row,
                                  .bytes = segment.bytes});
  }
  for (const detail::DoubtfulRecord& record : read.doubtful) {
    journal->add_block(record.bytes, record.end_row - journal->appended_, record.producer);
  }
  TROUPE_TRY(journal->start_generation(now, until.has_value()));
  return Opened{std::move(journal), read.recovery};
}

Result<Recovery> Journal::read(JournalFolder& folder, const JournalOptions& options, const RecordSink& sink,
                               JournalPosition until) {
  TROUPE_ASSIGN(const detail::JournalNames names, detail::list_journal(folder));
  TROUPE_ASSIGN(const detail::ReadJournal read, detail::read_journal(folder, names.segments, options, sink, until));
  return read.recovery;
}

Result<std::unique_ptr<Journal>> Journal::begin(std::shared_ptr<JournalFolder> folder, const JournalOptions& options,
                                                Duration now, Key first, const SeenProducers& producers) {
  TROUPE_TRY(check(options));
  TROUPE_ASSIGN(detail::JournalNames names, detail::list_journal(*folder));
  std::unique_ptr<Journal> journal(new Journal(std::move(folder), options));
  journal->generation_ = names.newest_generation + 1;
  journal->key_offset_ = first;
  journal->producers_ = journal->synced_producers_ = producers;
  journal->doomed_ = std::move(names.unfinished);
  for (const detail::SegmentId& id : names.segments) journal->superseded_.push_back(id.name());
  TROUPE_TRY(journal->start_generation(now, true));
  return journal;
}

Status Journal::start_generation(Duration now, bool must) {
  retry_at_ = now;
  restart(now);
  reap(now, true);
  if (state_ == State::kWorking || !must) return {};
  return Error{Code::kIo, fmt::format("journal {}: {}", folder_->path(), last_error_)};
}

Journal::~Journal() {
  reap(now_, true);
  if (state_ == State::kFailed && !blocks_.empty()) {
    restart(now_);
    reap(now_, true);
  }
  if (state_ != State::kWorking) return;
  write_blocks(now_);
  if (state_ != State::kWorking || !dirty()) return;
  start_sync(now_);
  reap(now_, true);
}

bool Journal::accepts() const {
  return options_.durability == Durability::kRelaxed || stats_.unsynced_bytes < options_.max_unsynced_bytes;
}

Status Journal::append(const JournalRecord& record) {
  if (record.producer && record.producer->index >= kMaxJournalProducers) {
    return Error{Code::kInvalidArgument, fmt::format("journal: producer {}, expected one below {}",
                                                     record.producer->index, kMaxJournalProducers)};
  }
  if (record.rows.rows < 1) return Error{Code::kInvalidArgument, "journal: a record without rows"};
  const bool split = stacks_.is_split(record.rows);
  const Signature& signature = split ? stacks_.split() : options_.signature;
  if (record.rows.signature != &signature) TROUPE_TRY(check_same(*record.rows.signature, signature, "journal"));
  if (split) TROUPE_TRY(stacks_.check_planes(record.rows, "journal"));
  const std::size_t bytes = detail::record_bytes(record);
  if (bytes > detail::kMaxRecordBytes) {
    return Error{Code::kInvalidArgument,
                 fmt::format("journal: a record of {} bytes, expected at most {}", bytes, detail::kMaxRecordBytes)};
  }
  if (!accepts()) return Error{Code::kUnavailable, waiting_for(now_)};
  if (record.producer) producers_.note(*record.producer);
  if (stats_.unsynced_bytes >= options_.max_unsynced_bytes) {
    lose(record.rows.rows);
    return {};
  }
  Block& block = open_block();
  detail::encode_record(record, block.bytes);
  appended_ += static_cast<std::uint64_t>(record.rows.rows);
  block.end_row = appended_;
  if (record.producer) block.producers.push_back(*record.producer);
  stats_.unsynced_bytes += static_cast<std::int64_t>(bytes);
  return {};
}

Journal::Block& Journal::open_block() {
  if (blocks_.size() == written_blocks_ || blocks_.back().bytes.size() >= kWriteBytes) {
    Block& block = blocks_.emplace_back();
    if (!spare_.empty()) {
      block.bytes = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  return blocks_.back();
}

void Journal::add_block(std::span<const std::byte> record, std::uint64_t rows,
                        const std::optional<ProducerSequence>& producer) {
  Block& block = open_block();
  block.bytes.insert(block.bytes.end(), record.begin(), record.end());
  appended_ += rows;
  block.end_row = appended_;
  if (producer) {
    block.producers.push_back(*producer);
    producers_.note(*producer);
  }
  stats_.unsynced_bytes += static_cast<std::int64_t>(record.size());
}

void Journal::lose(std::int64_t rows) {
  stats_.lost_rows += rows;
  if (losing_) return;
  losing_ = true;
  log::error(
      "TRP-W602 {}: {} KiB of inserts wait for the disk of {}: further ones are not journaled until it has caught up, "
      "and would be lost with this process",
      options_.owner, stats_.unsynced_bytes >> 10, folder_->path());
}

void Journal::advance(Duration now) {
  now_ = now;
  reap(now, false);
  if (state_ == State::kFailed && sync_due(now)) start_sync(now);  // deletes: the disk may be full
  if (state_ == State::kFailed && now >= retry_at_) restart(now);
  if (state_ == State::kWorking) write_blocks(now);
  if (state_ == State::kWorking && sync_due(now)) start_sync(now);
  if (!options_.background) reap(now, true);
}

// ---- Writing ----

SeenProducers Journal::producers_before(std::size_t block) const {
  SeenProducers producers = synced_producers_;
  for (std::size_t i = 0; i < block; ++i) {
    for (const ProducerSequence& id : blocks_[i].producers) producers.note(id);
  }
  return producers;
}

std::uint64_t Journal::written() const { return written_blocks_ == 0 ? synced_ : blocks_[written_blocks_ - 1].end_row; }

/// What was written of it takes room that the next attempt needs.
void Journal::give_up(const std::string& name) {
  if (!folder_->remove(name).ok()) doomed_.push_back(name);
}

/// A new segment that begins with blocks_[block]; with a head, and otherwise empty.
Result<Journal::Segment> Journal::create_segment(std::size_t block, std::uint64_t synced_row, std::string_view suffix) {
  detail::SegmentHead head;
  head.id = {generation_, next_number_++};
  head.lineage = lineage_;
  head.first_row = block == 0 ? synced_ : blocks_[block - 1].end_row;
  head.synced_row = synced_row;
  head.first_key = head.first_row + key_offset_;
  head.owner = options_.owner;
  head.producers = producers_before(block);
  head.signature = options_.signature;
  Segment segment;
  segment.name = head.id.name();
  segment.first_row = segment.end_row = head.first_row;
  const std::string name = segment.name + std::string(suffix);
  TROUPE_ASSIGN(segment.file, folder_->create(name));
  const std::vector<std::byte> bytes = detail::encode_head(head);
  segment.bytes = bytes.size();
  segment.dirty = true;
  if (const Status appended = segment.file->append(bytes); !appended.ok()) {
    give_up(name);
    return appended.error();
  }
  return segment;
}

void Journal::write_blocks(Duration now) {
  while (written_blocks_ < blocks_.size()) {
    if (!dirty()) dirty_since_ = now;
    if (segments_.back().bytes >= static_cast<std::uint64_t>(options_.segment_bytes)) {
      auto segment = create_segment(written_blocks_, synced_, "");
      if (!segment.ok()) return fail(segment.error(), now);
      segments_.push_back(std::move(segment).value());
      names_dirty_ = true;
    }
    Block& block = blocks_[written_blocks_];
    Segment& segment = segments_.back();
    segment.dirty = true;
    segment.bytes += block.bytes.size();
    if (const Status appended = segment.file->append(block.bytes); !appended.ok()) return fail(appended.error(), now);
    segment.end_row = block.end_row;
    ++written_blocks_;
  }
}

void Journal::fail(const Error& error, Duration now) {
  ++stats_.failures;
  last_error_ = error.message;
  state_ = State::kFailed;
  retry_at_ = now + options_.retry_period;
  for (Segment& segment : segments_) {
    segment.file.reset();
    segment.dirty = false;
  }
  if (failed_since_) return;
  failed_since_ = now;
  log::error("{} {}: journal failed: {}; inserts since row {} are {} until it works again",
             error.message.starts_with("fdatasync") ? "TRP-E603" : "TRP-E601", options_.owner, error.message, synced_,
             options_.durability == Durability::kDurable ? "not acknowledged" : "only in memory");
}

/// Writes everything that is not durable to a new segment, which replaces what older ones say of it once it has its
/// name.
void Journal::restart(Duration now) {
  if (job_.valid()) return;
  const std::uint64_t end = appended_;
  auto segment = create_segment(0, end, detail::kUnfinishedSuffix);
  if (!segment.ok()) return fail(segment.error(), now);
  const std::string unfinished = segment->name + std::string(detail::kUnfinishedSuffix);
  for (const Block& block : blocks_) {
    if (const Status appended = segment->file->append(block.bytes); !appended.ok()) {
      give_up(unfinished);
      return fail(appended.error(), now);
    }
    segment->bytes += block.bytes.size();
  }
  segment->end_row = end;
  written_blocks_ = blocks_.size();
  state_ = State::kRestarting;
  Job job;
  job.files.push_back(segment->file);
  job.rename_from = unfinished;
  job.rename_to = segment->name;
  job.sync_names = true;
  // Before any row is written behind it: without a claim, what a power cut leaves of them would pass for damage.
  job.claim = claim(end);
  restarted_ = std::move(segment).value();
  start(std::move(job), end, now);
}

// ---- Syncing ----

bool Journal::dirty() const {
  return std::ranges::any_of(segments_, [](const Segment& segment) { return segment.dirty; });
}

bool Journal::sync_due(Duration now) const {
  if (job_.valid()) return false;
  if (!dirty()) return !doomed_.empty() && now >= remove_at_;
  return options_.durability == Durability::kDurable || now - dirty_since_ >= options_.sync_period ||
         stats_.unsynced_bytes >= options_.max_unsynced_bytes / 4;
}

void Journal::start_sync(Duration now) {
  Job job;
  for (Segment& segment : segments_) {
    if (segment.dirty) job.files.push_back(segment.file);
    segment.dirty = false;
  }
  job.sync_names = std::exchange(names_dirty_, false);
  job.remove = std::exchange(doomed_, {});
  // After a failure nothing new is on its way to the disk, and what was written last is in doubt.
  const std::uint64_t row = state_ == State::kWorking ? written() : synced_;
  if (!job.remove.empty()) job.claim = claim(row);
  start(std::move(job), row, now);
}

void Journal::start(Job job, std::uint64_t row, Duration now) {
  job_row_ = row;
  job_started_ = now;
  auto work = [folder = folder_, job = std::move(job)] { return run(*folder, job); };
  try {
    job_ = std::async(options_.background ? std::launch::async : std::launch::deferred, work);
  } catch (const std::system_error&) {  // no thread to be had: the next advance() does it
    job_ = std::async(std::launch::deferred, work);
  }
}

Journal::Done Journal::run(JournalFolder& folder, const Job& job) {
  const auto sync = [&]() -> Status {
    for (const auto& file : job.files) TROUPE_TRY(file->sync());
    if (!job.rename_from.empty()) TROUPE_TRY(folder.rename(job.rename_from, job.rename_to));
    if (job.sync_names) TROUPE_TRY(folder.sync());
    return {};
  };
  Done done{sync(), job.remove};
  if (!done.status.ok() || job.claim.empty()) return done;
  done.status = folder.overwrite(std::string(detail::kClaimName), job.claim, true);
  if (done.status.ok()) done.status = folder.sync();
  if (!done.status.ok()) return done;
  // One by one, so that a power cut leaves no hole among the oldest ones.
  auto name = done.not_removed.begin();
  while (name != done.not_removed.end() && folder.remove(*name).ok() && folder.sync().ok()) ++name;
  done.not_removed.erase(done.not_removed.begin(), name);
  return done;
}

void Journal::reap(Duration now, bool wait) {
  if (!job_.valid()) return;
  if (!wait && job_.wait_for(std::chrono::seconds(0)) == std::future_status::timeout) return;
  Done done = job_.get();
  stats_.last_sync = now - job_started_;
  if (!done.not_removed.empty()) remove_at_ = now + options_.retry_period;
  doomed_.insert(doomed_.begin(), done.not_removed.begin(), done.not_removed.end());
  const bool restarting = state_ == State::kRestarting;
  if (!done.status.ok()) {
    if (restarting) {
      give_up(restarted_->name + std::string(detail::kUnfinishedSuffix));
      superseded_.push_back(restarted_->name);  // if it has its name already, until the next attempt replaces it
      restarted_.reset();
    }
    if (state_ != State::kFailed) fail(done.status.error(), now);
    return;
  }
  if (restarting) {
    for (Segment& segment : segments_) segment.end_row = std::min(segment.end_row, restarted_->first_row);
    std::erase_if(segments_, [this](const Segment& segment) {
      if (segment.end_row > segment.first_row) return false;
      doomed_.push_back(segment.name);
      return true;
    });
    doomed_.insert(doomed_.end(), superseded_.begin(), superseded_.end());
    superseded_.clear();
    restarted_->dirty = false;
    segments_.push_back(std::move(*restarted_));
    restarted_.reset();
    state_ = State::kWorking;
    if (failed_since_)
      log::info("{}: journal works again after {:.1f} s", options_.owner, seconds(now - *failed_since_));
    failed_since_.reset();
  }
  synced_through(job_row_);
  // A kill leaves the newest claim, a power cut perhaps an older one; and where it cannot be written, an older one is
  // true as well.
  if (!restarting) (void)folder_->overwrite(std::string(detail::kClaimName), claim(synced_), false);
}

std::uint64_t Journal::oldest_row() const {
  // A segment that is to be replaced from synced_ on may begin behind it.
  return segments_.empty() ? synced_ : std::min(synced_, segments_.front().first_row);
}

std::vector<std::byte> Journal::claim(std::uint64_t synced_row) const {
  return detail::encode_claim({generation_, synced_row, oldest_row()});
}

void Journal::synced_through(std::uint64_t row) {
  while (!blocks_.empty() && blocks_.front().end_row <= row) {
    Block& block = blocks_.front();
    for (const ProducerSequence& id : block.producers) synced_producers_.note(id);
    stats_.unsynced_bytes -= static_cast<std::int64_t>(block.bytes.size());
    if (spare_.size() < kSpareBlocks) {
      block.bytes.clear();
      spare_.push_back(std::move(block.bytes));
    }
    blocks_.pop_front();
    if (written_blocks_ > 0) --written_blocks_;
  }
  synced_ = row;
  for (std::size_t i = 0; i + 1 < segments_.size(); ++i) {
    if (!segments_[i].dirty) segments_[i].file.reset();
  }
  if (losing_ && stats_.unsynced_bytes < options_.max_unsynced_bytes / 2) {
    losing_ = false;
    log::info("{}: the journal's disk has caught up; {} rows are not in it", options_.owner, stats_.lost_rows);
  }
}

// ---- What the owner asks ----

std::uint64_t Journal::acknowledged() const {
  if (options_.durability == Durability::kDurable) return synced_;
  return state_ == State::kWorking ? written() : appended_;
}

std::optional<Duration> Journal::due(Duration now) const {
  if (job_.valid()) {
    return options_.durability == Durability::kDurable ? std::chrono::milliseconds(1) : std::chrono::milliseconds(20);
  }
  if (state_ == State::kFailed) return std::max(Duration::zero(), retry_at_ - now);
  if (written_blocks_ < blocks_.size() || sync_due(now)) return Duration::zero();
  if (!dirty()) return {};
  return std::max(Duration::zero(), dirty_since_ + options_.sync_period - now);
}

std::string Journal::waiting_for(Duration now) const {
  if (failed_since_) return fmt::format("journal: {} ({:.1f} s ago)", last_error_, seconds(now - *failed_since_));
  if (accepts()) return {};
  return fmt::format("journal: {} KiB wait for a sync of {:.1f} s", stats_.unsynced_bytes >> 10,
                     seconds(now - job_started_));
}

std::optional<JournalPosition> Journal::position() const {
  if (state_ != State::kWorking || stats_.lost_rows > 0) return {};
  return JournalPosition{generation_, appended_};
}

void Journal::keep_newest(std::int64_t rows) {
  const auto kept = static_cast<std::uint64_t>(rows);
  const std::uint64_t first = synced_ > kept ? synced_ - kept : 0;
  while (segments_.size() > 1 && segments_.front().end_row <= first) {
    doomed_.push_back(std::move(segments_.front().name));
    segments_.erase(segments_.begin());
  }
}

JournalStats Journal::stats() const {
  JournalStats stats = stats_;
  for (const Segment& segment : segments_) stats.disk_bytes += static_cast<std::int64_t>(segment.bytes);
  return stats;
}

}  // namespace troupe::replay
