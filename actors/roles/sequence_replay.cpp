#include <troupe/actors/roles/sequence_replay.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include <troupe/actors/roles/sampled_rows.hpp>
#include <troupe/core/log.hpp>
#include <troupe/messages/batch.hpp>

namespace troupe::actors {
namespace {

/// Beyond, the one that has been silent the longest is closed: whoever was restarted never closes the writers it had.
constexpr std::size_t kMostWriters = 65536;

/// The counters of a state, in this order, and those of each of its writers and lanes.
constexpr std::size_t kWriterWords = 4, kLaneWords = 6;

std::int64_t as_word(std::uint64_t value) { return std::bit_cast<std::int64_t>(value); }
std::uint64_t as_number(std::int64_t word) { return std::bit_cast<std::uint64_t>(word); }

bool goes_by_priorities(const replay::TableOptions& table) {
  return replay::goes_by_priorities(table.sampler.kind) || replay::goes_by_priorities(table.remover.kind);
}

}  // namespace

std::vector<Port> SequenceReplay::inlets(const replay::SequenceOptions& options) {
  std::vector<Port> inlets = {
      {"steps", "Steps"},
      {.name = "samples", .type = "SampleRequest", .kind = ChannelKind::kRequest, .answer = "Batch"}};
  if (std::ranges::any_of(options.tables, goes_by_priorities)) {
    inlets.push_back({.name = "priorities", .type = "Priorities", .always_drained = true});
  }
  return inlets;
}

Result<std::unique_ptr<Role>> SequenceReplay::make(replay::SequenceOptions options, const RoleIdentity& identity) {
  Rng seeds(identity.seed);
  options.seed = seeds();
  for (replay::TableOptions& table : options.tables) table.seed = seeds();
  const bool prioritised = std::ranges::any_of(options.tables, goes_by_priorities);
  TROUPE_ASSIGN(auto tables, replay::SequenceTables::make(std::move(options)));
  return std::unique_ptr<Role>(new SequenceReplay(std::move(tables), prioritised));
}

SequenceReplay::SequenceReplay(std::unique_ptr<replay::SequenceTables> tables, bool prioritised)
    : prioritised_(prioritised), tables_(std::move(tables)), asked_(tables_->count()) {
  for (std::size_t i = 0; i < tables_->count(); ++i) numbers_.emplace(tables_->table(i).options().name, i);
}

Result<Progress> SequenceReplay::step(RoleContext& context) {
  if (prioritised_) take_priorities(context);
  const bool taken = take_steps(context);
  take_requests(context);
  TROUPE_ASSIGN(const bool drawn, serve(context));
  if (taken || drawn) return Progress::kMore;
  std::optional<Duration> until;
  for (const auto& asked : asked_) {
    for (const AskedBatch& one : asked) until = std::min(until.value_or(one.until), one.until);
  }
  if (until) context.wake_after(*until - context.clock().now());
  return Progress::kIdle;
}

bool SequenceReplay::take_steps(RoleContext& context) {
  bool any = false;
  const std::size_t producers = context.in("steps").producers();
  for (std::size_t producer = 0; producer < producers; ++producer) any |= take_from(context, producer);
  return any;
}

bool SequenceReplay::take_from(RoleContext& context, std::size_t producer) {
  Inlet& inlet = context.in("steps");
  const Frame* const frame = inlet.peek(producer);
  if (frame == nullptr) return false;
  const auto steps = messages::read_steps(*frame);
  if (!steps.ok()) {
    inlet.take(producer);
    context.refuse("steps", steps.error());
    return true;
  }
  const messages::StepsInfo info = steps->info();
  Lane& lane = lanes_[producer];
  if (lane.writer != info.writer || lane.sequence != info.sequence) {
    lane = Lane{.writer = info.writer, .sequence = info.sequence, .wrong = {}, .blocked = {}};
  }
  const auto before = std::pair(lane.rows, lane.items);
  if (Writer* const writer = writer_of(info); writer == nullptr) {
    ++duplicates_;
  } else {
    if (!go_on(*steps, *writer, lane)) return before != std::pair(lane.rows, lane.items);
    ++writer->next;
    writer->last_used = ++messages_;
    if (info.last) {
      tables_->close(writer->number).value();
      writers_.erase(info.writer);
    }
  }
  inlet.take(producer);
  if (!lane.wrong.ok()) context.refuse("steps", lane.wrong.error());
  lanes_.erase(producer);
  return true;
}

SequenceReplay::Writer* SequenceReplay::writer_of(const messages::StepsInfo& info) {
  const auto found = writers_.find(info.writer);
  if (found != writers_.end() && info.sequence < found->second.next) return nullptr;
  if (found != writers_.end() && info.sequence == found->second.next) return &found->second;
  if (found == writers_.end() && writers_.size() >= kMostWriters) {
    const auto oldest =
        std::ranges::min_element(writers_, {}, [](const auto& writer) { return writer.second.last_used; });
    tables_->close(oldest->second.number).value();
    writers_.erase(oldest);
  }
  Writer& writer = writers_[info.writer];
  begin_anew(writer, info.max_steps);
  gaps_ += info.sequence == 0 ? 0 : 1;
  writer.next = info.sequence;
  return &writer;
}

/// No item reaches over what comes before.
void SequenceReplay::begin_anew(Writer& writer, std::int64_t max_steps) {
  if (writer.number != 0) tables_->close(writer.number).value();
  writer.number = tables_->open(max_steps).value();
}

bool SequenceReplay::go_on(const messages::StepsView& steps, Writer& writer, Lane& lane) {
  for (;;) {
    const bool items = lane.items < steps.items().size(), ends = lane.ends < steps.ends().size();
    const bool item = items && (!ends || steps.items()[lane.items].end <= steps.ends()[lane.ends]);
    const std::int64_t until = item   ? steps.items()[lane.items].end
                               : ends ? steps.ends()[lane.ends]
                                      : steps.rows().rows;
    if (until > lane.rows) {
      const Status appended = tables_->append(writer.number, steps.rows().slice(lane.rows, until - lane.rows));
      if (!appended.ok()) {
        lane.wrong = appended;
        begin_anew(writer, steps.info().max_steps);
        return true;
      }
      lane.rows = until;
    }
    if (item) {
      if (!insert(steps.items()[lane.items], writer, lane)) return false;
      ++lane.items;
    } else if (ends) {
      tables_->end_episode(writer.number).value();
      ++lane.ends;
    } else {
      return true;
    }
  }
}

/// False when it has to wait.
bool SequenceReplay::insert(const messages::StepsItem& item, Writer& writer, Lane& lane) {
  const auto number = table(item.table);
  const auto inserted = number.ok() ? tables_->insert(writer.number, *number, item.steps, item.priority)
                                    : Result<replay::Key>(number.error());
  lane.blocked.clear();
  if (inserted.ok()) return true;
  if (inserted.error().code == Code::kUnavailable) {
    lane.blocked = inserted.error().message;
    return false;
  }
  ++lost_items_;
  if (lane.wrong.ok()) lane.wrong = inserted.error();
  return true;
}

Result<std::size_t> SequenceReplay::table(const std::string& name) const {
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, number] : numbers_) names.push_back(known);
  return Error{Code::kNotFound, fmt::format("no table \"{}\", there are: {}", name, fmt::join(names, ", "))};
}

