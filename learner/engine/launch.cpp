// Launches of several steps, and snapshots between them: what Program does about them. On a GPU they are CudaProgram's;
// a processor takes the one step of a launch in begin().
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <troupe/learner/engine/cuda/cuda_program.hpp>
#include <troupe/learner/engine/program_impl.hpp>

namespace troupe::learner {

namespace {

Error wrong(std::string message) { return {Code::kInvalidArgument, std::move(message)}; }

Status begin_on_gpu(Program::Impl& impl, CudaProgram::Inputs inputs, int steps) {
  TROUPE_TRY(impl.lost);
  TROUPE_TRY(impl.cuda->prepare(inputs, steps));
  impl.enter(Phase::kStep);
  impl.gradients_ready = false;
  const Status begun = impl.cuda->begin(inputs, steps);
  if (!begun.ok() && !impl.cuda->calls_host()) impl.lost = begun;  // of a part of it nobody knows how much was done
  TROUPE_TRY(begun);
  impl.under_way = steps;
  return {};
}

/// Index of the input or output `name`.
template <typename T>
Result<std::size_t> find(std::string_view call, const std::vector<T>& values, std::string_view name) {
  const auto found = std::ranges::find(values, name, &T::name);
  if (found == values.end()) return Error{Code::kNotFound, fmt::format("{}: there is no \"{}\"", call, name)};
  return static_cast<std::size_t>(found - values.begin());
}

}  // namespace

int Program::steps_per_launch() const { return impl_->cuda ? impl_->cuda->steps_per_launch() : 1; }
int Program::staged() const { return impl_->staged; }
bool Program::under_way() const { return impl_->under_way > 0; }

Status Program::stage(const BatchView& batch) {
  Impl& impl = *impl_;
  if (impl.feed) return wrong("stage: a feed fills the inputs, expected begin(steps)");
  if (impl.staged == steps_per_launch()) {
    return wrong(fmt::format("stage: {} batches are staged already, expected at most {}; begin() comes first",
                             impl.staged, steps_per_launch()));
  }
  TROUPE_TRY(impl.check_batch("stage", batch));
  if (impl.staged > 0 && batch.rows != impl.staged_rows) {
    return Error{Code::kShapeMismatch,
                 fmt::format("stage: got {} rows, expected {} as the launch's batches before have", batch.rows,
                             impl.staged_rows)};
  }
  for (const BoundInput& input : impl.inputs) {
    if (!input.used || input.bound || batch.find(input.name) >= 0) continue;
    return wrong(fmt::format("stage: input \"{}\" is no column, and was never bound", input.name));
  }
  if (impl.cuda) {
    TROUPE_TRY(impl.lost);
    TROUPE_TRY(impl.cuda->stage(impl.staged, batch));
  } else {
    impl.staged_batch = batch;
  }
  impl.staged_rows = batch.rows;
  ++impl.staged;
  return {};
}

Status Program::begin() {
  Impl& impl = *impl_;
  TROUPE_TRY(impl.check_idle("begin"));
  if (impl.feed) return wrong("begin: a feed fills the inputs, expected begin(steps)");
  if (impl.staged == 0) return wrong("begin: nothing is staged; stage() comes first");
  const int steps = std::exchange(impl.staged, 0);
  if (impl.cuda) {
    impl.set_rows(impl.staged_rows);
    return begin_on_gpu(impl, CudaProgram::Inputs::kStaged, steps);
  }
  TROUPE_TRY(bind(impl.staged_batch));
  TROUPE_TRY(impl.check_ready("begin", Phase::kStep));
  impl.enter(Phase::kStep);
  impl.gradients_ready = false;
  impl.run_on_threads();
  TROUPE_TRY(impl.failure);
  impl.skips.assign(1, impl.skip);
  impl.under_way = 1;
  return {};
}

Status Program::begin(int steps) {
  Impl& impl = *impl_;
  TROUPE_TRY(impl.check_idle("begin"));
  if (!impl.feed) return wrong("begin: no feed is attached, expected stage() and begin() without a number");
  if (steps < 1 || steps > steps_per_launch()) {
    return wrong(fmt::format("begin: got {} steps, expected 1 to {}", steps, steps_per_launch()));
  }
  impl.set_rows(impl.batch);
  return begin_on_gpu(impl, CudaProgram::Inputs::kFed, steps);
}

bool Program::finished() {
  if (!impl_->cuda || impl_->under_way == 0) return true;
  const Result<bool> finished = impl_->cuda->finished();
  return !finished.ok() || *finished;  // finish() says what is wrong
}

Result<int> Program::finish() {
  Impl& impl = *impl_;
  if (impl.under_way == 0) return wrong("finish: no launch is under way; begin() comes first");
  impl.under_way = 0;
  if (impl.cuda) {
    impl.lost = impl.cuda->finish();
    TROUPE_TRY(impl.lost);
  }
  const int updates = impl.count_steps();
  if (std::exchange(impl.snapshot.awaits, false)) impl.snapshot.step = impl.step;
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
                             groups[0], impl.groups[impl.snapshot.groups[0]].params->layout().group));
  }
  std::vector<std::size_t> indices;
  for (const std::string& group : groups) {
    const auto of_name = [&group](const Group& each) { return each.params->layout().group == group; };
    const auto found = std::ranges::find_if(impl.groups, of_name);
    if (found == impl.groups.end()) {
      return Error{Code::kNotFound, fmt::format("begin_snapshot: there is no group \"{}\"", group)};
    }
    indices.push_back(static_cast<std::size_t>(found - impl.groups.begin()));
  }
  if (impl.cuda) {
    TROUPE_TRY(impl.lost);
    TROUPE_TRY(impl.cuda->begin_snapshot(indices, impl.published_with(indices).state));
  }
  impl.snapshot.begun = true;
  impl.snapshot.awaits = impl.under_way > 0;
  impl.snapshot.groups = std::move(indices);
  impl.snapshot.step = impl.step;
  return {};
}

