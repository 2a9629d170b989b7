#include <troupe/replay/sequence_tables.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include <troupe/replay/bytes.hpp>

namespace troupe::replay {
namespace {

/// An item, as its table has it: where its steps are.
Signature item_signature() {
  return {{"writer", DType::kI64, {}}, {"first", DType::kI64, {}}, {"count", DType::kI64, {}}};
}
using PackedItem = std::array<std::int64_t, 3>;

PackedItem packed(const StepRange& range) {
  return {std::bit_cast<std::int64_t>(range.writer), range.first, range.count};
}
StepRange range_of(const PackedItem& item) { return {std::bit_cast<std::uint64_t>(item[0]), item[1], item[2]}; }
StepRange range_of(const TableItem& item) {
  PackedItem values;
  std::memcpy(values.data(), item.columns.data(), sizeof values);
  return range_of(values);
}

/// What an image begins with, before each chunk of steps: little-endian words.
constexpr std::uint64_t kStepsMagic = 0x31535045'54535254ULL;  // "TRSTEPS1"
struct TablesHead {
  std::uint64_t magic = kStepsMagic;
  std::uint64_t row_bytes = 0;
  std::uint64_t chunk_steps = 0;
  std::uint64_t step_chunks = 0;
};
struct ChunkHead {
  std::uint64_t writer = 0;
  std::int64_t number = 0;
  std::int64_t steps = 0;
};
/// And the image of writers, before its chunks of steps: this, and one of these for each writer.
struct WritersHead {
  std::uint64_t writers = 0;
  std::int64_t episodes = 0;
  std::array<std::uint64_t, 4> random{};  ///< state of the generator of their numbers
};
struct OpenHead {
  std::uint64_t number = 0;
  std::int64_t max_steps = 0, next = 0, begin = 0, kept_chunk = 0;
};
static_assert(std::endian::native == std::endian::little, "images are little-endian");

template <typename T>
std::vector<std::byte> bytes_of(const T& head, std::span<const std::byte> rest = {}) {
  std::vector<std::byte> bytes(sizeof head + rest.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  if (!rest.empty()) std::memcpy(bytes.data() + sizeof head, rest.data(), rest.size());
  return bytes;
}

std::vector<std::byte> bytes_of(const StepChunk& chunk) {
  return bytes_of(ChunkHead{chunk.writer, chunk.number, chunk.steps}, chunk.rows);
}

Error corrupt(const char* what) { return {Code::kCorrupt, fmt::format("image of sequence tables: {}", what)}; }

Result<StepChunk> step_chunk(std::span<const std::byte> bytes) {
  ChunkHead head;
  if (bytes.size() < sizeof head) return corrupt("a chunk of steps is cut short");
  std::memcpy(&head, bytes.data(), sizeof head);
  return StepChunk{head.writer, head.number, head.steps, bytes.subspan(sizeof head)};
}

std::int64_t begin_of(const SequenceColumn& column, std::int64_t steps) {
  return column.begin < 0 ? steps + column.begin : column.begin;
}
/// How many steps of an item of so many it has.
std::int64_t length_of(const SequenceColumn& column, std::int64_t steps) {
  if (column.single) return 1;
  return (column.end <= 0 ? steps + column.end : column.end) - begin_of(column, steps);
}
/// The fewest steps of an item which has all that the column names. Errors: why there are none.
Result<std::int64_t> least_of(const SequenceColumn& column) {
  const auto& [name, of, begin, end, single] = column;
  constexpr std::int64_t kMost = 1 << 30;
  if (std::min(begin, end) < -kMost || std::max(begin, end) > kMost) {
    return Error{Code::kInvalidArgument, fmt::format("steps {} to {}, expected at most {}", begin, end, kMost)};
  }
  if (single) return begin < 0 ? -begin : begin + 1;
  if (begin < 0 && end > 0) {
    return Error{Code::kInvalidArgument,
                 fmt::format("steps {} to {}: the first is counted from an item's end and the last from its beginning, "
                             "which gives shorter ones the more",
                             begin, end)};
  }
  if ((begin < 0) == (end <= 0) && begin >= end) {
    return Error{Code::kInvalidArgument, fmt::format("steps {} to {}: these are none", begin, end)};
  }
  return begin < 0 ? -begin : end > 0 ? end : begin - end + 1;
}

/// Collects the ranges of all items of a table that is restored.
class Ranges final : public TableExtension {
 public:
  void inserted(const TableItem& item) override { all.push_back(range_of(item)); }
  std::vector<StepRange> all;
};

/// What the items of a table's image refer to, as a copy of the table says that takes it. Errors: those of restore().
Result<std::vector<StepRange>> ranges_of(TableOptions options, std::span<const std::vector<std::byte>> image) {
  const auto collects = std::make_shared<Ranges>();
  options.extensions = {collects};
  TROUPE_ASSIGN(const auto copy, Table::make(std::move(options)));
  TROUPE_TRY(copy->restore(image));
  return std::move(collects->all);
}

}  // namespace

/// Each item refers to its steps.
class SequenceTables::References final : public TableExtension {
 public:
  explicit References(StepStore& store) : store_(store) {}
  void inserted(const TableItem& item) override { store_.add(range_of(item)); }
  void deleted(const TableItem& item) override { store_.drop(range_of(item)); }