void SequenceReplay::take_priorities(RoleContext& context) {
  for (Inlet& inlet = context.in("priorities"); !inlet.empty();) {
    const auto update = messages::read_priorities(inlet.take());
    const auto unknown = update.ok() ? apply(*update) : Result<std::int64_t>(update.error());
    if (unknown.ok()) {
      unknown_priorities_ += *unknown;
    } else {
      context.refuse("priorities", unknown.error());
    }
  }
}

Result<std::int64_t> SequenceReplay::apply(const messages::PriorityUpdate& update) {
  TROUPE_ASSIGN(const std::size_t number, table(update.table));
  TROUPE_ASSIGN(std::int64_t unknown, tables_->update_priorities(number, update.keys, update.priorities));
  if (!update.deletes.empty()) {
    TROUPE_ASSIGN(const std::int64_t gone, tables_->erase(number, update.deletes));
    unknown += gone;
  }
  if (update.reset) TROUPE_TRY(tables_->reset(number));
  return unknown;
}

void SequenceReplay::take_requests(RoleContext& context) {
  using Place = std::pair<const replay::Table*, AskedBatches*>;
  take_sample_requests(context, [this](const std::string& name) -> Result<Place> {
    TROUPE_ASSIGN(const std::size_t number, table(name));
    return Place{&tables_->table(number), &asked_[number]};
  });
  for (auto& asked : asked_) drop_late(asked, context.clock().now());
}

