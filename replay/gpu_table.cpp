#include <troupe/replay/gpu_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <troupe/replay/table_checks.hpp>
#include <troupe/replay/table_image.hpp>

namespace troupe::replay {

namespace {

/// Split rows that are joined at a time: of images a few megabytes.
constexpr std::int64_t kJoinedRows = 16;

/// What an image wants of a GPU's items, slot by slot. The first error is kept; the image is then of no use.
class SlotReader {
 public:
  SlotReader(GpuItems& device, std::int64_t items, std::size_t row_bytes)
      : device_(device), items_(items), row_bytes_(row_bytes), status_(device.settle(device.stream())) {}

  const Status& status() const { return status_; }
  /// `slot` is 0, or the one after the last that was asked for. row_bytes 0: without columns.
  ImageRow row(Slot slot, Key key) {
    if (status_.ok() && slot - first_ >= block_.priorities.size()) {
      auto next = device_.fetch(slot, std::min(device_.host_rows(), items_ - slot), row_bytes_ > 0);
      if (!next.ok()) status_ = next.error();
      if (next.ok()) block_ = *next;
      first_ = slot;
    }
    if (!status_.ok()) return {};
    const std::size_t i = slot - first_;
    return {
        {key, block_.priorities[i], block_.times_sampled[i]},
        row_bytes_ == 0 ? std::span<const std::byte>() : block_.rows.subspan(i * device_.stride()).first(row_bytes_)};
  }

 private:
  GpuItems& device_;
  const std::int64_t items_;
  const std::size_t row_bytes_;
  Status status_;
  GpuItems::Fetched block_;
  Slot first_ = 0;
};

}  // namespace

Result<std::unique_ptr<GpuTable>> GpuTable::make(TableOptions options, std::shared_ptr<const gpu::Gpu> gpu) {
  TROUPE_ASSIGN(const std::int64_t capacity, detail::check_options(options, detail::Rows::kWhole));
  TROUPE_ASSIGN(RateLimiter limiter, RateLimiter::make(options.limiter));
  if (const auto sampler = make_selector(options.sampler); !sampler.ok()) return sampler.error();
  auto refuse = [&](std::string what) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("table \"{}\" on {}: {}: here items leave in the order in which they came, because the host "
                    "must know which there are, and draws and priorities are known to the GPU alone",
                    options.name, gpu->name(), what)};
  };
  if (options.remover.kind != SelectorKind::kFifo) {
    return refuse(fmt::format("remover is {}, expected fifo", to_string(options.remover.kind)));
  }
  if (options.sampler.kind == SelectorKind::kMaxHeap || options.sampler.kind == SelectorKind::kMinHeap) {
    return refuse(
        fmt::format("sampler is {}, expected uniform, prioritized, fifo or lifo", to_string(options.sampler.kind)));
  }
  if (options.max_times_sampled != 0) {
    return refuse(fmt::format("max_times_sampled is {}, expected 0", options.max_times_sampled));
  }
  if (!options.extensions.empty()) return refuse("it has extensions, expected none");
  TROUPE_ASSIGN(auto device, GpuItems::make(std::move(gpu), options, capacity));
  return std::unique_ptr<GpuTable>(new GpuTable(std::move(options), capacity, std::move(limiter), std::move(device)));
}

GpuTable::GpuTable(TableOptions options, std::int64_t capacity, RateLimiter limiter, std::unique_ptr<GpuItems> device)
    : options_(std::move(options)),
      stacks_(options_.signature),
      capacity_(capacity),
      limiter_(std::move(limiter)),
      rng_(options_.seed),
      ring_(capacity),
      device_(std::move(device)) {}

// ---- the learner's path ----

