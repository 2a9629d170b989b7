// Steps per second with an observation of 84 x 84 x 9 bytes, three frames of camera 0, and uniformly random actions:
// the wrappers `pixels` and `frame_stack` around a task of the suite, one environment on the caller's thread, drawn by
// as many threads as Mesa takes. The frames are those of dm_control, to the byte; the rows called fast have no shadows,
// reflections or multi-sampling, which has no rival. Rival: dm_control's pixels.Wrapper with a stack of frames in
// numpy, drawn by the same OpenGL through EGL.
#include <benchmark/benchmark.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/envs/wrapper.hpp>
#include <troupe/envs/wrappers/frame_stack.hpp>
#include <troupe/envs/wrappers/pixels.hpp>

namespace troupe::envs {
namespace {

void step_drawn(benchmark::State& state, const std::string& task, RenderProfile profile) {
  const MakeEnvironment make =
      wrapped(shared_environments(task), {{"pixels", pixels({.profile = profile})}, {"frame_stack", frame_stack(3)}});
  auto made = make(1);
  if (!made.ok()) return state.SkipWithError(made.error().message.c_str());
  Environment& env = **made;
  std::vector<std::byte> row(row_bytes(env.spec().observation));
  std::vector<double> action(static_cast<std::size_t>(env.spec().action_size()));
  Rng rng(2);
  bool begins = true;
  const auto step = [&]() -> Status {
    for (double& value : action) value = 2 * rng.uniform() - 1;
    TROUPE_ASSIGN(const TimeStep stepped, begins ? env.reset(row) : env.step(std::as_bytes(std::span(action)), row));
    begins = stepped.last();
    return {};
  };
  // The first frames make the context, and Mesa compiles its shaders.
  for (int warm_up = 0; warm_up < 10; ++warm_up) {
    if (const Status good = step(); !good.ok()) return state.SkipWithError(good.error().message.c_str());
  }
  for (auto _ : state) {
    if (const Status good = step(); !good.ok()) return state.SkipWithError(good.error().message.c_str());
  }
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("steps/s");
}

void cheetah_run(benchmark::State& state) { step_drawn(state, "cheetah-run", RenderProfile::kDmControl); }
void cartpole_swingup(benchmark::State& state) { step_drawn(state, "cartpole-swingup", RenderProfile::kDmControl); }
void cheetah_run_fast(benchmark::State& state) { step_drawn(state, "cheetah-run", RenderProfile::kFast); }
void cartpole_swingup_fast(benchmark::State& state) { step_drawn(state, "cartpole-swingup", RenderProfile::kFast); }

// Wall time: Mesa draws on threads of its own.
BENCHMARK(cheetah_run)->UseRealTime()->MinTime(4);
BENCHMARK(cartpole_swingup)->UseRealTime()->MinTime(4);
BENCHMARK(cheetah_run_fast)->UseRealTime()->MinTime(1);
BENCHMARK(cartpole_swingup_fast)->UseRealTime()->MinTime(1);

}  // namespace
}  // namespace troupe::envs

BENCHMARK_MAIN();
