// One whole learner step of each agent at its published size, on HalfCheetah's: 17 observations, 6 actions, batch 256.
// Forward, gradients, optimisers, targets. The value is steps per second.
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <string>

#include <troupe/algorithms/sac/replica.hpp>
#include <troupe/algorithms/td3/replica.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/replicate/replicator.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kBatch = 256;

control::EnvironmentShape cheetah() {
  return {.observation_size = 17, .action_low = std::vector<double>(6, -1), .action_high = std::vector<double>(6, 1)};
}

using MakeTraining = std::function<std::unique_ptr<Replica>(InputFn)>;

template <typename Options>
MakeTraining of(std::unique_ptr<Replica> (*training)(const Options&, InputFn)) {
  Options options;
  options.environment = cheetah();
  return [options, training](InputFn input) { return training(options, std::move(input)); };
}

void step(benchmark::State& state, const MakeTraining& training, int stripes) {
  const Signature columns = control::transitions(cheetah(), false);
  BatchSlot slot(columns);
  const auto replica = training([&](const InputContext&) { return slot.pipeline(); });
  const auto learner =
      OneDevice::make(*replica, {.batch = kBatch, .compile = {.stripes = stripes, .plans = PlanChoice::kMeasured}})
          .value();
  Rng rng(1);
  BatchBuffer batch(columns, kBatch);
  for (std::size_t column = 0; column < columns.size(); ++column) {
    for (float& x : batch.mutable_view().as<float>(column)) x = static_cast<float>(2 * rng.uniform() - 1);
  }
  const auto one = [&] {
    slot.offer(batch.view()).value();
    learner->step().value();
  };
  for (int i = 0; i < 20; ++i) one();
  for ([[maybe_unused]] auto _ : state) one();
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("steps/s");
}

void register_rows() {
  const std::pair<const char*, MakeTraining> agents[] = {{"sac", of(sac::training)}, {"td3", of(td3::training)}};
  for (const auto& [name, training] : agents) {
    for (const int threads : {1, 2}) {
      const std::string row = std::string(name) + "_step_" + (threads == 1 ? "1_thread" : "2_threads");
      benchmark::RegisterBenchmark(row.c_str(), step, training, threads)->UseRealTime()->MinTime(3);
    }
  }
}

}  // namespace
}  // namespace troupe::learner

int main(int argc, char** argv) {
  troupe::learner::register_rows();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
