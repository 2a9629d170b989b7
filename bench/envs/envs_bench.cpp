// Steps per second of cheetah-run with uniformly random actions, which are drawn inside of the timing. Rivals:
// dm_control in a plain loop (1 thread), EnvPool's asynchronous mode (2 threads).
#include <benchmark/benchmark.h>

#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/envs/vector_env.hpp>

namespace {

using troupe::envs::VectorEnv;

void step_cheetahs(benchmark::State& state, int count, int threads) {
  auto made = VectorEnv::make(
      {.make = troupe::envs::shared_environments("cheetah-run"), .count = count, .threads = threads, .seed = 1});
  if (!made.ok()) return state.SkipWithError(made.error().message.c_str());
  VectorEnv& env = **made;
  if (auto reset = env.reset(); !reset.ok()) return state.SkipWithError(reset.error().message.c_str());
  troupe::Rng rng(2);
  std::vector<double> actions(static_cast<std::size_t>(count * env.spec().action_size()));
  for (auto _ : state) {
    for (double& action : actions) action = 2 * rng.uniform() - 1;
    if (auto stepped = env.step(actions); !stepped.ok()) return state.SkipWithError(stepped.error().message.c_str());
    benchmark::DoNotOptimize(env.observations().data());
  }
  state.SetItemsProcessed(state.iterations() * count);
  state.SetLabel("steps/s");
}

// One environment on the caller's thread: what a plain loop does.
void cheetah_run_1_thread(benchmark::State& state) { step_cheetahs(state, 1, 1); }
void cheetah_run_2_threads(benchmark::State& state) { step_cheetahs(state, 64, 2); }

// Wall time: the work of the second thread is not this thread's CPU time. Two seconds are 25 episodes and more.
BENCHMARK(cheetah_run_1_thread)->UseRealTime()->MinTime(2);
BENCHMARK(cheetah_run_2_threads)->UseRealTime()->MinTime(2);

}  // namespace

BENCHMARK_MAIN();
