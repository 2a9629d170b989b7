#include <troupe/replay/gpu_items.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace troupe::replay {

namespace {

/// Rows that are worth a copy of their own while more are to come.
constexpr std::size_t kSendBytes = std::size_t{64} << 10;

constexpr std::size_t bytes_of(std::int64_t count, std::size_t each) { return static_cast<std::size_t>(count) * each; }

/// As SumTree: the order of additions is a part of the result.
double sum(const double* c) { return ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7])); }

}  // namespace

Result<std::unique_ptr<GpuItems>> GpuItems::make(std::shared_ptr<const gpu::Gpu> gpu, const TableOptions& options,
                                                 std::int64_t capacity) {
  const bool tree = options.sampler.kind == SelectorKind::kPrioritized;
  GpuMemoryPlan plan(options.signature, capacity, tree);
  const std::string what = fmt::format("table \"{}\": {} items of {} bytes", options.name, capacity, plan.stride);
  auto device = gpu->allocate(plan.device.bytes, what);
  if (!device.ok() && device.error().code == Code::kUnavailable) {
    std::size_t free = 0;
    TROUPE_TRY(gpu->check(gpu->api().free_memory(&free), "asking for its free memory"));
    const std::int64_t fits = capacity_within(free, options.signature, tree, capacity);
    return Error{Code::kUnavailable,
                 fmt::format("{}; {}", device.error().message,
                             fits > 0 ? fmt::format("max_items {} would fit", fits) : "not even one item would fit")};
  }
  if (!device.ok()) return device.error();
  TROUPE_ASSIGN(auto host, gpu->allocate_pinned(plan.host.bytes, what));
  std::unique_ptr<GpuItems> made(new GpuItems(std::move(gpu), options, capacity, std::move(plan)));
  made->device_ = std::move(device).value();
  made->host_ = std::move(host);
  TROUPE_TRY(made->open());
  return made;
}

GpuItems::GpuItems(std::shared_ptr<const gpu::Gpu> gpu, const TableOptions& options, std::int64_t capacity,
                   GpuMemoryPlan plan)
    : gpu_(std::move(gpu)), signature_(options.signature), capacity_(capacity), plan_(std::move(plan)) {
  view_.exponent = options.sampler.priority_exponent;
  view_.uniform = options.sampler.kind == SelectorKind::kUniform ? 1 : 0;
}

Status GpuItems::open() {
  for (gpu::GpuStream* const stream : {&stream_, &copy_stream_}) {
    TROUPE_ASSIGN(*stream, gpu::GpuStream::make(gpu_));
  }
  for (gpu::GpuEvent* const event :
       {&ordered_, &copied_[0], &copied_[1], &moved_[0], &moved_[1], &taken_[0], &taken_[1]}) {
    TROUPE_ASSIGN(*event, gpu::GpuEvent::make(gpu_));
  }
  last_stream_ = stream_;
  view_.rows = device<std::uint8_t>(plan_.device.rows);
  view_.stride = static_cast<std::int64_t>(plan_.stride);
  view_.capacity = capacity_;
  view_.present = device<std::int64_t>(plan_.device.present);
  view_.priorities = device<double>(plan_.device.priorities);
  view_.times_sampled = device<std::int32_t>(plan_.device.times_sampled);
  for (const std::size_t offset : plan_.device.levels) view_.level[view_.levels++] = device<double>(offset);
  return clear();
}

GpuItems::~GpuItems() {
  if (!gpu_->use().ok()) return;  // lost, and with it all that is here
  for (const gpu::GpuStream* const stream : {&stream_, &copy_stream_}) {
    if (*stream != nullptr) (void)gpu_->api().synchronise(*stream);
  }
}

Status GpuItems::copy(void* to, const void* from, std::size_t bytes, TroupeCudaStream* stream) const {
  return check(gpu_->api().copy(to, from, bytes, stream), "a copy for replay");
}

Status GpuItems::synchronise() const { return check(gpu_->api().synchronise(stream_), "replay"); }

// ---- in ----