/// What the sampler of the host's table would take from its generator, as far as that does not depend on priorities.
void GpuTable::fill(std::span<std::uint64_t> numbers) {
  switch (options_.sampler.kind) {
    case SelectorKind::kPrioritized:
      for (std::uint64_t& number : numbers) number = rng_();
      return;
    case SelectorKind::kUniform:
      for (std::uint64_t& number : numbers) number = rng_.below(static_cast<std::uint64_t>(items()));
      return;
    case SelectorKind::kFifo:
      std::ranges::fill(numbers, ring_.slot_of(oldest()));
      return;
    case SelectorKind::kLifo:
      std::ranges::fill(numbers, ring_.slot_of(next_key() - 1));
      return;
    case SelectorKind::kMaxHeap:
    case SelectorKind::kMinHeap:
      return;  // refused by make()
  }
}

Status GpuTable::begin_launch(std::int64_t steps, std::int64_t rows, TroupeCudaStream* stream) {
  if (steps < 1 || rows < 1 || steps > kMostLaunchDraws / rows) {
    return Error{Code::kInvalidArgument,
                 fmt::format("launch of table \"{}\": {} steps of {} rows, expected 1 to {} draws", options_.name,
                             steps, rows, kMostLaunchDraws)};
  }
  const std::int64_t draws = steps * rows;
  if (sampleable(draws) < draws) return Error{Code::kUnavailable, sample_blocker(draws)};
  TROUPE_TRY(device_->settle(stream));
  TROUPE_ASSIGN(const std::span<std::uint64_t> numbers, device_->numbers(draws));
  fill(numbers);
  TROUPE_TRY(device_->send_numbers(draws, stream));
  limiter_.count_samples(draws);
  steps_ = steps;
  rows_ = rows;
  return {};
}

Status GpuTable::check_step(std::int64_t step) const {
  if (step >= 0 && step < steps_) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("launch of table \"{}\": step {}, expected 0 to {}", options_.name, step, steps_ - 1)};
}

Status GpuTable::enqueue_draw(std::int64_t step, DeviceColumns to, float* weights, double importance_exponent,
                              TroupeCudaStream* stream) {
  TROUPE_TRY(check_step(step));
  if (to.size() != options_.signature.size()) {
    return Error{Code::kInvalidArgument, fmt::format("launch of table \"{}\": {} columns, expected {}", options_.name,
                                                     to.size(), options_.signature.size())};
  }
  return device_->draw(step * rows_, rows_, to, weights, importance_exponent, stream);
}

Status GpuTable::enqueue_update(std::int64_t step, const float* priorities, const TroupeCudaControl* control,
                                TroupeCudaStream* stream) {
  TROUPE_TRY(check_step(step));
  return device_->update(step * rows_, rows_, priorities, control, stream);
}

Status GpuTable::end_launches() { return device_->settle(device_->stream()); }

// ---- what is there ----

TableInfo GpuTable::info() const {
  const RateLimiterCounts& counts = limiter_.counts();
  return {.items = items(),
          .bytes = items() * static_cast<std::int64_t>(device_->stride()),
          .inserts = counts.inserts,
          .samples = counts.samples,
          .evictions = counts.deletes};
}

Result<double> GpuTable::mass() const {
  const auto uniform = static_cast<double>(items());
  if (options_.sampler.kind != SelectorKind::kPrioritized || items() == 0) return uniform;
  TROUPE_TRY(device_->settle(device_->stream()));
  TROUPE_ASSIGN(const double total, device_->total());
  return total == 0 ? uniform : total;
}

std::string GpuTable::insert_blocker(std::int64_t rows) const {
  return detail::blocker(options_, limiter_.insert_blocker(rows));
}
std::string GpuTable::sample_blocker(std::int64_t rows) const {
  return detail::blocker(options_, limiter_.sample_blocker(rows));
}

// ---- inserts, samples, priorities ----

Result<Key> GpuTable::insert(const BatchView& batch, std::span<const double> priorities) {
  TROUPE_TRY(detail::check_insert(options_, batch, priorities));
  if (!limiter_.can_insert(batch.rows)) return Error{Code::kUnavailable, insert_blocker(batch.rows)};
  const Key first = next_key();
  TROUPE_TRY(insert_rows(batch, priorities));
  return first;
}