const Program::Impl::Published& Program::Impl::published_with(const std::vector<std::size_t>& of) {
  const auto [found, is_new] = published.try_emplace(of);
  if (is_new) {
    const ParamLayout& states = state.params->layout();
    std::vector<const ParamLayout*> layouts;
    for (const std::size_t group : of) layouts.push_back(&groups[group].params->layout());
    const ParamLayout whole = published_layout(layouts, states);
    found->second.fingerprint = whole.fingerprint();
    for (std::size_t i = 0; i < states.entries.size(); ++i) {
      if (whole.find(states.entries[i].name) == nullptr) continue;
      const auto begin = static_cast<std::size_t>(states.entries[i].offset),
                 end = static_cast<std::size_t>(states.end(i));
      found->second.state.push_back(state.params->values().subspan(begin, end - begin));
    }
  }
  return found->second;
}

Result<std::optional<Snapshot>> Program::snapshot() {
  Impl& impl = *impl_;
  if (!impl.snapshot.begun) return wrong("snapshot: none has begun; begin_snapshot() comes first");
  TROUPE_TRY(impl.lost);
  const Impl::Published& published = impl.published_with(impl.snapshot.groups);
  if (!impl.cuda) {
    if (impl.under_way > 0) return std::optional<Snapshot>();
    impl.snapshot.begun = false;
    std::vector<std::span<const float>> parts;
    for (const std::size_t group : impl.snapshot.groups) parts.push_back(impl.groups[group].params->values());
    parts.insert(parts.end(), published.state.begin(), published.state.end());
    std::span<const float> values = parts[0];
    if (parts.size() > 1) {
      impl.snapshot.values.clear();
      for (const auto part : parts) {
        impl.snapshot.values.insert(impl.snapshot.values.end(), part.begin(), part.end());
      }
      values = impl.snapshot.values;
    }
    return std::optional(Snapshot{values, published.fingerprint, impl.step});
  }
  TROUPE_ASSIGN(const bool arrived, impl.cuda->snapshot_arrived());
  if (!arrived || impl.snapshot.awaits) return std::optional<Snapshot>();
  impl.snapshot.begun = false;
  return std::optional(Snapshot{impl.cuda->snapshot(), published.fingerprint, impl.snapshot.step});
}

bool Program::skipped(int step) const {
  return step >= 0 && step < static_cast<int>(impl_->skips.size()) && impl_->skips[static_cast<std::size_t>(step)];
}

std::span<const double> Program::metrics(int step) const {
  if (step < 0 || step >= static_cast<int>(impl_->skips.size())) return {};
  if (!impl_->cuda) return impl_->metric_values;
  const std::size_t count = impl_->metric_values.size();
  return std::span(impl_->step_metrics).subspan(static_cast<std::size_t>(step) * count, count);
}

std::span<const float> Program::output(std::string_view name, int step) const {
  if (step < 0 || step >= static_cast<int>(impl_->skips.size())) return {};
  if (!impl_->cuda) return output(name);
  const auto index = find("output", impl_->outputs, name);
  if (!index.ok()) return {};
  return impl_->valid<float>(impl_->outputs[*index].spec, impl_->cuda->result(*index, step));
}

// ---- feeds ----

Status Program::attach(std::shared_ptr<DeviceFeed> feed) {
  TROUPE_TRY(impl_->check_idle("attach"));
  if (!impl_->cuda) return wrong("attach: the program is on cpu, expected one on a GPU");
  if (impl_->staged > 0) return wrong("attach: batches are staged; begin() and finish() come first");
  impl_->cuda->attach(feed);
  impl_->feed = std::move(feed);
  return {};
}

Result<DeviceSpan> Program::device_input(std::string_view name) const {
  if (!impl_->cuda) return wrong("device_input: the program is on cpu, expected one on a GPU");
  TROUPE_ASSIGN(const std::size_t index, find("device_input", impl_->inputs, name));
  const ValueSpec& spec = impl_->inputs[index].spec;
  return DeviceSpan{impl_->cuda->input(index), spec.shape.elements(), spec.dtype};
}

Result<DeviceSpan> Program::device_output(std::string_view name) const {
  if (!impl_->cuda) return wrong("device_output: the program is on cpu, expected one on a GPU");
  TROUPE_ASSIGN(const std::size_t index, find("device_output", impl_->outputs, name));
  const ValueSpec& spec = impl_->outputs[index].spec;
  return DeviceSpan{impl_->cuda->output(index), spec.shape.elements(), spec.dtype};
}

std::shared_ptr<const gpu::Gpu> Program::gpu() const { return impl_->cuda ? impl_->cuda->shared_gpu() : nullptr; }

}  // namespace troupe::learner
