// One whole D4PG learner step at the sizes of HalfCheetah: batch 256, 17 observations, 6 actions, critic 512-512-256,
// policy 256-256-256, 51 atoms; forward, gradients, clipping, both Adams, target copies. The value is steps per second.
#include <benchmark/benchmark.h>

#include <memory>

#include <troupe/bench/learner/random_rows.hpp>
#include <troupe/tests/algorithms/d4pg/hand_fed.hpp>

namespace troupe::learner {
namespace {

void d4pg_step(benchmark::State& state, DType compute, int stripes) {
  d4pg::HandFedOptions options{.compile = {.stripes = stripes, .compute = compute, .plans = PlanChoice::kMeasured}};
  options.d4pg.environment = {
      .observation_size = 17, .action_low = {-1, -1, -1, -1, -1, -1}, .action_high = {1, 1, 1, 1, 1, 1}};
  const std::unique_ptr<d4pg::HandFed> learner = d4pg::HandFed::make(options).value();
  BatchBuffer batch(learner->signature(), options.d4pg.batch);
  fill_with_noise(batch);
  const BatchView view = batch.view();
  for (int i = 0; i < 20; ++i) learner->step(view).value();
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(learner->step(view).value());
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("steps/s");
}

void register_rows() {
  const auto add = [](const char* name, DType compute, int stripes) {
    benchmark::RegisterBenchmark(name, d4pg_step, compute, stripes)->UseRealTime()->MinTime(3);
  };
  add("d4pg_step_1_thread", DType::kF32, 1);
  add("d4pg_step_2_threads", DType::kF32, 2);
  add("d4pg_step_bf16_1_thread", DType::kBF16, 1);
  add("d4pg_step_bf16_2_threads", DType::kBF16, 2);
}

}  // namespace
}  // namespace troupe::learner

int main(int argc, char** argv) {
  troupe::learner::register_rows();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