Status GpuItems::append(const BatchView& batch, std::span<const double> priorities) {
  for (std::int64_t i = 0; i < batch.rows; ++i) {
    TROUPE_TRY(make_room());
    std::byte* const to = host<std::byte>(plan_.host.staged_rows[half_]) + bytes_of(filled_, plan_.stride);
    for (std::size_t c = 0; c < plan_.columns.size(); ++c) {
      const std::size_t bytes = signature_[c].bytes();
      std::memcpy(to + plan_.columns[c], batch.columns[c].data() + bytes_of(i, bytes), bytes);
    }
    const double priority = priorities.empty() ? 1.0 : priorities[static_cast<std::size_t>(i)];
    host<TroupeCudaReplayItem>(plan_.host.staged_items[half_])[filled_++] = {.priority = priority};
  }
  return send_rows(kSendBytes);
}

Status GpuItems::append(std::span<const std::byte> packed, double priority, std::int32_t times_sampled) {
  TROUPE_TRY(make_room());
  std::byte* const to = host<std::byte>(plan_.host.staged_rows[half_]) + bytes_of(filled_, plan_.stride);
  std::memcpy(to, packed.data(), packed.size());
  host<TroupeCudaReplayItem>(plan_.host.staged_items[half_])[filled_++] = {.priority = priority,
                                                                           .times_sampled = times_sampled};
  return send_rows(kSendBytes);
}

/// For a row more in the half that is being filled.
Status GpuItems::make_room() {
  if (filled_ == plan_.staged_rows) TROUPE_TRY(settle(stream_));
  if (filled_ > 0) return {};
  TROUPE_TRY(gpu_->use());
  // The host may write here when its last rows are on the GPU, and they when those before them are in their slots.
  TROUPE_TRY(check(gpu_->api().await(copied_[half_]), "rows on their way"));
  return check(gpu_->api().wait(copy_stream_, moved_[half_]), "ordering streams");
}

/// Unless they are fewer bytes.
Status GpuItems::send_rows(std::size_t at_least) {
  const std::size_t bytes = bytes_of(filled_ - sent_, plan_.stride);
  if (bytes == 0 || bytes < at_least) return {};
  TROUPE_TRY(gpu_->use());
  const std::size_t offset = bytes_of(sent_, plan_.stride);
  TROUPE_TRY(copy(device<std::byte>(plan_.device.staged_rows[half_]) + offset,
                  host<std::byte>(plan_.host.staged_rows[half_]) + offset, bytes, copy_stream_));
  sent_ = filled_;
  return {};
}

Status GpuItems::settle(TroupeCudaStream* stream) {
  TROUPE_TRY(gpu_->use());
  if (stream != last_stream_) {
    TROUPE_TRY(check(gpu_->api().record(ordered_, last_stream_), "ordering streams"));
    TROUPE_TRY(check(gpu_->api().wait(stream, ordered_), "ordering streams"));
    last_stream_ = stream;
  }
  return filled_ > 0 ? move_rows(stream) : Status{};
}

/// What is filled, and begins another half.
Status GpuItems::move_rows(TroupeCudaStream* stream) {
  const TroupeCudaApi& api = gpu_->api();
  TROUPE_TRY(send_rows(0));
  auto* const items = device<TroupeCudaReplayItem>(plan_.device.staged_items[half_]);
  TROUPE_TRY(copy(items, host<TroupeCudaReplayItem>(plan_.host.staged_items[half_]),
                  bytes_of(filled_, sizeof(TroupeCudaReplayItem)), copy_stream_));
  TROUPE_TRY(check(api.record(copied_[half_], copy_stream_), "ordering streams"));
  TROUPE_TRY(check(api.wait(stream, copied_[half_]), "ordering streams"));
  const std::byte* const from = device<std::byte>(plan_.device.staged_rows[half_]);
  auto* const slots = device<std::byte>(plan_.device.rows);
  const std::int64_t straight = std::min(filled_, capacity_ - next_slot_);
  TROUPE_TRY(copy(slots + bytes_of(next_slot_, plan_.stride), from, bytes_of(straight, plan_.stride), stream));
  if (straight < filled_) {
    TROUPE_TRY(
        copy(slots, from + bytes_of(straight, plan_.stride), bytes_of(filled_ - straight, plan_.stride), stream));
  }
  present_ = std::min(present_ + filled_, capacity_);
  TROUPE_TRY(check(api.replay_insert(&view_, items, next_slot_, filled_, present_, stream), "inserting rows"));
  TROUPE_TRY(check(api.record(moved_[half_], stream), "ordering streams"));
  next_slot_ = (next_slot_ + filled_) % capacity_;
  filled_ = sent_ = 0;
  half_ ^= 1;
  return {};
}

