#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include <troupe/core/log.hpp>
#include <troupe/replay/detail/journal_reader.hpp>

namespace troupe::replay::detail {
namespace {

constexpr std::size_t kSmallHeadBytes = 4096;

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

/// Up to which row a segment's generation goes on from another, if at all.
std::optional<std::uint64_t> inherited(const SegmentHead& head, std::uint64_t generation) {
  const auto ancestor = std::ranges::find(head.lineage, generation, &JournalPosition::generation);
  return ancestor == head.lineage.end() ? std::nullopt : std::optional(ancestor->row);
}

/// Of a generation that goes on from this one at `row`.
std::vector<JournalPosition> lineage_of_child(const SegmentHead& head, std::uint64_t row) {
  std::vector<JournalPosition> lineage = head.lineage;
  lineage.push_back({head.id.generation, row});
  for (JournalPosition& ancestor : lineage) ancestor.row = std::min(ancestor.row, row);
  if (lineage.size() > kMaxLineage) lineage.erase(lineage.begin());
  return lineage;
}

class Reader {
 public:
  Reader(JournalFolder& folder, const JournalOptions& options, const RecordSink& sink,
         std::optional<JournalPosition> until)
      : folder_(folder), options_(options), stacks_(options.signature), sink_(sink), until_(until) {
    if (until) limit_ = until->row;
  }

  Result<ReadJournal> read(const std::vector<SegmentId>& ids) {
    TROUPE_TRY(read_heads(ids));
    TROUPE_TRY(read_claim(ids));
    find_ends();
    TROUPE_TRY(read_rows());
    if (!until_ && row_ < synced_row_) {
      return missing("", 0, fmt::format("rows end at {}, expected {}", row_, synced_row_));
    }
    out_.end_row = row_;
    if (!sources_.empty()) out_.lineage = lineage_of_child(sources_.back().head, row_);
    out_.synced_row = std::clamp(synced_row_, std::min(out_.first_row, row_), row_);
    if (until_) {
      out_.recovery.missing_rows = static_cast<std::int64_t>(until_->row - std::min(row_, until_->row));
    }
    return std::move(out_);
  }

 private:
  struct Source {
    SegmentHead head;
    std::string name;
    std::uint64_t bytes = 0;
    std::size_t head_bytes = 0;
    std::uint64_t end_row = std::numeric_limits<std::uint64_t>::max();
  };

  Status read_heads(const std::vector<SegmentId>& ids);
  Status read_claim(const std::vector<SegmentId>& ids);
  void find_ends();
  Status read_rows();
  /// False when the rows end within this segment, as a crash may leave them.
  Result<bool> read_segment(const Source& source, bool last);
  Status take(const Source& source, const JournalRecord& record, std::span<const std::byte> bytes);
  /// Whether what is wrong from row_ on is what a crash leaves behind, rather than damage.
  bool crash_could(bool last, bool cut_short) const {
    return claimed_ ? row_ >= synced_row_ : last && cut_short && row_ >= synced_row_;
  }
  std::string damaged(const std::string& name, std::size_t offset, std::string_view what) const {
    return fmt::format("TRP-E610 {}: journal {}/{} is damaged at byte {}: {}", options_.owner, folder_.path(), name,
                       offset, what);
  }
  /// Rows are not there: because of a segment that could not be read, or of one that is gone.
  Error missing(const std::string& name, std::size_t offset, std::string_view what) const {
    if (bad_head_) return *bad_head_;
    return {Code::kCorrupt, damaged(name, offset, fmt::format("{}: a segment is missing or cut short", what))};
  }