Status GpuTable::insert_rows(const BatchView& batch, std::span<const double> priorities) {
  if (items() == 0) ring_.start(next_key());
  if (stacks_.is_split(batch)) {
    WholeRows whole(stacks_);
    for (std::int64_t first = 0; first < batch.rows; first += kJoinedRows) {
      const std::int64_t count = std::min(kJoinedRows, batch.rows - first);
      const auto some = priorities.empty()
                            ? priorities
                            : priorities.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
      TROUPE_TRY(device_->append(whole.of(batch.slice(first, count)), some));
    }
  } else {
    TROUPE_TRY(device_->append(batch, priorities));
  }
  const std::int64_t evicted = std::max<std::int64_t>(0, items() + batch.rows - capacity_);
  limiter_.count_inserts(batch.rows);
  limiter_.count_deletes(evicted);
  return {};
}

Status GpuTable::sample(const MutableBatchView& out, std::span<SampledItem> sampled) {
  TROUPE_TRY(detail::check_sample(options_, out, sampled.size()));
  if (sampleable(out.rows) < out.rows) return Error{Code::kUnavailable, sample_blocker(out.rows)};
  TROUPE_TRY(device_->settle(device_->stream()));
  for (std::int64_t first = 0; first < out.rows; first += device_->host_rows()) {
    numbers_.resize(static_cast<std::size_t>(std::min(device_->host_rows(), out.rows - first)));
    fill(numbers_);
    TROUPE_ASSIGN(const GpuItems::Drawn drawn, device_->sample(numbers_, out, first));
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      sampled[static_cast<std::size_t>(first) + i] = {.key = ring_.key_in(drawn.slots[i], oldest()),
                                                      .probability = drawn.probabilities[i],
                                                      .priority = drawn.priorities[i],
                                                      .times_sampled = drawn.times_sampled[i],
                                                      .table_items = items()};
    }
  }
  limiter_.count_samples(out.rows);
  return {};
}

Result<std::int64_t> GpuTable::update_priorities(std::span<const Key> keys, std::span<const double> priorities) {
  TROUPE_TRY(detail::check_update(options_, keys, priorities));
  // Of a slot that comes twice the last one counts: sorted by slot, then by place.
  std::vector<std::pair<Slot, std::size_t>> order;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] >= oldest() && keys[i] < next_key()) order.emplace_back(ring_.slot_of(keys[i]), i);
  }
  const auto unknown = static_cast<std::int64_t>(keys.size() - order.size());
  if (order.empty()) return unknown;
  std::ranges::sort(order);
  std::vector<Slot> slots;
  std::vector<double> values;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i + 1 < order.size() && order[i + 1].first == order[i].first) continue;
    slots.push_back(order[i].first);
    values.push_back(priorities[order[i].second]);
  }
  TROUPE_TRY(device_->settle(device_->stream()));
  TROUPE_TRY(device_->update(slots, values));
  return unknown;
}

Status GpuTable::recover(Key first, const BatchView& batch, std::span<const double> priorities, std::int64_t samples) {
  TROUPE_TRY(detail::check_insert(options_, batch, priorities));
  TROUPE_TRY(go_on_from(options_, limiter_, first, samples));
  return insert_rows(batch, priorities);
}

Status GpuTable::read(Key first, const MutableBatchView& out, std::span<double> priorities) const {
  TROUPE_TRY(detail::check_read(options_, out, priorities.size()));
  for (std::int64_t i = 0; i < out.rows; ++i) {
    const Key key = first + static_cast<Key>(i);
    if (key >= oldest() && key < next_key()) continue;
    return Error{Code::kNotFound, fmt::format("read table \"{}\": no item {}", options_.name, key)};
  }
  TROUPE_TRY(device_->settle(device_->stream()));
  for (std::int64_t done = 0; done < out.rows;) {
    const Slot slot = ring_.slot_of(first + static_cast<Key>(done));
    const std::int64_t count = std::min({device_->host_rows(), out.rows - done, capacity_ - slot});
    TROUPE_ASSIGN(const GpuItems::Fetched fetched, device_->fetch(slot, count, true));
    for (std::int64_t i = 0; i < count; ++i) device_->unpack(fetched, i, out, done + i);
    std::ranges::copy(fetched.priorities, priorities.begin() + done);
    done += count;
  }
  return {};
}

