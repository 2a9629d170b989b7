// One run: each thread walks the calls of its shards; joints and updates are where threads meet. Which barriers stand
// is the same for all threads, because it depends only on the program and the phase.
#include <algorithm>
#include <cstring>

#include <troupe/learner/program_impl.hpp>
#include <troupe/learner/tree_sum.hpp>

namespace troupe::learner {

std::pair<std::size_t, std::size_t> Program::Impl::shards_of(int thread) const {
  const auto count = static_cast<std::size_t>(pool.shards()), t = static_cast<std::size_t>(thread);
  return {shards.size() * t / count, shards.size() * (t + 1) / count};
}

void Program::Impl::run_thread(int thread) {
  if (phase != Phase::kUpdate) {
    run_calls(thread);
    if (!failure.ok()) return;  // seen by all threads alike: it was written before a barrier that all have passed
  }
  update(thread);
}

void Program::Impl::run_calls(int thread) {
  const auto [first, last] = shards_of(thread);
  std::size_t begin = 0;
  for (const std::size_t stop : stops) {
    for (std::size_t s = first; s < last; ++s) run_range(shards[s], begin, stop);
    if (stop == shards[0].calls.size()) return;
    pool.barrier();
    if (thread == 0) {
      Call& call = shards[0].calls[stop];
      const auto from = std::chrono::steady_clock::now();
      run_joint(joints[static_cast<std::size_t>(call.joint)]);
      if (timing) call.elapsed_ns += (std::chrono::steady_clock::now() - from).count();
    }
    pool.barrier();
    if (!failure.ok()) return;
    begin = stop + 1;
  }
}

void Program::Impl::run_range(Shard& shard, std::size_t begin, std::size_t end) {
  const bool timed = timing && &shard == &shards[0];
  for (std::size_t i = begin; i < end; ++i) {
    Call& call = shard.calls[i];
    if (!timed) {
      call.function(call.args);
      continue;
    }
    const auto from = std::chrono::steady_clock::now();
    call.function(call.args);
    call.elapsed_ns += (std::chrono::steady_clock::now() - from).count();
  }
}

namespace {

template <typename T>
void gather(const JointCall& call) {
  const std::size_t shards = call.to.size();
  if (call.input.place == Place::kRows) {
    for (std::size_t s = 0; s < shards; ++s) {
      std::copy_n(static_cast<const T*>(*call.from[s]), call.elements[s], static_cast<T*>(call.to[s]));
    }
    return;
  }
  T* const sum = static_cast<T*>(call.to[0]);
  for (std::int64_t i = 0; i < call.elements[0]; ++i) {
    sum[i] = tree_sum(0, call.input.place == Place::kPartial ? shards : 1,
                      [&](std::size_t s) { return static_cast<const T*>(*call.from[s])[i]; });
  }
}

}  // namespace

// On thread 0, between two barriers: all shards' inputs are complete, and nobody reads the outputs yet.
void Program::Impl::run_joint(JointCall& call) {
  const bool f64 = options.compute == DType::kF64;
  f64 ? gather<double>(call) : gather<float>(call);
  const bool rows = call.input.place == Place::kRows;
  if (call.joint.forward) {
    std::vector<std::span<float>> pieces;
    for (std::size_t s = 0; s < (rows ? call.to.size() : 1); ++s) {
      pieces.emplace_back(static_cast<float*>(call.to[s]), static_cast<std::size_t>(call.elements[s]));
    }
    failure = call.joint.forward(pieces);
  }
  for (std::size_t s = 1; s < call.to.size() && !rows; ++s) {
    std::memcpy(call.to[s], call.to[0], static_cast<std::size_t>(call.elements[0]) * (f64 ? 8 : 4));
  }
}

namespace {

template <typename T>
double sum_parts(Place place, std::span<const void* const> parts, std::size_t index) {
  return tree_sum(0, place == Place::kPartial ? parts.size() : 1,
                  [&](std::size_t s) { return static_cast<double>(static_cast<const T*>(parts[s])[index]); });
}

template <typename T>
void collect_output(OutputBuffer& output) {
  if (output.spec.place == Place::kRows) return;  // its shards wrote it
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
