#include <troupe/replay/table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include <troupe/core/rng.hpp>
#include <troupe/replay/fifo_rows.hpp>
#include <troupe/replay/row_store.hpp>
#include <troupe/replay/slot_map.hpp>
#include <troupe/replay/table_checks.hpp>
#include <troupe/replay/table_image.hpp>

namespace troupe::replay {
namespace {

constexpr std::size_t kPrefetchAhead = 12;  // rows; far enough to hide a miss, few enough to stay in the first cache

/// The table proper. Items lie in slots 0..items-1 without holes: an insert into a full table takes the slot of the
/// item that it evicts, and an item that leaves early is replaced by the one in the last slot.
class RowTable final : public Table {
 public:
  RowTable(TableOptions options, std::int64_t capacity, std::unique_ptr<Selector> sampler,
           std::unique_ptr<Selector> remover, RateLimiter limiter)
      : options_(std::move(options)),
        capacity_(capacity),
        in_order_(options_.remover.kind == SelectorKind::kFifo && options_.max_times_sampled == 0),
        keys_may_follow_slots_(in_order_ && !(options_.max_bytes > 0 && Stacks(options_.signature).any())),
        keys_follow_slots_(keys_may_follow_slots_),
        ring_(capacity),
        sampler_(std::move(sampler)),
        remover_(std::move(remover)),
        limiter_(std::move(limiter)),
        rng_(options_.seed),
        rows_(options_.signature, capacity) {}

  const TableOptions& options() const override { return options_; }

  TableInfo info() const override {
    const RateLimiterCounts& counts = limiter_.counts();
    return {.items = items(),
            .bytes = rows_.bytes(items()),
            .inserts = counts.inserts,
            .samples = counts.samples,
            .evictions = counts.deletes};
  }
  Result<double> mass() const override { return sampler_->mass(); }

  std::int64_t insertable(std::int64_t wanted) const override { return limiter_.insertable(wanted); }
  std::int64_t sampleable(std::int64_t wanted) const override {
    return items() == 0 ? 0 : std::min(limiter_.sampleable(wanted), draws_left_);
  }
  std::string insert_blocker(std::int64_t rows) const override { return blocker(limiter_.insert_blocker(rows)); }
  std::string sample_blocker(std::int64_t rows) const override;

  Result<Key> insert(const BatchView& batch, std::span<const double> priorities) override;
  Status sample(const MutableBatchView& out, std::span<SampledItem> items) override;
  Status draw(std::span<SampledItem> items) override;
  Result<std::int64_t> update_priorities(std::span<const Key> keys, std::span<const double> priorities) override;
  Result<std::int64_t> erase(std::span<const Key> keys) override;
  Status reset() override;
  std::vector<std::vector<std::byte>> save() const override;
  Status restore(std::span<const std::vector<std::byte>> chunks) override;
  Status recover(Key first, const BatchView& batch, std::span<const double> priorities, std::int64_t samples) override;
  Status read(Key first, const MutableBatchView& out, std::span<double> priorities) const override;
  std::vector<std::vector<std::byte>> save_items() const override;
  Result<std::int64_t> restore_items(std::span<const std::vector<std::byte>> chunks, const RowSource& source) override;
  Status restore_priorities(std::span<const std::vector<std::byte>> chunks) override;

 private:
  std::int64_t items() const { return sampler_->size(); }
  /// Keys count inserts.
  Key next_key() const { return first_key_ + static_cast<Key>(limiter_.counts().inserts); }
  std::string blocker(std::string_view limiter) const { return detail::blocker(options_, limiter); }
  Status check_in_order() const;
  Slot find(Key key) const;
  void look_keys_up();
  Status adopt(RowStore rows, const ImageHead& head);
  void insert_rows(const BatchView& batch, std::span<const double> priorities);
  void insert_row(Key key, double priority, RowStore::Writer& writer, std::int64_t index);
  void make_room();
  Status sample_into(const MutableBatchView* out, std::span<SampledItem> items);
  /// out: null for no rows.
  void give(std::span<const Selection> draws, const MutableBatchView* out, std::int64_t first,
            std::span<SampledItem> items);
  void leave(Slot slot);
  /// Says what has happened to the item in a slot.
  void tell(void (TableExtension::*what)(const TableItem&), Slot slot) const {
    if (!options_.extensions.empty()) tell_all(what, slot);
  }
  void tell_all(void (TableExtension::*what)(const TableItem&), Slot slot) const;
  /// The same of every item.
  void tell_each(void (TableExtension::*what)(const TableItem&)) const {
    for (Slot slot = 0; slot < static_cast<Slot>(items()); ++slot) tell(what, slot);
  }
  ImageHead head() const;

