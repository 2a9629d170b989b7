#include <troupe/learner/engine/program.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <troupe/core/check.hpp>
#include <troupe/learner/engine/cpu/kernels/kernel_table.hpp>
#include <troupe/learner/engine/program_impl.hpp>

namespace troupe::learner {

Program::Program(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Program::~Program() = default;

namespace {

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

/// Points an input at data, or in a float64 program at a copy in that type.
template <typename T>
Status bind_values(Host& host, std::string_view name, DType dtype, std::span<const T> data) {
  TROUPE_ASSIGN(BoundInput* const input, find_input(host.inputs, name, dtype, data.size()));
  input->bound = true;
  input->data = reinterpret_cast<const std::byte*>(data.data());
  if (dtype != DType::kF32 || host.options.compute != DType::kF64) return {};
  if (!input->staging) input->staging = make_aligned<std::byte>(data.size() * sizeof(double));
  std::ranges::copy(data, reinterpret_cast<double*>(input->staging.get()));
  input->data = input->staging.get();
  return {};
}

}  // namespace

Status Program::bind(std::string_view name, std::span<const float> data) {
  return bind_values(impl_->host, name, DType::kF32, data);
}
Status Program::bind(std::string_view name, std::span<const std::int32_t> data) {
  return bind_values(impl_->host, name, DType::kI32, data);
}
Status Program::bind(std::string_view name, std::span<const std::uint8_t> data) {
  return bind_values(impl_->host, name, DType::kU8, data);
}
Status Program::bind(std::string_view name, std::span<const double> data) {
  if (impl_->host.options.compute != DType::kF64) {
    return Error{Code::kInvalidArgument,
                 fmt::format("bind \"{}\": got float64, expected float32 unless compiled for float64", name)};
  }
  return bind_values(impl_->host, name, DType::kF32, data);
}

Status Program::bind(const BatchView& batch) {
  TROUPE_TRY(impl_->host.check_batch("bind", batch));
  impl_->host.bind(batch);
  return {};
}

std::int64_t Program::rows() const { return impl_->host.rows; }

Status Program::Impl::check_idle(std::string_view call) const {
  if (host.under_way == 0) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{}: a launch of {} steps is under way; finish() comes first", call, host.under_way)};
}

Status Program::Impl::check_phase(std::string_view call, Phase of) const {
  if (host.options.compute != DType::kF64 || of == Phase::kGradients || host.minimized.empty()) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{}: float64 programs compute gradients but do not update parameters", call)};
}

Status Program::run(Phase phase) {
  Impl& impl = *impl_;
  TROUPE_TRY(impl.check_idle("run"));
  if (impl.staged > 0 || (impl.feed && phase != Phase::kUpdate)) {
    return Error{Code::kInvalidArgument, fmt::format("run: {}; begin() runs that",
                                                     impl.feed ? "a feed fills the inputs" : "batches are staged")};
  }
  for (const BoundInput& input : impl.host.inputs) {
    if (!input.used || input.bound) continue;
    return Error{Code::kInvalidArgument, fmt::format("run: input \"{}\" was never bound", input.name)};
  }
  TROUPE_TRY(impl.check_phase("run", phase));
  if (phase == Phase::kUpdate && !impl.gradients_ready) {
    return Error{Code::kInvalidArgument, "run: update without gradients; run(kGradients) comes first"};
  }
  impl.gradients_ready = false;
  TROUPE_TRY(impl.lost);
  impl.host.phase = phase;
  TROUPE_TRY(impl.executable->begin(Inputs::kBound, 1));
  TROUPE_TRY(impl.executable->finish());
  impl.gradients_ready = phase == Phase::kGradients;
  if (phase != Phase::kGradients) impl.count_steps();
  return {};
}

int Program::Impl::count_steps() {
  if (host.minimized.empty() || !host.count_run()) return 0;
  const std::int64_t before = host.step;
  skipped_in_a_row_max = 0;
  for (const bool each : host.skips) {
    ++(each ? skipped : host.step);
    skipped_in_a_row = each ? skipped_in_a_row + 1 : 0;
    skipped_in_a_row_max = std::max(skipped_in_a_row_max, skipped_in_a_row);
  }
  return static_cast<int>(host.step - before);
}

void Program::Impl::fetch(std::size_t group) {
  if (reachable()) lost = executable->fetch_parameters(group);
}

Status Program::fetch() {
  TROUPE_TRY(impl_->check_idle("fetch"));
  for (std::size_t g = 0; g <= impl_->host.groups.size(); ++g) impl_->fetch(g);
  return impl_->lost;
}

Status Program::fetch(std::string_view group) {
  TROUPE_TRY(impl_->check_idle("fetch"));
  (void)params(group);
  return impl_->lost;
}

std::span<const std::string> Program::metric_names() const { return impl_->host.metric_names; }
std::span<const double> Program::metrics() const {
  return std::span(impl_->host.step_metrics).last(impl_->host.metric_names.size());
}

std::span<const float> Program::output(std::string_view name) const {
  const Host& host = impl_->host;
  const auto found = std::ranges::find(host.outputs, name, &OutputBuffer::name);
  if (found == host.outputs.end() || host.options.compute == DType::kF64) return {};
  return host.valid<float>(found->spec, found->data.get());
}

std::span<const double> Program::output_f64(std::string_view name) const {
  const Host& host = impl_->host;
  const auto found = std::ranges::find(host.outputs, name, &OutputBuffer::name);
  if (found == host.outputs.end() || host.options.compute != DType::kF64) return {};
  return host.valid<double>(found->spec, found->data.get());
}

std::size_t Program::group_count() const { return impl_->host.groups.size(); }
ParamBuffer& Program::group(std::size_t index) {
  impl_->fetch(index);
  return *impl_->host.groups[index].params;
}
const ParamBuffer& Program::group(std::size_t index) const { return const_cast<Program*>(this)->group(index); }

ParamBuffer* Program::params(std::string_view group) {
  for (std::size_t g = 0; g < impl_->host.groups.size(); ++g) {
    if (impl_->host.groups[g].params->layout().group == group) return &this->group(g);
  }
  return nullptr;
}
const ParamBuffer* Program::params(std::string_view group) const { return const_cast<Program*>(this)->params(group); }
ParamBuffer& Program::state() {
  impl_->fetch(impl_->host.groups.size());
  return *impl_->host.state.params;
}
std::int64_t Program::batches() const {
  Host& host = impl_->host;
  const auto begun = host.accumulates() ? static_cast<std::int64_t>(host.accumulated_runs()) : 0;
  return host.step * host.options.accumulate + begun;
}
ParamBuffer* Program::accumulation() { return impl_->host.accumulation.get(); }

void Program::assign_states() {
  TROUPE_CHECK(impl_->host.under_way == 0, "assign_states: a launch of {} steps is under way", impl_->host.under_way);
  if (impl_->lost.ok()) impl_->lost = impl_->executable->assign_states();
}

void Program::parameters_changed() {
  TROUPE_CHECK(impl_->host.under_way == 0, "parameters_changed: a launch of {} steps is under way",
               impl_->host.under_way);
  if (impl_->lost.ok()) impl_->lost = impl_->executable->send_parameters();
}

std::span<float> Program::gradient(std::string_view group) {
  Host& host = impl_->host;
  for (Minimized& minimized : host.minimized) {
    const ParamLayout& layout = host.groups[minimized.group].params->layout();
    if (layout.group != group) continue;
    const auto index = static_cast<std::size_t>(&minimized - host.minimized.data());
    if (impl_->reachable()) impl_->lost = impl_->executable->fetch_gradient(index);
    float* const data = host.options.compute == DType::kF64 ? minimized.gradient_f64.get() : minimized.values();
    return {data, static_cast<std::size_t>(layout.elements)};
  }
  return {};
}

std::int64_t Program::step() const { return impl_->host.step; }
void Program::set_step(std::int64_t step) {
  TROUPE_CHECK(impl_->host.under_way == 0, "set_step: a launch of {} steps is under way", impl_->host.under_way);
  impl_->host.step = step;
}
std::int64_t Program::skipped() const { return impl_->skipped; }
std::int64_t Program::skipped_in_a_row() const { return impl_->skipped_in_a_row; }
std::int64_t Program::skipped_in_a_row_max() const { return impl_->skipped_in_a_row_max; }

std::string_view Program::gemm_backend_name() const { return impl_->executable->products(); }
std::string_view Program::instruction_set() const {
  return (impl_->host.options.compute == DType::kF64 ? kernels_f64() : kernels_f32()).instruction_set;
}
std::size_t Program::arena_bytes() const { return impl_->executable->bytes(); }
Device Program::device() const { return impl_->host.options.device; }
int Program::devices() const { return impl_->host.devices; }
void Program::set_timing(bool on) { impl_->executable->set_timing(on); }
std::string Program::report() const { return impl_->executable->report(); }

}  // namespace troupe::learner
