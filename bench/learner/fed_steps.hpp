#pragma once
// Steps of a program on a GPU on a batch that lies in its memory and stays the same, so that nothing but the step is
// measured.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <troupe/bench/gpu/device.hpp>
#include <troupe/core/check.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/gpu/gpu.hpp>
#include <troupe/learner/engine/device_feed.hpp>
#include <troupe/learner/engine/program.hpp>

namespace troupe::learner {

/// Every step of every launch sees the same batch, which it leaves where it is.
class FixedBatch final : public DeviceFeed {
 public:
  Status before_launch(int, TroupeCudaStream*) override { return {}; }
  Status enqueue_inputs(int, TroupeCudaStream*) override { return {}; }
  Status enqueue_outputs(int, const TroupeCudaControl*, TroupeCudaStream*) override { return {}; }
};

/// Attaches one: uniform numbers of -1..1, discounts of gamma^5, labels below 10.
inline void attach_fixed_batch(Program& program, const std::vector<std::string>& inputs) {
  program.attach(std::make_shared<FixedBatch>()).value();
  const std::shared_ptr<const gpu::Gpu> gpu = program.gpu();
  const TroupeCudaApi& api = gpu->api();
  TroupeCudaStream* stream = nullptr;
  gpu->check(api.make_stream(&stream), "a stream").value();
  Rng rng(1);
  for (const std::string& name : inputs) {
    const DeviceSpan to = program.device_input(name).value();
    if (to.data == nullptr) continue;
    std::vector<float> values(static_cast<std::size_t>(to.elements));
    std::vector<std::int32_t> labels(values.size());
    for (float& value : values) value = name == "discount" ? 0.951F : static_cast<float>(2 * rng.uniform() - 1);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 10);
    const void* const from = to.dtype == DType::kI32 ? static_cast<const void*>(labels.data()) : values.data();
    gpu->check(api.copy(to.data, from, values.size() * sizeof(float), stream), "the batch").value();
    gpu->check(api.synchronise(stream), "the batch").value();
  }
  gpu->check(api.destroy_stream(stream), "a stream").value();
}

/// Launches of as many steps as there can be (in trials two), one after the other.
inline double fed_steps_per_second(Program& program) {
  const int steps = std::min(program.steps_per_launch(), bench::tiny(program.steps_per_launch(), 2));
  const double seconds = bench::seconds_of([&] {
    program.begin(steps).value();
    (void)program.finish().value();
  });
  TROUPE_CHECK(program.skipped() == 0, "bench: {} steps were skipped", program.skipped());
  return steps / seconds;
}

}  // namespace troupe::learner