/// Answers whoever has waited the longest at each table, if its rows are admitted. True when anybody was answered.
Result<bool> SequenceReplay::serve(RoleContext& context) {
  bool any = false;
  for (std::size_t number = 0; number < asked_.size(); ++number) {
    auto& asked = asked_[number];
    if (asked.empty() || tables_->table(number).sampleable(asked.front().rows) < asked.front().rows) continue;
    auto batch = draw(context, number, asked.front().rows);
    if (batch.ok()) {
      asked.front().answer(std::move(batch).value());
    } else {  // more than a message may hold: whoever has asked is answered kCancelled
      log::warn("TRP-W304 table \"{}\": a batch of {}: {}", tables_->table(number).options().name, asked.front().rows,
                batch.error().message);
    }
    asked.pop_front();
    any = true;
  }
  return any;
}

Result<Frame> SequenceReplay::draw(RoleContext& context, std::size_t number, std::int64_t count) {
  TROUPE_ASSIGN(const messages::SampledBatchInfo info, about(tables_->table(number), batches_));
  TROUPE_ASSIGN(const replay::Sequences drawn, tables_->sample(number, count));
  auto builder = messages::SampledBatchBuilder::make(
      context.pool(), std::make_shared<const Signature>(tables_->batch_signature(drawn)), count, true);
  if (builder.ok()) {
    tables_->read(drawn, builder->columns());
    describe(drawn.items, builder->rows());
    for (std::size_t i = 0; i < drawn.items.size(); ++i) {
      builder->rows().lengths[i] = static_cast<std::int32_t>(drawn.ranges[i].count);
    }
  }
  tables_->release(drawn);
  if (!builder.ok()) return builder.error();
  ++batches_;
  return std::move(*builder).finish(info);
}

std::string SequenceReplay::waiting_for() const {
  std::vector<std::string> reasons;
  for (const auto& [producer, lane] : lanes_) {
    if (!lane.blocked.empty() && std::ranges::find(reasons, lane.blocked) == reasons.end()) {
      reasons.push_back(lane.blocked);
    }
  }
  for (std::size_t number = 0; number < asked_.size(); ++number) {
    if (!asked_[number].empty()) {
      reasons.push_back(tables_->table(number).sample_blocker(asked_[number].front().rows));
    }
  }
  std::erase(reasons, "");
  return fmt::format("{}", fmt::join(reasons, "; "));
}

void SequenceReplay::report(Report& report) const {
  const replay::SequenceInfo info = tables_->info();
  for (const auto& [name, number] : numbers_) {
    const replay::TableInfo& table = info.tables[number];
    report.counters.push_back({name + "_inserts", static_cast<double>(table.inserts)});
    report.counters.push_back({name + "_samples", static_cast<double>(table.samples)});
    report.sums.push_back({name + "_items", static_cast<double>(table.items)});
  }
  using Number = std::pair<const char*, std::int64_t>;
  for (const auto& [name, value] :
       {Number{"episodes", info.episodes}, Number{"lost_items", lost_items_}, Number{"gaps", gaps_},
        Number{"duplicates", duplicates_}, Number{"unknown_priorities", unknown_priorities_}}) {
    report.counters.push_back({name, static_cast<double>(value)});
  }
  for (const auto& [name, value] :
       {Number{"steps", info.steps}, Number{"bytes", info.bytes}, Number{"writers", info.writers}}) {
    report.sums.push_back({name, static_cast<double>(value)});
  }
}