Status GpuItems::clear() {
  TROUPE_TRY(settle(stream_));
  next_slot_ = present_ = 0;
  if (view_.levels == 0) return {};
  return check(gpu_->api().fill(view_.level[0], 0, plan_.device.tree_bytes, stream_), "emptying replay");
}

Status GpuItems::go_on_in(Slot slot) {
  TROUPE_TRY(settle(stream_));
  next_slot_ = slot;
  return {};
}

// ---- a launch ----

Result<std::span<std::uint64_t>> GpuItems::numbers(std::int64_t count) {
  TROUPE_TRY(gpu_->use());
  TROUPE_TRY(check(gpu_->api().await(taken_[numbers_half_]), "numbers on their way"));
  return std::span(host<std::uint64_t>(plan_.host.numbers[numbers_half_]), static_cast<std::size_t>(count));
}

Status GpuItems::send_numbers(std::int64_t count, TroupeCudaStream* stream) {
  TROUPE_TRY(copy(device<std::uint64_t>(plan_.device.numbers), host<std::uint64_t>(plan_.host.numbers[numbers_half_]),
                  bytes_of(count, sizeof(std::uint64_t)), stream));
  TROUPE_TRY(check(gpu_->api().record(taken_[numbers_half_], stream), "ordering streams"));
  numbers_half_ ^= 1;
  return {};
}

TroupeCudaDraws GpuItems::draws(std::int64_t first) const {
  return {.numbers = device<std::uint64_t>(plan_.device.numbers) + first,
          .slots = device<std::uint32_t>(plan_.device.slots) + first,
          .probabilities = device<double>(plan_.device.probabilities) + first,
          .priorities = device<double>(plan_.device.drawn_priorities) + first,
          .times_sampled = device<std::int32_t>(plan_.device.drawn_times) + first,
          .last = device<std::int32_t>(plan_.device.last) + first,
          .weights = device<float>(plan_.device.weights) + first};
}

Status GpuItems::draw(std::int64_t first, std::int64_t rows, std::span<void* const> columns, float* weights,
                      double importance_exponent, TroupeCudaStream* stream) const {
  TROUPE_TRY(gpu_->use());
  std::vector<TroupeCudaReplayColumn> wanted;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (columns[c] == nullptr) continue;
    wanted.push_back({.offset = static_cast<std::int64_t>(plan_.columns[c]),
                      .bytes = static_cast<std::int64_t>(signature_[c].bytes()),
                      .to = columns[c]});
  }
  const TroupeCudaDraws drawn = draws(first);
  return check(gpu_->api().replay_draw(&view_, &drawn, rows, wanted.data(), static_cast<std::int32_t>(wanted.size()),
                                       weights, importance_exponent, stream),
               "drawing rows");
}

Status GpuItems::update(std::int64_t first, std::int64_t rows, const float* priorities,
                        const TroupeCudaControl* control, TroupeCudaStream* stream) const {
  TROUPE_TRY(gpu_->use());
  const TroupeCudaDraws drawn = draws(first);
  return check(
      gpu_->api().replay_update(&view_, drawn.slots, drawn.last, priorities, TROUPE_CUDA_F32, rows, control, stream),
      "setting priorities");
}

// ---- for the host ----

