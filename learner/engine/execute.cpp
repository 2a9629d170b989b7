// One run: each thread walks the calls of its stripes, those of its device; joints and updates are where threads meet.
// Which barriers stand is the same for all threads, because it depends only on the program and the phase. Devices wait
// for single calls of each other. No wait is in a circle: it is for a call that comes earlier, and all threads walk
// stretches between stops, within them their stripes, and within these the calls in the same order.
#include <algorithm>
#include <cstring>
#include <limits>

#include <troupe/learner/engine/program_impl.hpp>
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

std::pair<std::size_t, std::size_t> Program::Impl::stripes_of(int thread) const {
  const auto count = static_cast<std::size_t>(pool.threads() / devices), t = static_cast<std::size_t>(thread / devices);
  return {stripes.size() * t / count, stripes.size() * (t + 1) / count};
}

void Program::Impl::run_thread(int thread) {
  if (phase != Phase::kUpdate) {
    run_calls(thread);
    pool.barrier();  // all gradients are there, and nobody reads parameters any more
    if (stopped) {   // seen by all threads alike
      if (exchange) exchange->cancel();
      return;
    }
  }
  update(thread);
}

void Program::Impl::run_calls(int thread) {
  std::size_t begin = 0, bucket = 0;
  for (const std::size_t stop : stops) {
    run_stretch(thread, begin, stop, &bucket);
    if (stop == stripes[0].calls.size()) return;
    pool.barrier();
    if (thread == 0) run_stop(stop);
    pool.barrier();
    if (stopped) return;
    begin = stop + 1;
  }
}

/// Calls [begin, end) of the thread's stripes. In the last stripe, which completes gradients, the buckets that become
/// ready are handed over; *bucket counts them.
void Program::Impl::run_stretch(int thread, std::size_t begin, std::size_t end, std::size_t* bucket) {
  const auto [first, last] = stripes_of(thread);
  const auto device = static_cast<std::size_t>(thread % devices);
  for (std::size_t s = first; s + 1 < last; ++s) run_range(s, device, begin, end);
  if (exchange && phase == Phase::kStep) {
    for (; *bucket < exchange->buckets().size() && exchange->buckets()[*bucket].ready < end; ++*bucket) {
      const std::size_t next = std::max(begin, exchange->buckets()[*bucket].ready + 1);
      run_range(last - 1, device, begin, next);
      if (stopped) return;
      exchange->arrive(*bucket);
      begin = next;
    }
  }
  run_range(last - 1, device, begin, end);
}

void Program::Impl::run_range(std::size_t stripe, std::size_t device, std::size_t begin, std::size_t end) {
  const bool timed = timing && stripe == 0;
  Progress* const of_stripe = &progress[stripe * static_cast<std::size_t>(devices)];
  Progress& own = of_stripe[device];
  for (std::size_t i = begin; i < end; ++i) {
    Call& call = stripes[stripe].calls[i];
    if (call.device != static_cast<int>(device)) continue;
    if (!call.waits.empty()) {
      const Timer timer(timed ? &own.waited_ns : nullptr);
      for (const PlanWait& wait : call.waits) ThreadTeam::wait_until(of_stripe[wait.device].calls, wait.node + 1);
      if (stopped) break;
    }
    if (!idle(call)) {
      const Timer timer(timed ? &call.elapsed_ns : nullptr);
      call.function != nullptr ? call.function(call.args) : run_joint(joints[static_cast<std::size_t>(call.joint)], i);
    }
    if (call.function == nullptr && stopped) break;
    if (call.awaited) own.pass(static_cast<std::uint32_t>(i) + 1);
  }
  // Who has stopped releases those that wait for it, who then stop too.
  if (stopped) own.pass(std::numeric_limits<std::uint32_t>::max());
}