  JournalFolder& folder_;
  const JournalOptions& options_;
  const Stacks stacks_;
  const RecordSink& sink_;
  const std::optional<JournalPosition> until_;
  ReadJournal out_;
  std::vector<Source> sources_;
  std::optional<Error> bad_head_;                                    // of a segment that therefore says nothing
  std::uint64_t limit_ = std::numeric_limits<std::uint64_t>::max();  // rows from here on are not wanted
  bool claimed_ = false;                                             // the claim was readable
  std::uint64_t synced_row_ = 0;                                     // rows before it are known to have been durable
  std::uint64_t oldest_row_ = std::numeric_limits<std::uint64_t>::max();  // older rows may have been deleted
  std::uint64_t row_ = 0;
  std::vector<std::byte> buffer_;
};

Status Reader::read_heads(const std::vector<SegmentId>& ids) {
  for (const SegmentId& id : ids) {
    Source source;
    source.name = id.name();
    TROUPE_ASSIGN(source.bytes, folder_.size(source.name));
    if (source.bytes > kMaxSegmentFileBytes) {
      return Error{
          Code::kCorrupt,
          damaged(source.name, 0, fmt::format("{} bytes, expected at most {}", source.bytes, kMaxSegmentFileBytes))};
    }
    Result<Parsed<SegmentHead>> head = Error{};
    for (const std::size_t bytes : {kSmallHeadBytes, static_cast<std::size_t>(kMaxHeadBytes) + kSmallHeadBytes}) {
      buffer_.resize(std::min<std::size_t>(bytes, source.bytes));
      TROUPE_ASSIGN(const std::size_t got, folder_.read(source.name, 0, buffer_));
      head = decode_head(std::span(buffer_).first(got));
      if (head.ok() || head.error().code != Code::kOutOfRange || got < bytes) break;
    }
    if (!head.ok()) {
      // As if it were not there: whether rows are missing then tells damage from a crash while it was begun.
      bad_head_ = Error{Code::kCorrupt, damaged(source.name, 0, head.error().message)};
      out_.useless.push_back(source.name);
      continue;
    }
    source.head = std::move(head->value);
    source.head_bytes = head->end;
    if (source.head.owner != options_.owner) {
      return Error{Code::kInvalidArgument, fmt::format("journal {}/{} belongs to \"{}\", expected \"{}\"",
                                                       folder_.path(), source.name, source.head.owner, options_.owner)};
    }
    TROUPE_TRY(check_same(source.head.signature, options_.signature,
                          fmt::format("journal {}/{}", folder_.path(), source.name)));
    // Rows of a journal that knows of no stacks are whole.
    if (Stacks(source.head.signature).any() && !same_stacks(source.head.signature, options_.signature)) {
      return Error{Code::kShapeMismatch,
                   fmt::format("journal {}/{}: its rows are split into other planes", folder_.path(), source.name)};
    }
    if (source.head.id != id) {
      return Error{Code::kCorrupt, damaged(source.name, 0, "holds the segment " + source.head.id.name())};
    }
    if (until_ && id.generation > until_->generation) {
      const auto row = inherited(source.head, until_->generation);
      if (!row) {
        out_.abandoned.push_back(source.name);
        continue;
      }
      limit_ = std::min(limit_, *row);
    }
    sources_.push_back(std::move(source));
  }
  return {};
}

Status Reader::read_claim(const std::vector<SegmentId>& ids) {
  std::array<std::byte, kClaimBytes> bytes{};
  std::optional<Claim> claim;
  if (const auto got = folder_.read(std::string(kClaimName), 0, bytes); got.ok()) {
    claim = decode_claim(std::span(bytes).first(*got));
  } else if (got.error().code != Code::kNotFound) {
    return got.error();
  }
  claimed_ = claim.has_value();
  const std::uint64_t newest = sources_.empty() ? 0 : sources_.back().head.id.generation;
  if (claim && !until_ && claim->generation > newest) {
    return bad_head_
               ? *bad_head_
               : Error{Code::kCorrupt,
                       damaged("", 0,
                               fmt::format("generation {} is missing, the newest is {}", claim->generation, newest))};
  }
  for (const Source& source : sources_) {
    if (source.head.id.generation == newest) synced_row_ = std::max(synced_row_, source.head.synced_row);
  }
  if (claim && claim->generation == newest) {
    synced_row_ = std::max(synced_row_, claim->synced_row);
    if (!until_) oldest_row_ = claim->oldest_row;
  }
  synced_row_ = std::min(synced_row_, limit_);
  if (!claimed_ && !ids.empty()) {
    log::warn("{}: journal {}/{} is missing or damaged: only a short last write will be forgiven", options_.owner,
              folder_.path(), kClaimName);
    if (bad_head_) return *bad_head_;
  }
  return {};
}

void Reader::find_ends() {
  std::uint64_t end = limit_;
  for (auto source = sources_.rbegin(); source != sources_.rend(); ++source) {
    source->end_row = end;
    end = std::min(end, source->head.first_row);
  }
}

Status Reader::read_rows() {
  bool started = false;
  bool go_on = true;
  for (const Source& source : sources_) {
    const std::uint64_t first = source.head.first_row;
    const bool last = &source == &sources_.back();
    const bool counts = go_on && (first < source.end_row || (last && first == source.end_row));
    if (counts && !started) {
      started = true;
      if (first > oldest_row_)
        return missing(source.name, 0, fmt::format("rows begin at {}, expected {}", first, oldest_row_));
      row_ = first;
      out_.first_row = first;
      out_.first_key = source.head.first_key;
      out_.producers = source.head.producers;
    }
    if (counts && row_ < first) {
      if (!crash_could(last, false))
        return missing(source.name, 0, fmt::format("rows end at {} before it, expected {}", row_, first));
      go_on = false;
    } else if (counts) {
      TROUPE_ASSIGN(go_on, read_segment(source, last));
    }
    if (counts && row_ > first) {
      out_.segments.push_back({source.name, first, row_, source.bytes});
    } else {
      out_.useless.push_back(source.name);
    }
    if (!go_on && !counts) out_.recovery.torn_bytes += static_cast<std::int64_t>(source.bytes);
  }
  return {};
}

Result<bool> Reader::read_segment(const Source& source, bool last) {
  buffer_.resize(source.bytes);
  TROUPE_ASSIGN(const std::size_t got, folder_.read(source.name, 0, buffer_));
  const auto bytes = std::span<const std::byte>(buffer_).first(got);
  out_.recovery.bytes += static_cast<std::int64_t>(got);
  std::size_t offset = source.head_bytes;
  while (row_ < source.end_row && offset < bytes.size()) {
    auto record = decode_record(bytes, offset, stacks_);
    std::string wrong;
    if (!record.ok()) {
      wrong = record.error().message;
    } else if (static_cast<std::uint64_t>(record->value.rows.rows) > source.end_row - row_) {
      wrong = fmt::format("a record of {} rows at row {} passes row {}", record->value.rows.rows, row_, source.end_row);
    } else if (synced_row_ > row_ && static_cast<std::uint64_t>(record->value.rows.rows) > synced_row_ - row_) {
      // A writer syncs whole records. What is behind that row is written anew, and would begin within this record.
      wrong = fmt::format("a record of {} rows at row {} passes row {}, the last that was synced",
                          record->value.rows.rows, row_, synced_row_);
    } else {
      TROUPE_TRY(take(source, record->value, bytes.subspan(offset, record->end - offset)));
      offset = record->end;
      continue;
    }
    const bool cut_short =
        !record.ok() && (record.error().code == Code::kOutOfRange || all_zero(bytes.subspan(offset)));
    if (!crash_could(last, cut_short)) return Error{Code::kCorrupt, damaged(source.name, offset, wrong)};
    out_.recovery.torn_bytes += static_cast<std::int64_t>(bytes.size() - offset);
    log::info("TRP-I611 {}: journal {}: {} bytes of an unfinished write dropped", options_.owner, source.name,
              bytes.size() - offset);
    return false;
  }
  if (row_ < source.end_row && !last) {
    if (!crash_could(last, false)) {
      return missing(source.name, offset, fmt::format("rows end at {}, expected {}", row_, source.end_row));
    }
    return false;
  }
  return true;
}

Status Reader::take(const Source& source, const JournalRecord& record, std::span<const std::byte> bytes) {
  if (record.producer && record.producer->index >= kMaxJournalProducers) {
    return Error{Code::kCorrupt, damaged(source.name, 0,
                                         fmt::format("a row of producer {}, expected one below {}",
                                                     record.producer->index, kMaxJournalProducers))};
  }
  TROUPE_TRY(sink_(out_.first_key + (row_ - out_.first_row), record));
  const bool doubtful = row_ >= synced_row_;
  row_ += static_cast<std::uint64_t>(record.rows.rows);
  out_.recovery.rows += record.rows.rows;
  if (doubtful) {
    out_.doubtful.push_back({{bytes.begin(), bytes.end()}, row_, record.producer});
  } else if (record.producer) {
    out_.producers.note(*record.producer);
  }
  return {};
}

}  // namespace

Result<JournalNames> list_journal(JournalFolder& folder) {
  TROUPE_ASSIGN(const auto names, folder.list());
  JournalNames found;
  for (const std::string& name : names) {
    const bool unfinished = name.ends_with(kUnfinishedSuffix);
    const auto id =
        parse_segment_name(std::string_view(name).substr(0, name.size() - (unfinished ? kUnfinishedSuffix.size() : 0)));
    if (!id) continue;  // somebody else's
    found.newest_generation = std::max(found.newest_generation, id->generation);
    if (unfinished) {
      found.unfinished.push_back(name);
    } else {
      found.segments.push_back(*id);
    }
  }
  std::sort(found.segments.begin(), found.segments.end());
  return found;
}

Result<ReadJournal> read_journal(JournalFolder& folder, const std::vector<SegmentId>& ids,
                                 const JournalOptions& options, const RecordSink& sink,
                                 std::optional<JournalPosition> until) {
  return Reader(folder, options, sink, until).read(ids);
}

}  // namespace troupe::replay::detail