// Chunks: words of writers, words of lanes, the tables' image, the writers' image; a counter says how long the third
// is.
Result<RoleState> SequenceReplay::save() const {
  RoleState state;
  std::vector<std::size_t> all(tables_->count());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  auto tables = tables_->save(all), open = tables_->save_writers();
  std::vector<std::int64_t> writers, lanes;
  for (const auto& [name, writer] : writers_) {
    for (const auto word : {name, writer.number, writer.next, writer.last_used}) writers.push_back(as_word(word));
  }
  for (const auto& [producer, lane] : lanes_) {
    for (const std::uint64_t word : {std::uint64_t{producer}, lane.writer, lane.sequence, as_number(lane.rows),
                                     std::uint64_t{lane.items}, std::uint64_t{lane.ends}}) {
      lanes.push_back(as_word(word));
    }
  }
  state.counters = {{"batches", as_word(batches_)},
                    {"messages", as_word(messages_)},
                    {"lost_items", lost_items_},
                    {"gaps", gaps_},
                    {"duplicates", duplicates_},
                    {"unknown_priorities", unknown_priorities_},
                    {"table_chunks", static_cast<std::int64_t>(tables.size())}};
  for (const auto* words : {&writers, &lanes}) {
    const auto bytes = std::as_bytes(std::span(*words));
    state.chunks.emplace_back(bytes.begin(), bytes.end());
  }
  std::ranges::move(tables, std::back_inserter(state.chunks));
  std::ranges::move(open, std::back_inserter(state.chunks));
  return state;
}

namespace {

/// The words of a chunk. Errors: kCorrupt unless they are whole entries.
Result<std::vector<std::int64_t>> words_of(const std::vector<std::byte>& chunk, std::size_t entry) {
  if (chunk.size() % (entry * sizeof(std::int64_t)) != 0) {
    return Error{Code::kCorrupt, fmt::format("state: {} bytes, expected entries of {}", chunk.size(), 8 * entry)};
  }
  std::vector<std::int64_t> words(chunk.size() / sizeof(std::int64_t));
  std::ranges::copy(chunk, std::as_writable_bytes(std::span(words)).begin());
  return words;
}

}  // namespace

Status SequenceReplay::restore(const RoleState& state) {
  TROUPE_ASSIGN(const std::int64_t batches, state.counter("batches"));
  TROUPE_ASSIGN(const std::int64_t messages, state.counter("messages"));
  TROUPE_ASSIGN(const std::int64_t table_chunks, state.counter("table_chunks"));
  const auto chunks = std::span(state.chunks);
  if (table_chunks < 0 || chunks.size() < 2 || static_cast<std::size_t>(table_chunks) > chunks.size() - 2) {
    return Error{Code::kCorrupt, fmt::format("state: {} chunks, {} of tables", chunks.size(), table_chunks)};
  }
  TROUPE_ASSIGN(const auto writers, words_of(chunks[0], kWriterWords));
  TROUPE_ASSIGN(const auto lanes, words_of(chunks[1], kLaneWords));
  std::vector<std::size_t> all(tables_->count());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  TROUPE_TRY(tables_->restore(all, chunks.subspan(2, static_cast<std::size_t>(table_chunks))));
  TROUPE_TRY(tables_->restore_writers(chunks.subspan(2 + static_cast<std::size_t>(table_chunks))));
  for (std::size_t i = 0; i < writers.size(); i += kWriterWords) {
    const Writer writer = {as_number(writers[i + 1]), as_number(writers[i + 2]), as_number(writers[i + 3])};
    if (!tables_->reach(writer.number).ok()) return Error{Code::kCorrupt, "state: a writer that is not open"};
    writers_.emplace(as_number(writers[i]), writer);
  }
  for (std::size_t i = 0; i < lanes.size(); i += kLaneWords) {
    lanes_[as_number(lanes[i])] = Lane{.writer = as_number(lanes[i + 1]),
                                       .sequence = as_number(lanes[i + 2]),
                                       .rows = lanes[i + 3],
                                       .items = as_number(lanes[i + 4]),
                                       .ends = as_number(lanes[i + 5]),
                                       .wrong = {},
                                       .blocked = {}};
  }
  TROUPE_ASSIGN(lost_items_, state.counter("lost_items"));
  TROUPE_ASSIGN(gaps_, state.counter("gaps"));
  TROUPE_ASSIGN(duplicates_, state.counter("duplicates"));
  TROUPE_ASSIGN(unknown_priorities_, state.counter("unknown_priorities"));
  batches_ = as_number(batches);
  messages_ = as_number(messages);
  return {};
}

}  // namespace troupe::actors