 private:
  StepStore& store_;
};

SequenceTables::SequenceTables(SequenceOptions options)
    : options_(std::move(options)), store_(options_.step, options_.chunk_steps), rng_(options_.seed) {}
SequenceTables::~SequenceTables() = default;

Result<std::unique_ptr<SequenceTables>> SequenceTables::make(SequenceOptions options) {
  const auto refuse = [](std::string what) { return Error{Code::kInvalidArgument, std::move(what)}; };
  if (options.step.empty()) return refuse("sequence tables: a step has no columns, expected at least one");
  if (options.tables.empty()) return refuse("sequence tables: there is no table, expected at least one");
  if (options.chunk_steps < 1 || options.chunk_steps > 1 << 20) {
    return refuse(fmt::format("chunk_steps: got {}, expected 1 to {}", options.chunk_steps, 1 << 20));
  }
  std::set<std::string> names;
  for (const TableOptions& table : options.tables) {
    if (!names.insert(table.name).second) return refuse(fmt::format("two tables are called \"{}\"", table.name));
    if (table.max_bytes != 0) return refuse(fmt::format("table \"{}\": max_bytes: expected 0", table.name));
  }
  for (const auto& [table, pattern] : options.patterns) {
    if (!names.contains(table)) return refuse(fmt::format("a pattern for table \"{}\", which is none of them", table));
  }
  std::unique_ptr<SequenceTables> made(new SequenceTables(std::move(options)));
  for (TableOptions& table : made->options_.tables) {
    table.signature = item_signature();
    TableOptions extended = table;
    extended.extensions.insert(extended.extensions.begin(), std::make_shared<References>(made->store_));
    TROUPE_ASSIGN(auto one, Table::make(std::move(extended)));
    made->tables_.push_back(std::move(one));
    TROUPE_ASSIGN(auto pattern, made->pattern_of(table.name));
    made->patterns_.push_back(std::move(pattern));
  }
  return made;
}

Result<SequenceTables::Pattern> SequenceTables::pattern_of(const std::string& table) const {
  Pattern pattern;
  const auto given = options_.patterns.find(table);
  if (given == options_.patterns.end()) {
    for (const TensorSpec& column : options_.step) pattern.columns.push_back({.name = column.name, .of = {}});
  } else {
    pattern.columns = given->second;
  }
  const auto refuse = [&](const std::string& column, const std::string& why) {
    return Error{Code::kInvalidArgument, fmt::format("table \"{}\", pattern: column {}: {}", table, column, why)};
  };
  std::set<std::string> names;
  for (const SequenceColumn& column : pattern.columns) {
    const std::string& of = column.of.empty() ? column.name : column.of;
    const auto found = std::ranges::find(options_.step, of, &TensorSpec::name);
    if (found == options_.step.end()) return refuse(column.name, fmt::format("a step has no column {}", of));
    if (!names.insert(column.name).second) return refuse(column.name, "there are two of this name");
    const auto least = least_of(column);
    if (!least.ok()) return refuse(column.name, least.error().message);
    pattern.of.push_back(static_cast<std::size_t>(found - options_.step.begin()));
    pattern.least = std::max(pattern.least, *least);
  }
  if (pattern.columns.empty()) {
    return Error{Code::kInvalidArgument, fmt::format("table \"{}\", pattern: expected at least one column", table)};
  }
  return pattern;
}

Status SequenceTables::check(std::size_t table) const {
  if (table < tables_.size()) return {};
  return Error{Code::kInvalidArgument, fmt::format("no table {}, there are {}", table, tables_.size())};
}

Status SequenceTables::check_writer(Writer writer) const {
  if (writers_.contains(writer)) return {};
  return Error{Code::kNotFound, fmt::format("no writer {:x}: it is closed, or was never open", writer)};
}

std::int64_t SequenceTables::chunks_of(const Open& writer) const {
  return (writer.next + store_.chunk_steps() - 1) / store_.chunk_steps();
}

Result<SequenceTables::Writer> SequenceTables::open(std::int64_t max_steps) {
  if (max_steps < 1) {
    return Error{Code::kInvalidArgument, fmt::format("writer: max_steps: got {}, expected at least 1", max_steps)};
  }
  Writer number = 0;
  do number = rng_();
  while (writers_.contains(number));
  writers_.emplace(number, Open{.max_steps = max_steps});
  return number;
}

Status SequenceTables::close(Writer number) {
  TROUPE_TRY(check_writer(number));
  Open& writer = writers_.at(number);
  drop_before(number, writer, chunks_of(writer));
  writers_.erase(number);
  store_.collect();
  return {};
}

/// The writer refers to the chunks that its next items may need, and to older ones no more.
void SequenceTables::drop_before(Writer number, Open& writer, std::int64_t chunk) {
  for (; writer.kept_chunk < chunk; ++writer.kept_chunk) {
    store_.drop({number, writer.kept_chunk * store_.chunk_steps(), 1});
  }
}

void SequenceTables::drop_old(Writer number, Open& writer) {
  // The chunk of the step that comes stays in any case, as far as it is there: it goes on.
  const std::int64_t first = std::max(writer.begin, writer.next - writer.max_steps);
  drop_before(number, writer, first / store_.chunk_steps());
}

Status SequenceTables::check_steps(const BatchView& steps) const {
  if (steps.rows < 1) {
    return Error{Code::kInvalidArgument, fmt::format("append: {} steps, expected at least 1", steps.rows)};
  }
  TROUPE_TRY(check_same(*steps.signature, options_.step, "append steps"));
  for (std::size_t i = 0; i < options_.step.size(); ++i) {
    const std::size_t bytes = options_.step[i].bytes() * static_cast<std::size_t>(steps.rows);
    if (i < steps.columns.size() && steps.columns[i].size() == bytes) continue;
    return Error{Code::kShapeMismatch, fmt::format("append steps: column {} of {} steps, expected {} bytes",
                                                   options_.step[i].name, steps.rows, bytes)};
  }
  return {};
}

Status SequenceTables::append(Writer number, const BatchView& steps) {
  TROUPE_TRY(check_writer(number));
  TROUPE_TRY(check_steps(steps));
  Open& writer = writers_.at(number);
  const std::int64_t before = chunks_of(writer);
  store_.append(number, writer.next, steps);
  writer.next += steps.rows;
  for (std::int64_t chunk = before; chunk < chunks_of(writer); ++chunk) {
    store_.add({number, chunk * store_.chunk_steps(), 1});
  }
  drop_old(number, writer);
  store_.collect();
  return {};
}

Status SequenceTables::end_episode(Writer number) {
  TROUPE_TRY(check_writer(number));
  Open& writer = writers_.at(number);
  if (writer.begin == writer.next) return {};
  writer.begin = writer.next;
  ++episodes_;
  drop_old(number, writer);
  store_.collect();
  return {};
}

Result<std::int64_t> SequenceTables::reach(Writer number) const {
  TROUPE_TRY(check_writer(number));
  const Open& writer = writers_.at(number);
  return std::min(writer.next - writer.begin, writer.max_steps);
}

Result<Key> SequenceTables::insert(Writer number, std::size_t table, std::int64_t steps, double priority) {
  TROUPE_TRY(check(table));
  TROUPE_ASSIGN(const std::int64_t reached, reach(number));
  if (steps < 1 || steps > reached) {
    return Error{Code::kInvalidArgument,
                 fmt::format("an item of {} steps for table \"{}\": expected 1 to {}, the steps of the episode within "
                             "the writer's max_steps",
                             steps, options_.tables[table].name, reached)};
  }
  if (steps < patterns_[table].least) {
    return Error{Code::kInvalidArgument,
                 fmt::format("an item of {} steps for table \"{}\": expected at least {}, which its pattern names",
                             steps, options_.tables[table].name, patterns_[table].least)};
  }
  const PackedItem item = packed({number, writers_.at(number).next - steps, steps});
  BatchView row{.signature = &options_.tables[table].signature, .rows = 1, .columns = {}};
  for (const std::int64_t& value : item) row.columns.push_back(std::as_bytes(std::span(&value, 1)));
  auto key = tables_[table]->insert(row, {&priority, 1});
  store_.collect();
  return key;
}

Result<Sequences> SequenceTables::sample(std::size_t table, std::int64_t rows) {
  TROUPE_TRY(check(table));
  if (rows < 0) return Error{Code::kInvalidArgument, fmt::format("sample of {} items, expected 0 or more", rows)};
  const auto count = static_cast<std::size_t>(rows);
  std::array<std::vector<std::int64_t>, 3> columns;
  MutableBatchView out{.signature = &options_.tables[table].signature, .rows = rows, .columns = {}};
  for (auto& column : columns) {
    column.resize(count);
    out.columns.push_back(std::as_writable_bytes(std::span(column)));
  }
  Sequences drawn{
      .items = std::vector<SampledItem>(count), .ranges = {}, .longest = patterns_[table].least, .table = table};
  if (rows > 0) TROUPE_TRY(tables_[table]->sample(out, drawn.items));
  for (std::size_t i = 0; i < count; ++i) {
    drawn.ranges.push_back(range_of(PackedItem{columns[0][i], columns[1][i], columns[2][i]}));
    drawn.longest = std::max(drawn.longest, drawn.ranges.back().count);
    store_.add(drawn.ranges.back());
  }
  store_.collect();
  return drawn;
}

Signature SequenceTables::batch_signature(const Sequences& drawn) const {
  const Pattern& pattern = patterns_[drawn.table];
  Signature signature;
  for (std::size_t i = 0; i < pattern.columns.size(); ++i) {
    const SequenceColumn& column = pattern.columns[i];
    const TensorSpec& of = options_.step[pattern.of[i]];
    std::vector<std::int64_t> dims;
    if (!column.single) dims.push_back(length_of(column, drawn.longest));
    dims.insert(dims.end(), of.shape.dims().begin(), of.shape.dims().end());
    signature.push_back({column.name, of.dtype, Shape(std::span<const std::int64_t>(dims))});
  }
  return signature;
}

void SequenceTables::read(const Sequences& drawn, const MutableBatchView& out) const {
  const Pattern& pattern = patterns_[drawn.table];
  std::vector<StepCopy> copies(pattern.columns.size());
  for (std::size_t item = 0; item < drawn.ranges.size(); ++item) {
    const StepRange& range = drawn.ranges[item];
    for (std::size_t i = 0; i < copies.size(); ++i) {
      const SequenceColumn& column = pattern.columns[i];
      const std::int64_t length = length_of(column, range.count);
      const std::size_t bytes = options_.step[pattern.of[i]].bytes();
      const std::size_t room = bytes * static_cast<std::size_t>(length_of(column, drawn.longest));
      const std::span<std::byte> to = out.columns[i].subspan(room * item, room);
      copies[i] = {pattern.of[i], begin_of(column, range.count), length, to.data()};
      std::ranges::fill(to.subspan(bytes * static_cast<std::size_t>(length)), std::byte{});
    }
    store_.read(range, copies);
  }
}

void SequenceTables::release(const Sequences& drawn) {
  for (const StepRange& range : drawn.ranges) store_.drop(range);
  store_.collect();
}

Result<std::int64_t> SequenceTables::update_priorities(std::size_t table, std::span<const Key> keys,
                                                       std::span<const double> priorities) {
  TROUPE_TRY(check(table));
  return tables_[table]->update_priorities(keys, priorities);
}

Result<std::int64_t> SequenceTables::erase(std::size_t table, std::span<const Key> keys) {
  TROUPE_TRY(check(table));
  const auto unknown = tables_[table]->erase(keys);
  store_.collect();
  return unknown;
}

Status SequenceTables::reset(std::size_t table) {
  TROUPE_TRY(check(table));
  TROUPE_TRY(tables_[table]->reset());
  store_.collect();
  return {};
}

SequenceInfo SequenceTables::info() const {
  SequenceInfo info{.steps = store_.steps(),
                    .bytes = store_.bytes(),
                    .writers = static_cast<std::int64_t>(writers_.size()),
                    .episodes = episodes_};
  for (const auto& table : tables_) {
    info.tables.push_back(table->info());
    info.bytes += info.tables.back().bytes;
  }
  return info;
}

std::vector<std::vector<std::byte>> SequenceTables::save(std::span<const std::size_t> tables) const {
  std::vector<std::vector<std::byte>> images;
  std::vector<StepRange> ranges;
  for (const std::size_t number : tables) {
    std::vector<std::vector<std::byte>> image = tables_[number]->save();
    images.push_back(bytes_of(static_cast<std::uint64_t>(image.size())));
    std::ranges::copy(ranges_of(options_.tables[number], image).value(), std::back_inserter(ranges));
    std::ranges::move(image, std::back_inserter(images));
  }
  const std::vector<StepChunk> steps = store_.chunks_of(ranges);
  std::vector<std::vector<std::byte>> chunks = {
      bytes_of(TablesHead{.row_bytes = store_.row_bytes(),
                          .chunk_steps = static_cast<std::uint64_t>(store_.chunk_steps()),
                          .step_chunks = steps.size()})};
  for (const StepChunk& chunk : steps) chunks.push_back(bytes_of(chunk));
  std::ranges::move(images, std::back_inserter(chunks));
  return chunks;
}

Status SequenceTables::restore(std::span<const std::size_t> tables, std::span<const std::vector<std::byte>> chunks) {
  TablesHead head;
  if (chunks.empty() || chunks[0].size() != sizeof head) return corrupt("it has no head");
  std::memcpy(&head, chunks[0].data(), sizeof head);
  if (head.magic != kStepsMagic) return corrupt("it is none");
  if (head.row_bytes != store_.row_bytes() || head.chunk_steps != static_cast<std::uint64_t>(store_.chunk_steps())) {
    return Error{Code::kShapeMismatch,
                 fmt::format("image of sequence tables: steps of {} bytes in chunks of {}, expected {} and {}",
                             head.row_bytes, head.chunk_steps, store_.row_bytes(), store_.chunk_steps())};
  }
  chunks = chunks.subspan(1);
  if (head.step_chunks > chunks.size()) return corrupt("steps are missing");
  // All of it is tried on a copy, so that nothing has changed when something is wrong.
  StepStore trial(options_.step, options_.chunk_steps);
  std::vector<StepChunk> steps;
  for (const std::vector<std::byte>& bytes : chunks.first(head.step_chunks)) {
    TROUPE_ASSIGN(const StepChunk chunk, step_chunk(bytes));
    steps.push_back(chunk);
    TROUPE_TRY(trial.put(chunk));
  }
  chunks = chunks.subspan(head.step_chunks);
  std::vector<std::span<const std::vector<std::byte>>> images;
  for (const std::size_t number : tables) {
    TROUPE_TRY(check(number));
    std::uint64_t count = 0;
    if (chunks.empty() || chunks[0].size() != sizeof count) return corrupt("a table is missing");
    std::memcpy(&count, chunks[0].data(), sizeof count);
    if (count > chunks.size() - 1) return corrupt("a table is cut short");
    images.push_back(chunks.subspan(1, count));
    chunks = chunks.subspan(1 + count);
    TROUPE_ASSIGN(const auto ranges, ranges_of(options_.tables[number], images.back()));
    if (!std::ranges::all_of(ranges, [&](const StepRange& range) { return range.count > 0 && trial.has(range); })) {
      return corrupt("steps of an item are missing");
    }
    const std::int64_t least = patterns_[number].least;
    if (std::ranges::any_of(ranges, [&](const StepRange& range) { return range.count < least; })) {
      return Error{Code::kShapeMismatch,
                   fmt::format("image of sequence tables: table \"{}\" has items of fewer than {} steps, which its "
                               "pattern names",
                               options_.tables[number].name, least)};
    }
  }
  if (!chunks.empty()) return corrupt("it goes on behind its end");
  TROUPE_TRY(put(steps));
  for (std::size_t i = 0; i < tables.size(); ++i) tables_[tables[i]]->restore(images[i]).value();
  store_.collect();
  return {};
}

Status SequenceTables::put(std::span<const StepChunk> steps) {
  for (const StepChunk& chunk : steps) {
    if (const Status put = store_.put(chunk); !put.ok()) {
      store_.collect();
      return put;
    }
  }
  return {};
}

StepRange SequenceTables::kept_by(Writer number, const Open& writer) const {
  const std::int64_t first = writer.kept_chunk * store_.chunk_steps();
  return {number, first, std::max<std::int64_t>(0, writer.next - first)};
}

std::vector<std::vector<std::byte>> SequenceTables::save_writers() const {
  WritersHead head{.writers = writers_.size(), .episodes = episodes_, .random = rng_.state()};
  std::vector<std::byte> open = bytes_of(head);
  std::vector<StepRange> ranges;
  for (const auto& [number, writer] : writers_) {
    const auto one = bytes_of(OpenHead{number, writer.max_steps, writer.next, writer.begin, writer.kept_chunk});
    open.insert(open.end(), one.begin(), one.end());
    ranges.push_back(kept_by(number, writer));
  }
  std::vector<std::vector<std::byte>> chunks = {std::move(open)};
  for (const StepChunk& chunk : store_.chunks_of(ranges)) chunks.push_back(bytes_of(chunk));
  return chunks;
}

Status SequenceTables::restore_writers(std::span<const std::vector<std::byte>> chunks) {
  WritersHead head;
  if (chunks.empty() || chunks[0].size() < sizeof head || !writers_.empty()) return corrupt("it has no writers");
  std::memcpy(&head, chunks[0].data(), sizeof head);
  const std::size_t bytes = chunks[0].size() - sizeof head;
  if (bytes / sizeof(OpenHead) != head.writers || bytes % sizeof(OpenHead) != 0)
    return corrupt("a writer is cut short");
  StepStore trial(options_.step, options_.chunk_steps);
  std::vector<StepChunk> steps;
  for (const std::vector<std::byte>& image : chunks.subspan(1)) {
    TROUPE_ASSIGN(const StepChunk chunk, step_chunk(image));
    steps.push_back(chunk);
    TROUPE_TRY(trial.put(chunk));
  }
  std::map<Writer, Open> writers;
  for (std::size_t i = 0; i < head.writers; ++i) {
    OpenHead one;
    std::memcpy(&one, chunks[0].data() + sizeof head + i * sizeof one, sizeof one);
    const Open writer = {one.max_steps, one.next, one.begin, one.kept_chunk};
    const std::int64_t most = std::numeric_limits<std::int64_t>::max() / 2 / store_.chunk_steps();
    if (writer.max_steps < 1 || writer.begin < 0 || writer.begin > writer.next || writer.next > most ||
        writer.kept_chunk < 0 || writer.kept_chunk > chunks_of(writer) || !trial.has(kept_by(one.number, writer)) ||
        kept_by(one.number, writer).first > std::max(writer.begin, writer.next - writer.max_steps) ||
        !writers.emplace(one.number, writer).second) {
      return corrupt("a writer's numbers or steps make no sense");
    }
  }
  TROUPE_TRY(put(steps));
  for (const auto& [number, writer] : writers) store_.add(kept_by(number, writer));
  store_.collect();
  writers_ = std::move(writers);
  episodes_ = head.episodes;
  rng_.set_state(head.random);
  return {};
}

}  // namespace troupe::replay