Status GpuTable::draw(std::span<SampledItem>) {
  return Error{Code::kInvalidArgument, fmt::format("table \"{}\": on a GPU rows are drawn there", options_.name)};
}

// ---- images ----

Result<std::int64_t> GpuTable::erase(std::span<const Key>) { return reset().error(); }

Status GpuTable::reset() {
  return Error{Code::kInvalidArgument,
               fmt::format("table \"{}\": on a GPU items leave in the order in which they came, and by inserts alone",
                           options_.name)};
}

ImageHead GpuTable::head() const { return image_head(options_, capacity_, limiter_.counts(), rng_); }

std::vector<std::vector<std::byte>> GpuTable::save() const {
  SlotReader reader(*device_, items(), row_bytes(options_.signature));
  auto image = write_image(head(), [&](Slot slot) { return reader.row(slot, ring_.key_in(slot, oldest())); });
  if (!reader.status().ok()) image.clear();
  return image;
}

std::vector<std::vector<std::byte>> GpuTable::save_items() const {
  SlotReader reader(*device_, items(), 0);
  auto image = write_items(head(), [&](Slot slot) { return reader.row(slot, ring_.key_in(slot, oldest())).item; });
  if (!reader.status().ok()) image.clear();
  return image;
}

Status GpuTable::restore(std::span<const std::vector<std::byte>> chunks) {
  TROUPE_ASSIGN(Image image, read_image(chunks, head()));
  return adopt({std::move(image.rows), std::move(image.head), 0});
}

Result<std::int64_t> GpuTable::restore_items(std::span<const std::vector<std::byte>> chunks, const RowSource& source) {
  TROUPE_ASSIGN(const FifoRows restored, collect_rows(options_, head(), chunks, source));
  TROUPE_TRY(adopt(restored));
  return restored.missing;
}

Status GpuTable::adopt(const FifoRows& image) {
  if (image.head.first_key != 0 || image.head.has_gaps) {
    return Error{
        Code::kShapeMismatch,
        "table image: of a table that was reset, or of which items were erased, which one on a GPU cannot take"};
  }
  const auto count = static_cast<std::size_t>(image.head.items);
  KeyRing ring = ring_;
  if (count > 0) ring.start(image.rows.header(0).key);
  const auto end = static_cast<Key>(image.head.counts.inserts);
  for (std::size_t slot = 0; slot < count; ++slot) {
    const Key key = image.rows.header(static_cast<Slot>(slot)).key;
    if (ring.slot_of(key) == slot && end - key <= count) continue;
    return Error{Code::kCorrupt, fmt::format("table image: key {} cannot be in slot {}", key, slot)};
  }
  TROUPE_TRY(limiter_.set_counts(image.head.counts));
  // From here on nothing but the GPU can fail.
  ring_ = ring;
  rng_.set_state(image.head.rng);
  TROUPE_TRY(device_->clear());
  std::vector<std::byte> packed(row_bytes(options_.signature));
  for (std::size_t slot = 0; slot < count; ++slot) {
    const ItemHeader& item = image.rows.header(static_cast<Slot>(slot));
    image.rows.read_packed(static_cast<Slot>(slot), packed);
    TROUPE_TRY(device_->append(packed, item.priority, item.times_sampled));
  }
  return device_->go_on_in(count > 0 ? ring.slot_of(end) : 0);
}

Status GpuTable::restore_priorities(std::span<const std::vector<std::byte>> chunks) {
  return take_priorities(*this, head(), chunks);
}

}  // namespace troupe::replay