Result<GpuItems::Drawn> GpuItems::sample(std::span<const std::uint64_t> numbers, const MutableBatchView& out,
                                         std::int64_t first) {
  TROUPE_TRY(gpu_->use());
  const std::size_t count = numbers.size();
  const auto rows = static_cast<std::int64_t>(count);
  auto* const sent = host<std::uint64_t>(plan_.host.host_numbers);
  std::ranges::copy(numbers, sent);
  const TroupeCudaDraws drawn = draws(kMostLaunchDraws);
  TROUPE_TRY(copy(device<std::uint64_t>(plan_.device.numbers) + kMostLaunchDraws, sent, numbers.size_bytes(), stream_));
  const std::vector<std::size_t> offsets = plan_.batch_columns(signature_, rows);
  std::vector<void*> columns;
  for (std::size_t c = 0; c < signature_.size(); ++c) {
    columns.push_back(device<std::byte>(plan_.device.batch) + offsets[c]);
  }
  TROUPE_TRY(draw(kMostLaunchDraws, rows, columns, nullptr, 0, stream_));
  auto* const batch = host<std::byte>(plan_.host.batch);
  TROUPE_TRY(copy(batch, device<std::byte>(plan_.device.batch), offsets.back(), stream_));
  auto* const slots = host<Slot>(plan_.host.slots);
  auto* const probabilities = host<double>(plan_.host.probabilities);
  auto* const priorities = host<double>(plan_.host.priorities);
  auto* const times = host<std::int32_t>(plan_.host.times_sampled);
  TROUPE_TRY(copy(slots, drawn.slots, count * sizeof(Slot), stream_));
  TROUPE_TRY(copy(probabilities, drawn.probabilities, count * sizeof(double), stream_));
  TROUPE_TRY(copy(priorities, drawn.priorities, count * sizeof(double), stream_));
  TROUPE_TRY(copy(times, drawn.times_sampled, count * sizeof(std::int32_t), stream_));
  TROUPE_TRY(synchronise());
  for (std::size_t c = 0; c < signature_.size(); ++c) {
    const std::size_t bytes = signature_[c].bytes();
    std::memcpy(out.columns[c].data() + bytes_of(first, bytes), batch + offsets[c], count * bytes);
  }
  return Drawn{{slots, count}, {probabilities, count}, {priorities, count}, {times, count}};
}

Status GpuItems::update(std::span<const Slot> slots, std::span<const double> priorities) {
  TROUPE_TRY(gpu_->use());
  const TroupeCudaDraws drawn = draws(kMostLaunchDraws);
  for (std::size_t first = 0; first < slots.size(); first += kMostHostDraws) {
    const std::size_t count = std::min<std::size_t>(kMostHostDraws, slots.size() - first);
    auto* const sent_slots = host<Slot>(plan_.host.slots);
    auto* const sent_priorities = host<double>(plan_.host.priorities);
    std::ranges::copy(slots.subspan(first, count), sent_slots);
    std::ranges::copy(priorities.subspan(first, count), sent_priorities);
    TROUPE_TRY(copy(drawn.slots, sent_slots, count * sizeof(Slot), stream_));
    TROUPE_TRY(copy(drawn.priorities, sent_priorities, count * sizeof(double), stream_));
    TROUPE_TRY(check(gpu_->api().replay_update(&view_, drawn.slots, nullptr, drawn.priorities, TROUPE_CUDA_F64,
                                               static_cast<std::int64_t>(count), nullptr, stream_),
                     "setting priorities"));
    TROUPE_TRY(synchronise());
  }
  return {};
}

Result<GpuItems::Fetched> GpuItems::fetch(Slot first, std::int64_t count, bool rows) {
  TROUPE_TRY(gpu_->use());
  auto* const batch = host<std::byte>(plan_.host.batch);
  auto* const priorities = host<double>(plan_.host.priorities);
  auto* const times = host<std::int32_t>(plan_.host.times_sampled);
  const std::size_t bytes = rows ? bytes_of(count, plan_.stride) : 0, items = static_cast<std::size_t>(count);
  TROUPE_TRY(copy(batch, device<std::byte>(plan_.device.rows) + bytes_of(first, plan_.stride), bytes, stream_));
  TROUPE_TRY(copy(priorities, view_.priorities + first, items * sizeof(double), stream_));
  TROUPE_TRY(copy(times, view_.times_sampled + first, items * sizeof(std::int32_t), stream_));
  TROUPE_TRY(synchronise());
  return Fetched{{batch, bytes}, {priorities, items}, {times, items}};
}

void GpuItems::unpack(const Fetched& fetched, std::int64_t index, const MutableBatchView& out, std::int64_t to) const {
  const std::byte* const row = fetched.rows.data() + bytes_of(index, plan_.stride);
  for (std::size_t c = 0; c < plan_.columns.size(); ++c) {
    const std::size_t bytes = signature_[c].bytes();
    std::memcpy(out.columns[c].data() + bytes_of(to, bytes), row + plan_.columns[c], bytes);
  }
}

Result<double> GpuItems::total() {
  if (view_.levels == 0) return 0.0;
  TROUPE_TRY(gpu_->use());
  auto* const root = host<double>(plan_.host.root);
  // The top of the whole tree: where fewer items are present, its one child has their sum, to which 0 is added.
  TROUPE_TRY(copy(root, view_.level[view_.levels - 1], 8 * sizeof(double), stream_));
  TROUPE_TRY(synchronise());
  return sum(root);
}

}  // namespace troupe::replay
