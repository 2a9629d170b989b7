#include <troupe/messages/steps.hpp>

#include <algorithm>
#include <utility>

#include <troupe/messages/detail/wire.hpp>

namespace troupe::messages {
namespace {

constexpr std::size_t kMostTableBytes = 256;

struct Content final : Parsed {
  Content() : Parsed(Kind::kSteps) {}
  StepsInfo info;
  std::shared_ptr<const Signature> signature;  // keeps rows.signature alive
  BatchView rows;
  std::vector<StepsItem> items;
  std::vector<std::int64_t> ends;
};

const Content& content(const Parsed* parsed) { return *static_cast<const Content*>(parsed); }

/// Numbers that ascend from 0 to `rows`.
class Places {
 public:
  explicit Places(std::int64_t rows) : rows_(rows) {}
  Status next(std::int64_t place, const std::string& what) {
    if (place >= before_ && place <= rows_) {
      before_ = place;
      return {};
    }
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: got {} rows before it, expected {}..{}", what, place, before_, rows_)};
  }

 private:
  std::int64_t before_ = 0, rows_;
};

Status check(const StepsInfo& info, std::int64_t rows, std::span<const StepsItem> items,
             std::span<const std::int64_t> ends) {
  const std::string where = fmt::format("steps of writer {:x}", info.writer);
  // So many that no writer keeps them, so few that sums do not overflow.
  constexpr std::int64_t kMost = std::int64_t{1} << 46;
  if (info.max_steps < 1 || info.max_steps > kMost) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: max_steps: got {}, expected 1..{}", where, info.max_steps, kMost)};
  }
  Places of_items(rows);
  for (const StepsItem& item : items) {
    if (item.table.empty() || item.table.size() > kMostTableBytes) {
      return Error{Code::kInvalidArgument, fmt::format("{}: an item of a table with a name of {} bytes, expected 1..{}",
                                                       where, item.table.size(), kMostTableBytes)};
    }
    TROUPE_TRY(of_items.next(item.end, where + ": an item"));
    if (item.steps < 1 || item.steps > info.max_steps) {
      return Error{Code::kInvalidArgument, fmt::format("{}: an item of {} steps, expected 1..{} (its max_steps)", where,
                                                       item.steps, info.max_steps)};
    }
    TROUPE_TRY(check_priorities({&item.priority, 1}, where + ": an item's priority"));
  }
  Places of_ends(rows);
  for (const std::int64_t end : ends) TROUPE_TRY(of_ends.next(end, where + ": an episode's end"));
  return {};
}

Result<std::unique_ptr<const Parsed>> validate(schema::Envelope::Reader root) {
  const auto message = root.getSteps();
  auto result = std::make_unique<Content>();
  result->info = {message.getWriter(), message.getSequence(), message.getMaxSteps(), message.getLast()};
  const std::string where = fmt::format("steps of writer {:x}", result->info.writer);
  TROUPE_ASSIGN(ReadColumns columns, read_columns(message.getColumns(), message.getRows(), where));
  result->signature = std::move(columns.signature);
  result->rows = std::move(columns.view);
  for (const auto item : message.getItems()) {
    TROUPE_ASSIGN(std::string table, text_of(item.getTable(), kMostTableBytes, where + ": table"));
    result->items.push_back({std::move(table), item.getEnd(), item.getSteps(), item.getPriority()});
  }
  const auto ends = message.getEnds();
  TROUPE_ASSIGN(const auto places, elements_of<std::int64_t>(ends, ends.size(), where + ": ends"));
  result->ends.assign(places.begin(), places.end());
  TROUPE_TRY(check(result->info, result->rows.rows, result->items, result->ends));
  return std::unique_ptr<const Parsed>(std::move(result));
}

}  // namespace

const StepsInfo& StepsView::info() const { return content(parsed_).info; }
const BatchView& StepsView::rows() const { return content(parsed_).rows; }
const std::vector<StepsItem>& StepsView::items() const { return content(parsed_).items; }
const std::vector<std::int64_t>& StepsView::ends() const { return content(parsed_).ends; }

Result<StepsView> read_steps(const Frame& frame) {
  TROUPE_ASSIGN(const Parsed* parsed, parsed_once(frame, Kind::kSteps, validate));
  return StepsView(frame, parsed);
}

Result<Frame> make_steps(FramePool& pool, const StepsInfo& info, const BatchView& rows,
                         std::span<const StepsItem> items, std::span<const std::int64_t> ends) {
  const Signature& signature = *rows.signature;
  TROUPE_TRY(check_columns(signature, rows.rows, "steps"));
  TROUPE_TRY(check(info, rows.rows, items, ends));
  constexpr std::size_t kStructWords = 16;  // root pointer, Envelope, Steps
  constexpr std::size_t kItemWords = 4;
  std::size_t words = kStructWords + column_head_words(signature) + ends.size() + kItemWords * items.size();
  for (const StepsItem& item : items) words += text_words(item.table.size());
  TROUPE_ASSIGN(
      MessageWriter writer,
      MessageWriter::make(pool, words, row_bytes(signature) * static_cast<std::size_t>(rows.rows), signature.size()));
  auto message = writer.root().initSteps();
  message.setWriter(info.writer);
  message.setSequence(info.sequence);
  message.setMaxSteps(info.max_steps);
  message.setLast(info.last);
  message.setRows(rows.rows);
  auto columns = message.initColumns(static_cast<unsigned>(signature.size()));
  write_specs(columns, signature);
  auto list = message.initItems(static_cast<unsigned>(items.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setTable({items[i].table.c_str(), items[i].table.size()});
    list[i].setEnd(items[i].end);
    list[i].setSteps(items[i].steps);
    list[i].setPriority(items[i].priority);
  }
  std::ranges::copy(ends, elements_of<std::int64_t>(message.initEnds(static_cast<unsigned>(ends.size()))).begin());
  const MutableBatchView there = lay_out_columns(writer, columns, signature, rows.rows);
  for (std::size_t c = 0; c < there.columns.size(); ++c) std::ranges::copy(rows.columns[c], there.columns[c].begin());
  return std::move(writer).finish(nullptr);
}

}  // namespace troupe::messages
