// One run: each thread walks the calls of its stripes, those of its device; joints and updates are where threads meet.
// Which barriers stand is the same for all threads, because it depends only on the program and the phase. Devices wait
// for single calls of each other. No wait is in a circle: it is for a call that comes earlier, and all threads walk
// stretches between stops, within them their stripes, and within these the calls in the same order.
#include <troupe/learner/engine/cpu/cpu_program.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>

#include <troupe/learner/engine/cpu/gemm.hpp>
#include <troupe/learner/engine/tree_sum.hpp>

namespace troupe::learner {

namespace {

/// Adds its lifetime to `sum`, unless null.
class Timer {
 public:
  explicit Timer(std::int64_t* sum) : sum_(sum) {
    if (sum_ != nullptr) begin_ = std::chrono::steady_clock::now();
  }
  ~Timer() {
    if (sum_ != nullptr) *sum_ += (std::chrono::steady_clock::now() - begin_).count();
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  std::int64_t* sum_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace

CpuProgram::CpuProgram(Host& host, int threads)
    : host_(host),
      table_(host.options.compute == DType::kF64 ? kernels_f64() : kernels_f32()),
      pool_(threads * host.devices),
      stripes_(static_cast<std::size_t>(host.options.stripes)),
      progress_(stripes_.size() * static_cast<std::size_t>(host.devices)) {}

// ---- a run ----

Status CpuProgram::stage(int, const BatchView& batch) {
  staged_ = batch;
  return {};
}

Status CpuProgram::begin(Inputs inputs, int) {
  if (inputs == Inputs::kStaged) host_.bind(staged_);
  failure_ = {};
  stopped_ = false;
  skip_ = false;
  point_at_inputs();
  set_rows();
  for (Progress& device : progress_) device.calls = 0;  // no thread runs yet
  const bool exchanging = exchange_ && host_.phase == Phase::kStep;
  if (exchanging) exchange_->begin();
  pool_.run([](void* program, int thread) { static_cast<CpuProgram*>(program)->run_thread(thread); }, this);
  if (exchanging && failure_.ok()) failure_ = exchange_->finish();
  TROUPE_TRY(failure_);
  if (host_.phase != Phase::kUpdate) collect();
  host_.skips.assign(1, skip_);
  return {};
}

/// Points every stripe's operands of an input at its rows.
void CpuProgram::point_at_inputs() {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const BoundInput& input = host_.inputs[i];
    if (inputs_[i].data == input.data) continue;
    inputs_[i].data = input.data;
    const std::int64_t row_bytes =
        input.spec.shape.elements() / host_.batch * element_bytes(input.spec.dtype, host_.options.compute);
    const bool rows = input.spec.place == Place::kRows;
    for (const auto& [stripe, operand] : inputs_[i].at) {
      stripes_[stripe].operands[operand].data =
          const_cast<std::byte*>(input.data) + (rows ? stripes_[stripe].first_row * row_bytes : 0);
    }
  }
}

void CpuProgram::set_rows() {
  for (Stripe& stripe : stripes_) {
    stripe.valid = {stripe.rows, std::clamp<std::int64_t>(host_.rows - stripe.first_row, 0, stripe.rows), host_.rows,
                    host_.batch, stripe.first_row};
  }
}

std::pair<std::size_t, std::size_t> CpuProgram::stripes_of(int thread) const {
  const auto count = static_cast<std::size_t>(pool_.threads() / host_.devices),
             t = static_cast<std::size_t>(thread / host_.devices);
  return {stripes_.size() * t / count, stripes_.size() * (t + 1) / count};
}

void CpuProgram::run_thread(int thread) {
  if (host_.phase != Phase::kUpdate) {
    run_calls(thread);
    pool_.barrier();  // all gradients are there, and nobody reads parameters any more
    if (stopped_) {   // seen by all threads alike
      if (exchange_) exchange_->cancel();
      return;
    }
  }
  update(thread);
}

void CpuProgram::run_calls(int thread) {
  std::size_t begin = 0, bucket = 0;
  for (const std::size_t stop : stops_) {
    run_stretch(thread, begin, stop, &bucket);
    if (stop == stripes_[0].calls.size()) return;
    pool_.barrier();
    if (thread == 0) run_stop(stop);
    pool_.barrier();
    if (stopped_) return;
    begin = stop + 1;
  }
}

/// Calls [begin, end) of the thread's stripes. In the last stripe, which completes gradients, the buckets that become
/// ready are handed over; *bucket counts them.
void CpuProgram::run_stretch(int thread, std::size_t begin, std::size_t end, std::size_t* bucket) {
  const auto [first, last] = stripes_of(thread);
  const auto device = static_cast<std::size_t>(thread % host_.devices);
  for (std::size_t s = first; s + 1 < last; ++s) run_range(s, device, begin, end);
  if (exchange_ && host_.phase == Phase::kStep) {
    for (; *bucket < exchange_->buckets().size() && exchange_->buckets()[*bucket].ready < end; ++*bucket) {
      const std::size_t next = std::max(begin, exchange_->buckets()[*bucket].ready + 1);
      run_range(last - 1, device, begin, next);
      if (stopped_) return;
      exchange_->arrive(*bucket);
      begin = next;
    }
  }
  run_range(last - 1, device, begin, end);
}

void CpuProgram::run_range(std::size_t stripe, std::size_t device, std::size_t begin, std::size_t end) {
  const bool timed = timing_ && stripe == 0;
  Progress* const of_stripe = &progress_[stripe * static_cast<std::size_t>(host_.devices)];
  Progress& own = of_stripe[device];
  for (std::size_t i = begin; i < end; ++i) {
    Call& call = stripes_[stripe].calls[i];
    if (call.device != static_cast<int>(device)) continue;
    if (!call.waits.empty()) {
      const Timer timer(timed ? &own.waited_ns : nullptr);
      for (const PlanWait& wait : call.waits) ThreadTeam::wait_until(of_stripe[wait.device].calls, wait.node + 1);
      if (stopped_) break;
    }
    if (!host_.idle(call.minimized)) {
      const Timer timer(timed ? &call.elapsed_ns : nullptr);
      call.function != nullptr ? call.function(call.args) : run_joint(call.joint, i);
    }
    if (call.function == nullptr && stopped_) break;
    if (call.awaited) own.pass(static_cast<std::uint32_t>(i) + 1);
  }
  // Who has stopped releases those that wait for it, who then stop too.
  if (stopped_) own.pass(std::numeric_limits<std::uint32_t>::max());
}

void CpuProgram::run_stop(std::size_t stop) {
  Call& call = stripes_[0].calls[stop];
  if (!host_.idle(call.minimized)) {
    const Timer timer(timing_ ? &call.elapsed_ns : nullptr);
    run_joint(call.joint, stop);
  }
  for (std::size_t s = 0; s < stripes_.size() && call.awaited; ++s) {
    progress_[s * static_cast<std::size_t>(host_.devices) + static_cast<std::size_t>(call.device)].pass(
        static_cast<std::uint32_t>(stop) + 1);
  }
}

// ---- joints ----

/// The whole of what the stripes have, at `to`.
template <typename T>
void CpuProgram::gather(bool largest_of_all, const JointCall& call, T* to) {
  if (call.input.place == Place::kRows) {
    for (std::size_t s = 0; s < call.from.size(); ++s) {
      to = std::copy_n(static_cast<const T*>(*call.from[s]), call.in_elements[s], to);
    }
    return;
  }
  const std::size_t parts = call.input.place == Place::kPartial ? call.from.size() : 1;
  if (largest_of_all) {
    for (std::int64_t i = 0; i < call.in_elements[0]; ++i) {
      T largest = static_cast<const T*>(*call.from[0])[i];
      for (std::size_t s = 1; s < parts; ++s) largest = std::max(largest, static_cast<const T*>(*call.from[s])[i]);
      to[i] = largest;
    }
    return;
  }
  for (std::int64_t i = 0; i < call.in_elements[0]; ++i) {
    to[i] = tree_sum(0, parts, [&](std::size_t s) { return static_cast<const T*>(*call.from[s])[i]; });
  }
}

/// Each stripe's part of the whole.
void CpuProgram::scatter(const JointCall& call, const std::byte* from, std::size_t element) {
  const bool rows = call.output.place == Place::kRows;
  for (std::size_t s = 0; s < call.to.size(); ++s) {
    const std::size_t bytes = static_cast<std::size_t>(call.out_elements[s]) * element;
    if (call.to[s] != from) std::memcpy(call.to[s], from, bytes);
    if (rows) from += bytes;
  }
}

Status CpuProgram::call_function(const Joint& joint, JointCall& call) {
  const auto span = [](void* data, const ValueSpec& spec) {
    return std::span<float>(static_cast<float*>(data), static_cast<std::size_t>(spec.shape.elements()));
  };
  void* in = *call.from[0];
  if (call.whole_in) {
    in = call.whole_in.get();
    gather(joint.largest, call, static_cast<float*>(in));
  }
  void* const out = call.whole_out ? call.whole_out.get() : call.to[0];
  TROUPE_TRY(joint.forward({span(in, call.input), span(out, call.output), host_.rows}));
  scatter(call, static_cast<const std::byte*>(out), sizeof(float));
  return {};
}

// All stripes' inputs are complete, and nobody reads the outputs yet: between two barriers, unless there is one stripe.
void CpuProgram::run_joint(std::int32_t index, std::size_t at) {
  const Joint& joint = host_.joints[static_cast<std::size_t>(index)];
  JointCall& call = joints_[static_cast<std::size_t>(index)];
  if (joint.forward) {
    if (exchange_ && host_.phase == Phase::kStep) exchange_->await_before(at);
    failure_ = call_function(joint, call);
    if (!failure_.ok()) stopped_ = true;
    return;
  }
  const bool f64 = host_.options.compute == DType::kF64;
  f64 ? gather(joint.largest, call, static_cast<double*>(call.to[0]))
      : gather(joint.largest, call, static_cast<float*>(call.to[0]));
  scatter(call, static_cast<const std::byte*>(call.to[0]), f64 ? 8 : 4);
}

// ---- results ----

namespace {

template <typename T>
double sum_parts(Place place, std::span<const void* const> parts, std::size_t index) {
  return tree_sum(0, place == Place::kPartial ? parts.size() : 1,
                  [&](std::size_t s) { return static_cast<double>(static_cast<const T*>(parts[s])[index]); });
}

template <typename T>
void collect_output(Place place, std::span<const void* const> parts, OutputBuffer& output) {
  T* const to = reinterpret_cast<T*>(output.data.get());
  for (std::int64_t i = 0; i < output.spec.shape.elements(); ++i) {
    to[i] = static_cast<T>(sum_parts<T>(place, parts, static_cast<std::size_t>(i)));
  }
}

}  // namespace

void CpuProgram::collect() {
  const bool f64 = host_.options.compute == DType::kF64;
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    const auto& [place, parts] = metrics_[i];
    host_.step_metrics[i] = f64 ? sum_parts<double>(place, parts, 0) : sum_parts<float>(place, parts, 0);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const auto& [place, parts] = outputs_[i];
    if (place == Place::kRows) continue;  // its stripes wrote it
    f64 ? collect_output<double>(place, parts, host_.outputs[i])
        : collect_output<float>(place, parts, host_.outputs[i]);
  }
}

// ---- parameters ----

std::uint16_t* CpuProgram::shadow(std::size_t group) const {
  return host_.options.compute == DType::kBF16 ? copies_[group].shadow.get() : nullptr;
}

Status CpuProgram::send_parameters() {
  for (std::size_t g = 0; g < copies_.size(); ++g) {
    const bool is_state = g == host_.groups.size();
    const std::span<const float> values = (is_state ? host_.state : host_.groups[g]).params->values();
    if (host_.options.compute == DType::kF64) std::ranges::copy(values, copies_[g].values_f64.get());
    if (host_.options.compute == DType::kBF16 && !is_state) {
      table_.to_bf16(values.data(), shadow(g), 0, static_cast<std::int64_t>(values.size()));
    }
  }
  return {};
}

Status CpuProgram::assign_states() {
  assign();
  return {};
}

Status CpuProgram::begin_snapshot(std::span<const std::size_t> groups, std::span<const std::span<const float>> state) {
  snapshot_parts_.clear();
  for (const std::size_t group : groups) snapshot_parts_.push_back(host_.groups[group].params->values());
  snapshot_parts_.insert(snapshot_parts_.end(), state.begin(), state.end());
  return {};
}

std::span<const float> CpuProgram::snapshot() {
  if (snapshot_parts_.size() == 1) return snapshot_parts_[0];
  snapshot_.clear();
  for (const auto part : snapshot_parts_) snapshot_.insert(snapshot_.end(), part.begin(), part.end());
  return snapshot_;
}

// ---- about it ----

std::string_view CpuProgram::products() const {
  const CompileOptions& options = host_.options;
  return to_string(options.compute == DType::kF64 ? GemmBackend::kEigen : learner::resolve(options.gemm));
}

void CpuProgram::set_timing(bool on) {
  timing_ = on;
  for (Progress& progress : progress_) progress.waited_ns = 0;
  for (Call& call : stripes_[0].calls) call.elapsed_ns = 0;
}

std::string CpuProgram::report() const {
  std::string text;
  for (int device = 0; device < host_.devices; ++device) {
    std::map<std::string_view, std::pair<std::int64_t, std::int64_t>> by_name;  // ns, calls
    for (const Call& call : stripes_[0].calls) {
      if (call.device != device) continue;
      by_name[call.name].first += call.elapsed_ns;
      by_name[call.name].second += 1;
    }
    if (host_.devices > 1) {
      text += fmt::format("device {}\n", device);
      by_name["(waiting for devices)"].first = progress_[static_cast<std::size_t>(device)].waited_ns;
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
