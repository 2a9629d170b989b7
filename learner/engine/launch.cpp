// Launches of several steps, and snapshots between them: what Program does about them, whatever the engine.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include <troupe/learner/engine/program_impl.hpp>

namespace troupe::learner {

namespace {

Error wrong(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

/// Index of the input or output `name`.
template <typename T>
Result<std::size_t> find(std::string_view call, const std::vector<T>& values, std::string_view name) {
  const auto found = std::ranges::find(values, name, &T::name);
  if (found == values.end()) return Error{Code::kNotFound, fmt::format("{}: there is no \"{}\"", call, name)};
  return static_cast<std::size_t>(found - values.begin());
}

}  // namespace

int Program::steps_per_launch() const { return impl_->executable->steps_per_launch(); }
int Program::staged() const { return impl_->staged; }
bool Program::under_way() const { return impl_->host.under_way > 0; }

Status Program::stage(const BatchView& batch) {
  Impl& impl = *impl_;
  if (impl.feed) return wrong("stage: a feed fills the inputs, expected begin(steps)");
  if (impl.kept_rows > 0) return wrong("stage: rows are kept on the device, expected stage_rows()");
  TROUPE_TRY(impl.check_staging("stage", batch));
  TROUPE_TRY(impl.executable->stage(impl.staged, batch));
  impl.staged_rows = batch.rows;
  ++impl.staged;
  return {};
}

Status Program::Impl::check_staging(std::string_view call, const BatchView& batch) const {
  const int most = executable->steps_per_launch();
  if (staged == most) {
    return wrong(
        fmt::format("{}: {} batches are staged already, expected at most {}; begin() comes first", call, staged, most));
  }
  TROUPE_TRY(host.check_batch(call, batch));
  if (staged > 0 && batch.rows != staged_rows) {
    return Error{Code::kShapeMismatch, fmt::format("{}: got {} rows, expected {} as the launch's batches before have",
                                                   call, batch.rows, staged_rows)};
  }
  for (const BoundInput& input : host.inputs) {
    if (!input.used || input.bound || input.kept || batch.find(input.name) >= 0) continue;
    return wrong(fmt::format("{}: input \"{}\" is no column, and was never bound", call, input.name));
  }
  return lost;
}

Status Program::begin() {
  Impl& impl = *impl_;
  TROUPE_TRY(impl.check_idle("begin"));
  if (impl.feed) return wrong("begin: a feed fills the inputs, expected begin(steps)");
  if (impl.staged == 0) return wrong("begin: nothing is staged; stage() comes first");
  const int steps = std::exchange(impl.staged, 0);
  impl.host.rows = impl.staged_rows;
  return impl.begin(Inputs::kStaged, steps);
}

Status Program::begin(int steps) {
  Impl& impl = *impl_;
  TROUPE_TRY(impl.check_idle("begin"));
  if (impl.kept_rows > 0 && steps == impl.staged) return begin();
  if (!impl.feed) return wrong("begin: no feed is attached, expected stage() and begin() without a number");
  if (steps < 1 || steps > steps_per_launch()) {
    return wrong(fmt::format("begin: got {} steps, expected 1 to {}", steps, steps_per_launch()));
  }
  impl.host.rows = impl.host.batch;
  return impl.begin(Inputs::kFed, steps);
}

Status Program::Impl::begin(Inputs inputs, int steps) {
  TROUPE_TRY(check_phase("begin", Phase::kStep));
  TROUPE_TRY(lost);
  TROUPE_TRY(executable->prepare(inputs, steps));
  host.phase = Phase::kStep;
  gradients_ready = false;
  const Status begun = executable->begin(inputs, steps);
  if (!begun.ok() && !executable->calls_host()) lost = begun;  // of a part of it nobody knows how much was done
  TROUPE_TRY(begun);
  host.under_way = steps;
  return {};
}

bool Program::finished() {
  if (impl_->host.under_way == 0 || impl_->host.options.waits) return true;  // finish() waits
  const Result<bool> finished = impl_->executable->finished();
  return !finished.ok() || *finished;  // finish() says what is wrong
}

Result<int> Program::finish() {
  Impl& impl = *impl_;
  if (impl.host.under_way == 0) return wrong("finish: no launch is under way; begin() comes first");
  impl.host.under_way = 0;
  impl.lost = impl.executable->finish();
  TROUPE_TRY(impl.lost);
  const int updates = impl.count_steps();
  if (std::exchange(impl.snapshot.awaits, false)) impl.snapshot.step = impl.host.step;
  return updates;
}

// ---- snapshots ----

Status Program::begin_snapshot(std::string_view group) {
  const std::string name(group);
  return begin_snapshot(std::span(&name, 1));
}

Status Program::begin_snapshot(std::span<const std::string> groups) {
  Impl& impl = *impl_;
  if (groups.empty()) return wrong("begin_snapshot: got no group, expected at least one");
  if (impl.snapshot.begun) {
    return wrong(fmt::format("begin_snapshot: got \"{}\", but one of \"{}\" has begun; snapshot() comes first",
                             groups[0], impl.host.groups[impl.snapshot.groups[0]].params->layout().group));
  }
  std::vector<std::size_t> indices;
  for (const std::string& group : groups) {
    const auto of_name = [&group](const Group& each) { return each.params->layout().group == group; };
    const auto found = std::ranges::find_if(impl.host.groups, of_name);
    if (found == impl.host.groups.end()) {
      return Error{Code::kNotFound, fmt::format("begin_snapshot: there is no group \"{}\"", group)};
    }
    indices.push_back(static_cast<std::size_t>(found - impl.host.groups.begin()));
  }
  TROUPE_TRY(impl.lost);
  TROUPE_TRY(impl.executable->begin_snapshot(indices, impl.published_with(indices).state));
  impl.snapshot.begun = true;
  impl.snapshot.awaits = impl.host.under_way > 0;
  impl.snapshot.groups = std::move(indices);
  impl.snapshot.step = impl.host.step;
  return {};
}

const Program::Impl::Published& Program::Impl::published_with(const std::vector<std::size_t>& of) {
  const auto [found, is_new] = published.try_emplace(of);
  if (is_new) {
    const ParamLayout& states = host.state.params->layout();
    std::vector<const ParamLayout*> layouts;
    for (const std::size_t group : of) layouts.push_back(&host.groups[group].params->layout());
    const ParamLayout whole = published_layout(layouts, states);
    found->second.fingerprint = whole.fingerprint();
    for (std::size_t i = 0; i < states.entries.size(); ++i) {
      if (whole.find(states.entries[i].name) == nullptr) continue;
      const auto begin = static_cast<std::size_t>(states.entries[i].offset),
                 end = static_cast<std::size_t>(states.end(i));
      found->second.state.push_back(host.state.params->values().subspan(begin, end - begin));
    }
  }
  return found->second;
}

Result<std::optional<Snapshot>> Program::snapshot() {
  Impl& impl = *impl_;
  if (!impl.snapshot.begun) return wrong("snapshot: none has begun; begin_snapshot() comes first");
  TROUPE_TRY(impl.lost);
  // The parameters themselves are of the step that has been counted last.
  const bool live = impl.executable->shares_memory();
  if (live && impl.host.under_way > 0) return std::optional<Snapshot>();
  TROUPE_ASSIGN(bool arrived, impl.executable->snapshot_arrived());
  while (!arrived && impl.host.options.waits) {
    std::this_thread::yield();
    TROUPE_ASSIGN(arrived, impl.executable->snapshot_arrived());
  }
  if (!arrived || impl.snapshot.awaits) return std::optional<Snapshot>();
  impl.snapshot.begun = false;
  return std::optional(Snapshot{impl.executable->snapshot(), impl.published_with(impl.snapshot.groups).fingerprint,
                                live ? impl.host.step : impl.snapshot.step});
}

bool Program::skipped(int step) const {
  const std::vector<bool>& skips = impl_->host.skips;
  return step >= 0 && step < static_cast<int>(skips.size()) && skips[static_cast<std::size_t>(step)];
}

std::span<const double> Program::metrics(int step) const {
  const Host& host = impl_->host;
  if (step < 0 || step >= static_cast<int>(host.skips.size())) return {};
  const std::size_t count = host.metric_names.size();
  return std::span(host.step_metrics).subspan(static_cast<std::size_t>(step) * count, count);
}

std::span<const float> Program::output(std::string_view name, int step) const {
  const Host& host = impl_->host;
  if (step < 0 || step >= static_cast<int>(host.skips.size()) || host.options.compute == DType::kF64) return {};
  const auto index = find("output", host.outputs, name);
  if (!index.ok()) return {};
  return host.valid<float>(host.outputs[*index].spec, impl_->executable->result(*index, step));
}

// ---- kept rows ----

Status Program::keep_rows(const Signature& columns, std::int64_t rows) {
  Impl& impl = *impl_;
  TROUPE_TRY(impl.check_idle("keep_rows"));
  RowKeeper* const keeper = impl.executable->row_keeper();
  if (keeper == nullptr) {
    return wrong(fmt::format("keep_rows: the program is on {}, expected one of a single device of a PJRT plug-in",
                             to_string(impl.host.options.device)));
  }
  if (impl.staged > 0) return wrong("keep_rows: batches are staged; begin() and finish() come first");
  if (rows < 1 || rows > std::numeric_limits<std::int32_t>::max()) {
    return wrong(
        fmt::format("keep_rows: got {} rows, expected 1 to {}", rows, std::numeric_limits<std::int32_t>::max()));
  }
  TROUPE_TRY(impl.host.check_batch("keep_rows", {&columns}));
  TROUPE_TRY(impl.lost);
  std::vector<std::size_t> used;
  for (const TensorSpec& column : columns) {
    TROUPE_ASSIGN(const std::size_t index, find("keep_rows", impl.host.inputs, column.name));
    if (impl.host.inputs[index].used) used.push_back(index);
  }
  impl.kept_rows = 0;
  for (BoundInput& input : impl.host.inputs) input.kept = false;
  TROUPE_TRY(keeper->keep(used, rows));
  for (const std::size_t index : used) impl.host.inputs[index].kept = true;
  impl.kept_rows = rows;
  return {};
}

std::int64_t Program::kept_rows() const { return impl_->kept_rows; }

Status Program::store_rows(std::int64_t first, const BatchView& rows) {
  Impl& impl = *impl_;
  if (first < 0 || rows.rows < 0 || first > impl.kept_rows - rows.rows) {
    return Error{Code::kOutOfRange, fmt::format("store_rows: got rows {} to {}, expected 0 to {}", first,
                                                first + rows.rows - 1, impl.kept_rows - 1)};
  }
  TROUPE_TRY(impl.host.check_batch("store_rows", {rows.signature}));
  for (const BoundInput& input : impl.host.inputs) {
    if (!input.kept || rows.find(input.name) >= 0) continue;
    return Error{Code::kNotFound, fmt::format("store_rows: column \"{}\" is missing", input.name)};
  }
  TROUPE_TRY(impl.lost);
  return impl.executable->row_keeper()->store(first, rows);
}

Status Program::stage_rows(std::span<const std::int32_t> numbers, const BatchView& rest) {
  Impl& impl = *impl_;
  if (impl.kept_rows == 0) return wrong("stage_rows: no rows are kept, expected keep_rows() before");
  if (std::ssize(numbers) != impl.host.batch) {
    return Error{Code::kShapeMismatch,
                 fmt::format("stage_rows: got {} numbers, expected {}", numbers.size(), impl.host.batch)};
  }
  const auto wrong_number =
      std::ranges::find_if(numbers, [&](std::int32_t each) { return each < 0 || each >= impl.kept_rows; });
  if (wrong_number != numbers.end()) {
    return Error{Code::kOutOfRange,
                 fmt::format("stage_rows: got row {}, expected 0 to {}", *wrong_number, impl.kept_rows - 1)};
  }
  static const Signature nothing;
  BatchView batch = rest;
  if (batch.signature == nullptr) batch.signature = &nothing;
  batch.rows = impl.host.batch;
  TROUPE_TRY(impl.check_staging("stage_rows", batch));
  TROUPE_TRY(impl.executable->row_keeper()->stage_kept(impl.staged, numbers, batch));
  impl.staged_rows = batch.rows;
  ++impl.staged;
  return {};
}

// ---- feeds ----

namespace {

Result<FeedTarget*> feed_target(std::string_view call, const Program::Impl& impl) {
  FeedTarget* const target = impl.executable->feed_target();
  if (target != nullptr) return target;
  return wrong(
      fmt::format("{}: the program is on {}, expected one on a GPU", call, to_string(impl.host.options.device)));
}

}  // namespace

Status Program::attach(std::shared_ptr<DeviceFeed> feed) {
  TROUPE_TRY(impl_->check_idle("attach"));
  TROUPE_ASSIGN(FeedTarget* const target, feed_target("attach", *impl_));
  if (impl_->staged > 0) return wrong("attach: batches are staged; begin() and finish() come first");
  target->attach(feed);
  impl_->feed = std::move(feed);
  return {};
}

bool Program::has_feed() const { return impl_->feed != nullptr; }

Result<DeviceSpan> Program::device_input(std::string_view name) const {
  TROUPE_ASSIGN(const FeedTarget* const target, feed_target("device_input", *impl_));
  TROUPE_ASSIGN(const std::size_t index, find("device_input", impl_->host.inputs, name));
  const ValueSpec& spec = impl_->host.inputs[index].spec;
  return DeviceSpan{target->input(index), spec.shape.elements(), spec.dtype};
}

Result<DeviceSpan> Program::device_output(std::string_view name) const {
  TROUPE_ASSIGN(const FeedTarget* const target, feed_target("device_output", *impl_));
  TROUPE_ASSIGN(const std::size_t index, find("device_output", impl_->host.outputs, name));
  const ValueSpec& spec = impl_->host.outputs[index].spec;
  return DeviceSpan{target->output(index), spec.shape.elements(), spec.dtype};
}

std::shared_ptr<const gpu::Gpu> Program::gpu() const {
  const FeedTarget* const target = impl_->executable->feed_target();
  return target != nullptr ? target->shared_gpu() : nullptr;
}

}  // namespace troupe::learner