void Program::Impl::run_stop(std::size_t stop) {
  Call& call = stripes[0].calls[stop];
  if (!idle(call)) {
    const Timer timer(timing ? &call.elapsed_ns : nullptr);
    run_joint(joints[static_cast<std::size_t>(call.joint)], stop);
  }
  for (std::size_t s = 0; s < stripes.size() && call.awaited; ++s) {
    progress[s * static_cast<std::size_t>(devices) + static_cast<std::size_t>(call.device)].pass(
        static_cast<std::uint32_t>(stop) + 1);
  }
}

namespace {

/// The whole of what the stripes have, at `to`.
template <typename T>
void gather(const JointCall& call, T* to) {
  if (call.input.place == Place::kRows) {
    for (std::size_t s = 0; s < call.from.size(); ++s) {
      to = std::copy_n(static_cast<const T*>(*call.from[s]), call.in_elements[s], to);
    }
    return;
  }
  const std::size_t parts = call.input.place == Place::kPartial ? call.from.size() : 1;
  if (call.joint.largest) {
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
void scatter(const JointCall& call, const std::byte* from, std::size_t element) {
  const bool rows = call.output.place == Place::kRows;
  for (std::size_t s = 0; s < call.to.size(); ++s) {
    const std::size_t bytes = static_cast<std::size_t>(call.out_elements[s]) * element;
    if (call.to[s] != from) std::memcpy(call.to[s], from, bytes);
    if (rows) from += bytes;
  }
}

Status call_function(JointCall& call, std::int64_t rows) {
  const auto span = [](void* data, const ValueSpec& spec) {
    return std::span<float>(static_cast<float*>(data), static_cast<std::size_t>(spec.shape.elements()));
  };
  void* in = *call.from[0];
  if (call.whole_in) {
    in = call.whole_in.get();
    gather(call, static_cast<float*>(in));
  }
  void* const out = call.whole_out ? call.whole_out.get() : call.to[0];
  TROUPE_TRY(call.joint.forward({span(in, call.input), span(out, call.output), rows}));
  scatter(call, static_cast<const std::byte*>(out), sizeof(float));
  return {};
}

}  // namespace

// All stripes' inputs are complete, and nobody reads the outputs yet: between two barriers, unless there is one stripe.
void Program::Impl::run_joint(JointCall& call, std::size_t index) {
  if (call.joint.forward) {
    if (exchange && phase == Phase::kStep) exchange->await_before(index);
    failure = call_function(call, rows);
    if (!failure.ok()) stopped = true;
    return;
  }
  const bool f64 = options.compute == DType::kF64;
  f64 ? gather(call, static_cast<double*>(call.to[0])) : gather(call, static_cast<float*>(call.to[0]));
  scatter(call, static_cast<const std::byte*>(call.to[0]), f64 ? 8 : 4);
}

namespace {

template <typename T>
double sum_parts(Place place, std::span<const void* const> parts, std::size_t index) {
  return tree_sum(0, place == Place::kPartial ? parts.size() : 1,
                  [&](std::size_t s) { return static_cast<double>(static_cast<const T*>(parts[s])[index]); });
}

template <typename T>
void collect_output(OutputBuffer& output) {
  if (output.spec.place == Place::kRows) return;  // its stripes wrote it
  T* const to = reinterpret_cast<T*>(output.data.get());
  for (std::int64_t i = 0; i < output.spec.shape.elements(); ++i) {
    to[i] = static_cast<T>(sum_parts<T>(output.spec.place, output.parts, static_cast<std::size_t>(i)));
  }
}

}  // namespace

void Program::Impl::collect() {
  const bool f64 = options.compute == DType::kF64;
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    metric_values[i] = f64 ? sum_parts<double>(metrics[i].place, metrics[i].parts, 0)
                           : sum_parts<float>(metrics[i].place, metrics[i].parts, 0);
  }
  for (OutputBuffer& output : outputs) f64 ? collect_output<double>(output) : collect_output<float>(output);
}

}  // namespace troupe::learner
