#include <troupe/learner/engine/program.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include <troupe/core/check.hpp>
#include <troupe/learner/engine/cuda/cuda_program.hpp>
#include <troupe/learner/engine/program_impl.hpp>

namespace troupe::learner {

Program::Program(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Program::~Program() = default;

Program::Impl::Impl(int stripes, int threads, int devices)
    : devices(devices),
      pool(threads * devices),
      stripes(static_cast<std::size_t>(stripes)),
      progress(static_cast<std::size_t>(stripes * devices)) {}
Program::Impl::~Impl() = default;

namespace {

/// Points every stripe's operands of an input at its rows of `data`.
void point_at(std::span<Stripe> stripes, BoundInput& input, const std::byte* data, std::int64_t batch,
              std::int64_t bytes) {
  const std::int64_t row_bytes = input.spec.shape.elements() / batch * bytes;
  const bool rows = input.spec.place == Place::kRows;
  for (const auto& [stripe, operand] : input.operands) {
    stripes[stripe].operands[operand].data =
        const_cast<std::byte*>(data) + (rows ? stripes[stripe].first_row * row_bytes : 0);
  }
  input.data = data;
  input.bound = true;
}

Result<BoundInput*> find_input(std::vector<BoundInput>& inputs, std::string_view name, DType dtype, std::size_t size) {
  const auto found = std::ranges::find(inputs, name, &BoundInput::name);
  if (found == inputs.end()) return Error{Code::kNotFound, fmt::format("bind: no input \"{}\"", name)};
  if (found->spec.dtype != dtype) {
    return Error{Code::kShapeMismatch, fmt::format("bind \"{}\": got {}, expected {}", name, troupe::to_string(dtype),
                                                   troupe::to_string(found->spec.dtype))};
  }
  if (static_cast<std::int64_t>(size) != found->spec.shape.elements()) {
    return Error{Code::kShapeMismatch, fmt::format("bind \"{}\": got {} values, expected {} for {}", name, size,
                                                   found->spec.shape.elements(), found->spec.shape.to_string())};
  }
  return &*found;
}

}  // namespace

void copy_rows(const ValueSpec& input, std::span<const std::byte> data, std::int64_t rows, std::int64_t batch,
               DType compute, std::byte* to) {
  const std::int64_t elements = input.shape.elements() / batch;  // of a row
  const auto row = static_cast<std::size_t>(elements * element_bytes(input.dtype, compute));
  if (input.dtype == DType::kF32 && compute == DType::kF64) {
    std::copy_n(reinterpret_cast<const float*>(data.data()), rows * elements, reinterpret_cast<double*>(to));
  } else {
    std::copy_n(data.data(), static_cast<std::size_t>(rows) * row, to);
  }
  for (std::int64_t r = rows; r < batch && rows > 0; ++r) {
    std::memcpy(to + static_cast<std::size_t>(r) * row, to + static_cast<std::size_t>(rows - 1) * row, row);
  }
}

void Program::Impl::set_rows(std::int64_t valid) {
  rows = valid;
  for (Stripe& stripe : stripes) {
    stripe.valid = {stripe.rows, std::clamp<std::int64_t>(valid - stripe.first_row, 0, stripe.rows), valid, batch,
                    stripe.first_row};
  }
}

Status Program::bind(std::string_view name, std::span<const float> data) {
  TROUPE_ASSIGN(BoundInput* const input, find_input(impl_->inputs, name, DType::kF32, data.size()));
  if (impl_->options.compute == DType::kF64) {
    std::ranges::copy(data, reinterpret_cast<double*>(input->staging.get()));
    point_at(impl_->stripes, *input, input->staging.get(), impl_->batch, 8);
  } else {
    point_at(impl_->stripes, *input, reinterpret_cast<const std::byte*>(data.data()), impl_->batch, 4);
  }
  return {};
}

Status Program::bind(std::string_view name, std::span<const std::int32_t> data) {
  TROUPE_ASSIGN(BoundInput* const input, find_input(impl_->inputs, name, DType::kI32, data.size()));
  point_at(impl_->stripes, *input, reinterpret_cast<const std::byte*>(data.data()), impl_->batch, 4);
  return {};
}

Status Program::bind(std::string_view name, std::span<const std::uint8_t> data) {
  TROUPE_ASSIGN(BoundInput* const input, find_input(impl_->inputs, name, DType::kU8, data.size()));
  point_at(impl_->stripes, *input, reinterpret_cast<const std::byte*>(data.data()), impl_->batch, 1);
  return {};
}

Status Program::bind(std::string_view name, std::span<const double> data) {
  if (impl_->options.compute != DType::kF64) {
    return Error{Code::kInvalidArgument,
                 fmt::format("bind \"{}\": got float64, expected float32 unless compiled for float64", name)};
  }
  TROUPE_ASSIGN(BoundInput* const input, find_input(impl_->inputs, name, DType::kF32, data.size()));
  std::ranges::copy(data, reinterpret_cast<double*>(input->staging.get()));
  point_at(impl_->stripes, *input, input->staging.get(), impl_->batch, 8);
  return {};
}

Status Program::Impl::check_batch(std::string_view call, const BatchView& of) const {
  if (of.rows < 0 || of.rows > batch) {
    return Error{Code::kShapeMismatch, fmt::format("{}: got {} rows, expected {} or fewer", call, of.rows, batch)};
  }
  for (const BoundInput& input : inputs) {
    const int column = of.find(input.name);
    if (column < 0) continue;
    const TensorSpec& got = (*of.signature)[static_cast<std::size_t>(column)];
    if (got.dtype == input.spec.dtype && got.shape.with_leading(batch) == input.spec.shape) continue;
    return Error{Code::kShapeMismatch,
                 fmt::format("{}: column {}, expected {} rows of an input {}{}", call, got.to_string(), batch,
                             troupe::to_string(input.spec.dtype), input.spec.shape.to_string())};
  }
  return {};
}

Status Program::bind(const BatchView& batch) {
  TROUPE_TRY(impl_->check_batch("bind", batch));
  const DType compute = impl_->options.compute;
  for (BoundInput& input : impl_->inputs) {
    const int column = batch.find(input.name);
    if (column < 0) continue;
    const auto index = static_cast<std::size_t>(column);
    if (batch.rows < impl_->batch) {
      const std::int64_t bytes = element_bytes(input.spec.dtype, compute);
      if (!input.staging) {
        input.staging = make_aligned<std::byte>(static_cast<std::size_t>(input.spec.shape.elements() * bytes));
      }
      copy_rows(input.spec, batch.columns[index], batch.rows, impl_->batch, compute, input.staging.get());
      point_at(impl_->stripes, input, input.staging.get(), impl_->batch, bytes);
      continue;
    }
    switch (input.spec.dtype) {
      case DType::kI32:
        TROUPE_TRY(bind(input.name, batch.as<std::int32_t>(index)));
        break;
      case DType::kU8:
        TROUPE_TRY(bind(input.name, batch.as<std::uint8_t>(index)));
        break;
      default:
        TROUPE_TRY(bind(input.name, batch.as<float>(index)));
    }
  }
  impl_->set_rows(batch.rows);
  return {};
}

std::int64_t Program::rows() const { return impl_->rows; }

Status Program::Impl::check_idle(std::string_view call) const {
  if (under_way == 0) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{}: a launch of {} steps is under way; finish() comes first", call, under_way)};
}

Status Program::Impl::check_ready(std::string_view call, Phase of) const {
  for (const BoundInput& input : inputs) {
    if (input.used && !input.bound) {
      return Error{Code::kInvalidArgument, fmt::format("{}: input \"{}\" was never bound", call, input.name)};
    }
  }
  if (options.compute == DType::kF64 && of != Phase::kGradients && !minimized.empty()) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: float64 programs compute gradients but do not update parameters", call)};
  }
  return {};
}

void Program::Impl::enter(Phase entered) {
  phase = entered;
  failure = {};
  stopped = false;
  skip = false;
}

Status Program::run(Phase phase) {
  TROUPE_TRY(impl_->check_idle("run"));
  if (impl_->staged > 0 || (impl_->feed && phase != Phase::kUpdate)) {
    return Error{Code::kInvalidArgument, fmt::format("run: {}; begin() runs that",
                                                     impl_->feed ? "a feed fills the inputs" : "batches are staged")};
  }
  TROUPE_TRY(impl_->check_ready("run", phase));
  if (phase == Phase::kUpdate && !impl_->gradients_ready) {
    return Error{Code::kInvalidArgument, "run: update without gradients; run(kGradients) comes first"};
  }
  impl_->enter(phase);
  impl_->cuda ? impl_->run_on_gpu() : impl_->run_on_threads();
  impl_->gradients_ready = phase == Phase::kGradients && impl_->failure.ok();
  TROUPE_TRY(impl_->failure);
  if (!impl_->cuda) impl_->skips.assign(1, impl_->skip);
  if (phase != Phase::kGradients) impl_->count_steps();
  return {};
}

int Program::Impl::count_steps() {
  if (minimized.empty() || !count_run()) return 0;
  const std::int64_t before = step;
  skipped_in_a_row_max = 0;
  for (const bool each : skips) {
    ++(each ? skipped : step);
    skipped_in_a_row = each ? skipped_in_a_row + 1 : 0;
    skipped_in_a_row_max = std::max(skipped_in_a_row_max, skipped_in_a_row);
  }
  return static_cast<int>(step - before);
}

void Program::Impl::run_on_threads() {
  for (Progress& device : progress) device.calls = 0;  // no thread runs yet
  const bool exchanging = exchange && phase == Phase::kStep;
  if (exchanging) exchange->begin();
  pool.run([](void* impl, int stripe) { static_cast<Impl*>(impl)->run_thread(stripe); }, this);
  if (exchanging && failure.ok()) failure = exchange->finish();
  if (failure.ok() && phase != Phase::kUpdate) collect();
}

void Program::Impl::run_on_gpu() { failure = lost.ok() ? cuda->run() : lost; }

void Program::Impl::fetch(std::size_t group) {
  if (cuda && lost.ok() && under_way == 0) lost = cuda->fetch_parameters(group);
}

Status Program::fetch() {
  TROUPE_TRY(impl_->check_idle("fetch"));
  for (std::size_t g = 0; g <= impl_->groups.size(); ++g) impl_->fetch(g);
  return impl_->lost;
}

Status Program::fetch(std::string_view group) {
  TROUPE_TRY(impl_->check_idle("fetch"));
  (void)params(group);
  return impl_->lost;
}

std::span<const std::string> Program::metric_names() const { return impl_->metric_names; }
std::span<const double> Program::metrics() const { return impl_->metric_values; }

std::span<const float> Program::output(std::string_view name) const {
  const auto found = std::ranges::find(impl_->outputs, name, &OutputBuffer::name);
  if (found == impl_->outputs.end() || impl_->options.compute == DType::kF64) return {};
  return impl_->valid<float>(found->spec, found->data.get());
}

std::span<const double> Program::output_f64(std::string_view name) const {
  const auto found = std::ranges::find(impl_->outputs, name, &OutputBuffer::name);
  if (found == impl_->outputs.end() || impl_->options.compute != DType::kF64) return {};
  return impl_->valid<double>(found->spec, found->data.get());
}

std::size_t Program::group_count() const { return impl_->groups.size(); }
ParamBuffer& Program::group(std::size_t index) {
  impl_->fetch(index);
  return *impl_->groups[index].params;
}
const ParamBuffer& Program::group(std::size_t index) const { return const_cast<Program*>(this)->group(index); }

ParamBuffer* Program::params(std::string_view group) {
  for (std::size_t g = 0; g < impl_->groups.size(); ++g) {
    if (impl_->groups[g].params->layout().group == group) return &this->group(g);
  }
  return nullptr;
}
const ParamBuffer* Program::params(std::string_view group) const { return const_cast<Program*>(this)->params(group); }
ParamBuffer& Program::state() {
  impl_->fetch(impl_->groups.size());
  return *impl_->state.params;
}
std::int64_t Program::batches() const {
  const auto begun = impl_->accumulation ? static_cast<std::int64_t>(impl_->accumulated_runs()) : 0;
  return impl_->step * impl_->options.accumulate + begun;
}
ParamBuffer* Program::accumulation() { return impl_->accumulation.get(); }

void Program::assign_states() {
  TROUPE_CHECK(impl_->under_way == 0, "assign_states: a launch of {} steps is under way", impl_->under_way);
  if (impl_->cuda) {
    if (impl_->lost.ok()) impl_->lost = impl_->cuda->assign_states();
    return;
  }
  impl_->assign_states();
}

void Program::parameters_changed() {
  TROUPE_CHECK(impl_->under_way == 0, "parameters_changed: a launch of {} steps is under way", impl_->under_way);
  if (impl_->cuda) {
    if (impl_->lost.ok()) impl_->lost = impl_->cuda->send_parameters();
    return;
  }
  const auto refresh = [this](Group& group) {
    const std::span<const float> values = group.params->values();
    if (impl_->options.compute == DType::kF64) std::ranges::copy(values, group.values_f64.get());
    if (impl_->options.compute == DType::kBF16 && &group != &impl_->state) {
      impl_->table->to_bf16(values.data(), group.shadow.get(), 0, static_cast<std::int64_t>(values.size()));
    }
  };
  for (Group& group : impl_->groups) refresh(group);
  refresh(impl_->state);
}

std::span<float> Program::gradient(std::string_view group) {
  for (Minimized& minimized : impl_->minimized) {
    const ParamLayout& layout = impl_->groups[minimized.group].params->layout();
    if (layout.group != group) continue;
    if (impl_->cuda && impl_->lost.ok() && impl_->under_way == 0) {
      impl_->lost = impl_->cuda->fetch_gradient(static_cast<std::size_t>(&minimized - impl_->minimized.data()));
    }
    float* const data = impl_->options.compute == DType::kF64 ? minimized.gradient_f64.get()
                                                              : const_cast<float*>(minimized.gradients[0]);
    return {data, static_cast<std::size_t>(layout.elements)};
  }
  return {};
}

std::int64_t Program::step() const { return impl_->step; }
void Program::set_step(std::int64_t step) {
  TROUPE_CHECK(impl_->under_way == 0, "set_step: a launch of {} steps is under way", impl_->under_way);
  impl_->step = step;
}
std::int64_t Program::skipped() const { return impl_->skipped; }
std::int64_t Program::skipped_in_a_row() const { return impl_->skipped_in_a_row; }
std::int64_t Program::skipped_in_a_row_max() const { return impl_->skipped_in_a_row_max; }

std::string_view Program::gemm_backend_name() const {
  if (impl_->cuda) return "cublaslt";
  return to_string(impl_->options.compute == DType::kF64 ? GemmBackend::kEigen : resolve(impl_->options.gemm));
}
std::string_view Program::instruction_set() const { return impl_->table->instruction_set; }
std::size_t Program::arena_bytes() const { return impl_->cuda ? impl_->cuda->bytes() : impl_->arena_bytes; }
Device Program::device() const { return impl_->options.device; }

int Program::devices() const { return impl_->devices; }

void Program::set_timing(bool on) {
  impl_->timing = on;
  for (Progress& progress : impl_->progress) progress.waited_ns = 0;
  for (Call& call : impl_->stripes[0].calls) call.elapsed_ns = 0;
}

std::string Program::report() const {
  std::string text;
  for (int device = 0; device < impl_->devices; ++device) {
    std::map<std::string_view, std::pair<std::int64_t, std::int64_t>> by_name;  // ns, calls
    for (const Call& call : impl_->stripes[0].calls) {
      if (call.device != device) continue;
      by_name[call.name].first += call.elapsed_ns;
      by_name[call.name].second += 1;
    }
    if (impl_->devices > 1) {
      text += fmt::format("device {}\n", device);
      by_name["(waiting for devices)"].first = impl_->progress[static_cast<std::size_t>(device)].waited_ns;
    }
    std::vector<std::pair<std::string_view, std::pair<std::int64_t, std::int64_t>>> rows(by_name.begin(),
                                                                                         by_name.end());
    std::ranges::sort(rows, [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
    for (const auto& [name, sum] : rows) {
      text += fmt::format("{:28} {:4} calls {:10.1f} us\n", name, sum.second, static_cast<double>(sum.first) / 1000);
    }
  }
  return text;
}

}  // namespace troupe::learner