  const TableOptions options_;
  const std::int64_t capacity_;
  // Whether items leave in the order in which they came.
  const bool in_order_;
  // Where each of them leaves to one that comes, ring_ knows where a key is, otherwise slots_ does.
  const bool keys_may_follow_slots_;
  bool keys_follow_slots_;  // until items are erased
  KeyRing ring_;
  std::unique_ptr<Selector> sampler_;
  std::unique_ptr<Selector> remover_;
  RateLimiter limiter_;
  Rng rng_;
  RowStore rows_;
  SlotMap slots_;
  Key first_key_ = 0;  // of the first item after the last reset
  // Draws that the present items can still give before max_times_sampled takes all of them.
  std::int64_t draws_left_ = 0;
  std::vector<Selection> selections_;  // of one batch
  std::vector<Slot> updated_slots_;    // of one update_priorities()
  std::vector<double> updated_priorities_;
};

std::string RowTable::sample_blocker(std::int64_t rows) const {
  if (std::string text = limiter_.sample_blocker(rows); !text.empty()) {
    const bool full = options_.max_bytes > 0 && !rows_.planes().empty() && items() > 0 &&
                      rows_.bytes(items()) + rows_.most_row_bytes() > options_.max_bytes;
    return blocker(full ? fmt::format("{}; its {} items fill max_bytes {}", text, items(), options_.max_bytes) : text);
  }
  if (draws_left_ >= rows) return {};
  return blocker(fmt::format("sample of {} waits: its {} items may be sampled {} more times (max_times_sampled {})",
                             rows, items(), draws_left_, options_.max_times_sampled));
}

Slot RowTable::find(Key key) const {
  if (!keys_follow_slots_) return slots_.find(key);
  const Key next = next_key();
  if (key >= next || next - key > static_cast<Key>(items())) return SlotMap::kNone;
  return ring_.slot_of(key);
}

Result<Key> RowTable::insert(const BatchView& batch, std::span<const double> priorities) {
  TROUPE_TRY(detail::check_insert(options_, batch, priorities));
  if (!limiter_.can_insert(batch.rows)) return Error{Code::kUnavailable, insert_blocker(batch.rows)};
  const Key first = next_key();
  insert_rows(batch, priorities);
  return first;
}

void RowTable::insert_rows(const BatchView& batch, std::span<const double> priorities) {
  const Key first = next_key();
  RowStore::Writer writer(rows_, batch);
  for (std::int64_t i = 0; i < batch.rows; ++i) {
    make_room();
    insert_row(first + static_cast<Key>(i), priorities.empty() ? 1.0 : priorities[static_cast<std::size_t>(i)], writer,
               i);
  }
  limiter_.count_inserts(batch.rows);
}

/// How many planes a row shares with others is known when it comes: then items leave until there is memory for one
/// more, though there are fewer than the capacity.
void RowTable::make_room() {
  if (options_.max_bytes == 0 || rows_.planes().empty()) return;
  while (items() > 0 && rows_.bytes(items()) + rows_.most_row_bytes() > options_.max_bytes) {
    Selection evicted;
    remover_->select(rng_, {&evicted, 1});
    leave(evicted.slot);
  }
}

void RowTable::insert_row(Key key, double priority, RowStore::Writer& writer, std::int64_t index) {
  auto slot = static_cast<Slot>(items());
  if (items() < capacity_) {
    if (slot == 0) ring_.start(key);
    rows_.add(slot);
    sampler_->append(priority);
    remover_->append(priority);
  } else {
    Selection evicted;
    if (in_order_) {  // the oldest leaves, which is never the new one
      remover_->select(rng_, {&evicted, 1});
      sampler_->replace(evicted.slot, priority);
      remover_->replace(evicted.slot, priority);
    } else {
      sampler_->append(priority);
      remover_->append(priority);
      remover_->select(rng_, {&evicted, 1});
      sampler_->erase(evicted.slot);
      remover_->erase(evicted.slot);
    }
    limiter_.count_deletes(1);
    if (evicted.slot == slot) return;
    slot = evicted.slot;
    tell(&TableExtension::deleted, slot);
    if (!keys_follow_slots_) slots_.erase(rows_.header(slot).key);
    if (options_.max_times_sampled > 0) draws_left_ -= options_.max_times_sampled - rows_.header(slot).times_sampled;
    rows_.release(slot);
  }
  if (!keys_follow_slots_) slots_.put(key, slot);
  if (options_.max_times_sampled > 0) {
    draws_left_ += options_.max_times_sampled;
  } else {
    draws_left_ = std::numeric_limits<std::int64_t>::max();
  }
  rows_.header(slot) = {key, priority, 0};
  writer.write(slot, index);
  tell(&TableExtension::inserted, slot);
}

void RowTable::tell_all(void (TableExtension::*what)(const TableItem&), Slot slot) const {
  const ItemHeader& header = rows_.header(slot);
  const TableItem item = {header.key, header.priority, header.times_sampled, rows_.payload(slot)};
  for (const auto& extension : options_.extensions) (extension.get()->*what)(item);
}

Status RowTable::sample(const MutableBatchView& out, std::span<SampledItem> items) {
  TROUPE_TRY(detail::check_sample(options_, out, items.size()));
  return sample_into(&out, items);
}

Status RowTable::draw(std::span<SampledItem> items) {
  if (items.empty()) {
    return Error{Code::kInvalidArgument, fmt::format("draw from table \"{}\": got no items", options_.name)};
  }
  return sample_into(nullptr, items);
}

Status RowTable::sample_into(const MutableBatchView* out, std::span<SampledItem> items) {
  const std::int64_t rows = std::ssize(items);
  if (sampleable(rows) < rows) return Error{Code::kUnavailable, sample_blocker(rows)};
  if (options_.max_times_sampled == 0) {
    selections_.resize(items.size());
    sampler_->select(rng_, selections_);
    give(selections_, out, 0, items);
  } else {
    // One at a time: an item that is used up must not be drawn again within the batch.
    for (std::int64_t i = 0; i < rows; ++i) {
      Selection selection;
      sampler_->select(rng_, {&selection, 1});
      give({&selection, 1}, out, i, items.subspan(static_cast<std::size_t>(i), 1));
      --draws_left_;
      if (rows_.header(selection.slot).times_sampled >= options_.max_times_sampled) leave(selection.slot);
    }
  }
  limiter_.count_samples(rows);
  return {};
}

void RowTable::give(std::span<const Selection> draws, const MutableBatchView* out, std::int64_t first,
                    std::span<SampledItem> sampled) {
  for (std::size_t i = 0; i < std::min(kPrefetchAhead, draws.size()); ++i) rows_.prefetch(draws[i].slot);
  for (std::size_t i = 0; i < draws.size(); ++i) {
    if (i + kPrefetchAhead < draws.size()) rows_.prefetch(draws[i + kPrefetchAhead].slot);
    if (i + 1 < draws.size()) rows_.prefetch_planes(draws[i + 1].slot);
    const Slot slot = draws[i].slot;
    ItemHeader& header = rows_.header(slot);
    if (header.times_sampled < std::numeric_limits<std::int32_t>::max()) ++header.times_sampled;
    sampled[i] = {.key = header.key,
                  .probability = draws[i].probability,
                  .priority = header.priority,
                  .times_sampled = header.times_sampled,
                  .table_items = items()};
    if (out != nullptr) rows_.read(slot, *out, first + static_cast<std::int64_t>(i));
    tell(&TableExtension::sampled, slot);
  }
}

/// Of a table whose keys do not follow their slots.
void RowTable::leave(Slot slot) {
  tell(&TableExtension::deleted, slot);
  if (options_.max_times_sampled > 0) draws_left_ -= options_.max_times_sampled - rows_.header(slot).times_sampled;
  const auto last = static_cast<Slot>(items() - 1);
  slots_.erase(rows_.header(slot).key);
  sampler_->erase(slot);
  remover_->erase(slot);
  rows_.release(slot);
  if (slot != last) {
    rows_.move(last, slot);
    slots_.put(rows_.header(slot).key, slot);
  }
  limiter_.count_deletes(1);
}

Result<std::int64_t> RowTable::update_priorities(std::span<const Key> keys, std::span<const double> priorities) {
  TROUPE_TRY(detail::check_update(options_, keys, priorities));
  updated_slots_.clear();
  updated_priorities_.clear();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Slot slot = find(keys[i]);
    if (slot == SlotMap::kNone) continue;
    updated_slots_.push_back(slot);
    updated_priorities_.push_back(priorities[i]);
    __builtin_prefetch(&rows_.header(slot), 1);
  }
  for (std::size_t i = 0; i < updated_slots_.size(); ++i) {
    rows_.header(updated_slots_[i]).priority = updated_priorities_[i];
  }
  sampler_->update(updated_slots_, updated_priorities_);
  remover_->update(updated_slots_, updated_priorities_);
  for (const Slot slot : updated_slots_) tell(&TableExtension::updated, slot);
  return static_cast<std::int64_t>(keys.size() - updated_slots_.size());
}

void RowTable::look_keys_up() {
  for (Slot slot = 0; keys_follow_slots_ && slot < static_cast<Slot>(items()); ++slot) {
    slots_.put(rows_.header(slot).key, slot);
  }
  keys_follow_slots_ = false;
}

Result<std::int64_t> RowTable::erase(std::span<const Key> keys) {
  look_keys_up();
  std::int64_t unknown = 0;
  for (const Key key : keys) {
    const Slot slot = slots_.find(key);
    if (slot == SlotMap::kNone) {
      ++unknown;
    } else {
      leave(slot);
    }
  }
  return unknown;
}

Status RowTable::reset() {
  tell_each(&TableExtension::deleted);
  first_key_ = next_key();
  sampler_->assign({}, {});
  remover_->assign({}, {});
  rows_ = RowStore(options_.signature, capacity_);
  slots_ = {};
  keys_follow_slots_ = keys_may_follow_slots_;
  draws_left_ = 0;
  return limiter_.set_counts({});
}

ImageHead RowTable::head() const {
  ImageHead head = image_head(options_, capacity_, limiter_.counts(), rng_);
  head.first_key = first_key_;
  head.has_gaps = keys_may_follow_slots_ && !keys_follow_slots_;
  return head;
}

std::vector<std::vector<std::byte>> RowTable::save() const { return write_image(head(), rows_); }

Status RowTable::restore(std::span<const std::vector<std::byte>> chunks) {
  TROUPE_ASSIGN(Image image, read_image(chunks, head()));
  return adopt(std::move(image.rows), image.head);
}

/// Makes `rows`, slots 0..head.items-1, the table's.
Status RowTable::adopt(RowStore rows, const ImageHead& head) {
  const auto count = static_cast<std::size_t>(head.items);
  const Key end = head.first_key + static_cast<Key>(head.counts.inserts);
  const bool keys_follow = keys_may_follow_slots_ && !head.has_gaps;
  std::vector<Key> keys(count);
  std::vector<double> priorities(count);
  SlotMap slots;
  KeyRing ring = ring_;
  if (count > 0) ring.start(rows.header(0).key);
  std::int64_t draws_left = options_.max_times_sampled > 0 ? 0 : std::numeric_limits<std::int64_t>::max();
  for (std::size_t slot = 0; slot < count; ++slot) {
    const ItemHeader& item = rows.header(static_cast<Slot>(slot));
    keys[slot] = item.key;
    priorities[slot] = item.priority;
    draws_left += options_.max_times_sampled > 0 ? options_.max_times_sampled - item.times_sampled : 0;
    const bool misplaced =
        keys_follow ? ring.slot_of(item.key) != slot || end - item.key > count : slots.find(item.key) != SlotMap::kNone;
    if (misplaced) {
      return Error{Code::kCorrupt, fmt::format("table image: key {} cannot be in slot {}", item.key, slot)};
    }
    if (!keys_follow) slots.put(item.key, static_cast<Slot>(slot));
  }
  TROUPE_TRY(limiter_.set_counts(head.counts));
  // From here on nothing can fail.
  tell_each(&TableExtension::deleted);
  sampler_->assign(keys, priorities);
  remover_->assign(keys, priorities);
  rng_.set_state(head.rng);
  rows_ = std::move(rows);
  slots_ = std::move(slots);
  first_key_ = head.first_key;
  keys_follow_slots_ = keys_follow;
  ring_ = ring;
  draws_left_ = draws_left;
  tell_each(&TableExtension::inserted);
  return {};
}

/// Only then can somebody else keep the rows as they come.
Status RowTable::check_in_order() const {
  if (in_order_ && first_key_ == 0 && keys_follow_slots_ == keys_may_follow_slots_) return {};
  if (in_order_) {
    return Error{Code::kInvalidArgument,
                 fmt::format("table \"{}\": it was reset, or items of it were erased", options_.name)};
  }
  return Error{Code::kInvalidArgument,
               fmt::format("table \"{}\": items leave in another order than they came (remover {}, max_times_sampled "
                           "{}), expected fifo and 0",
                           options_.name, to_string(options_.remover.kind), options_.max_times_sampled)};
}

Status RowTable::recover(Key first, const BatchView& batch, std::span<const double> priorities, std::int64_t samples) {
  TROUPE_TRY(detail::check_insert(options_, batch, priorities));
  TROUPE_TRY(check_in_order());
  TROUPE_TRY(go_on_from(options_, limiter_, first, samples));
  insert_rows(batch, priorities);
  return {};
}

Status RowTable::read(Key first, const MutableBatchView& out, std::span<double> priorities) const {
  TROUPE_TRY(detail::check_read(options_, out, priorities.size()));
  for (std::int64_t i = 0; i < out.rows; ++i) {
    const Slot slot = find(first + static_cast<Key>(i));
    if (slot == SlotMap::kNone) {
      return Error{Code::kNotFound,
                   fmt::format("read table \"{}\": no item {}", options_.name, first + static_cast<Key>(i))};
    }
    priorities[static_cast<std::size_t>(i)] = rows_.header(slot).priority;
    rows_.read(slot, out, i);
  }
  return {};
}

std::vector<std::vector<std::byte>> RowTable::save_items() const {
  return write_items(head(), [this](Slot slot) -> const ItemHeader& { return rows_.header(slot); });
}

Result<std::int64_t> RowTable::restore_items(std::span<const std::vector<std::byte>> chunks, const RowSource& source) {
  TROUPE_TRY(check_in_order());
  TROUPE_ASSIGN(FifoRows restored, collect_rows(options_, head(), chunks, source));
  TROUPE_TRY(adopt(std::move(restored.rows), restored.head));
  return restored.missing;
}

Status RowTable::restore_priorities(std::span<const std::vector<std::byte>> chunks) {
  return take_priorities(*this, head(), chunks);
}

}  // namespace

Result<std::unique_ptr<Table>> Table::make(TableOptions options) {
  TROUPE_ASSIGN(const std::int64_t capacity, detail::check_options(options));
  TROUPE_ASSIGN(RateLimiter limiter, RateLimiter::make(options.limiter));
  TROUPE_ASSIGN(std::unique_ptr<Selector> sampler, make_selector(options.sampler));
  TROUPE_ASSIGN(std::unique_ptr<Selector> remover, make_selector(options.remover));
  return std::unique_ptr<Table>(std::make_unique<RowTable>(std::move(options), capacity, std::move(sampler),
                                                           std::move(remover), std::move(limiter)));
}

}  // namespace troupe::replay
