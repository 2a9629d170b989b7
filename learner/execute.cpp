// One run: each shard walks its calls; joints and updates are where shards meet. Which barriers stand is the same for
// all shards, because it depends only on the program and the phase.
#include <algorithm>
#include <cstring>

#include <troupe/learner/program_impl.hpp>

namespace troupe::learner {

void Program::Impl::run_shard(int shard) {
  if (phase != Phase::kUpdate) {
    run_calls(shards[static_cast<std::size_t>(shard)]);
    if (!failure.ok()) return;  // seen by all shards alike: it was written before a barrier that all have passed
  }
  update_shard(shard);
}

void Program::Impl::run_calls(Shard& shard) {
  const bool timed = timing && &shard == &shards[0];
  for (Call& call : shard.calls) {
    const auto begin = timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
    if (call.function != nullptr) {
      call.function(call.args);
    } else {
      pool.barrier();
      if (&shard == &shards[0]) run_joint(joints[static_cast<std::size_t>(call.joint)]);
      pool.barrier();
      if (!failure.ok()) return;
    }
    if (timed) call.elapsed_ns += (std::chrono::steady_clock::now() - begin).count();
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
  std::copy_n(static_cast<const T*>(*call.from[0]), call.elements[0], sum);
  for (std::size_t s = 1; s < shards && call.input.place == Place::kPartial; ++s) {
    const T* const part = static_cast<const T*>(*call.from[s]);
    for (std::int64_t i = 0; i < call.elements[0]; ++i) sum[i] += part[i];
  }
}

}  // namespace

// On shard 0's thread, between two barriers: all shards' inputs are complete, and nobody reads the outputs yet.
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
  double sum = static_cast<const T*>(parts[0])[index];
  for (std::size_t s = 1; s < parts.size() && place == Place::kPartial; ++s) {
    sum += static_cast<const T*>(parts[s])[index];
  }
  return sum;
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
