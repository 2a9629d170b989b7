// Steps per second with an observation of 84 x 84 x 9 bytes, three frames of camera 0, and uniformly random actions:
// the wrappers `pixels` and `frame_stack` around a task of the suite. One environment on the caller's thread; and four
// on two threads, as an env actor with actors.threads = 2 steps them. Mesa draws all on as many threads as it takes.
// The frames are those of dm_control, to the byte; rows called fast have no shadows, reflections or multi-sampling,
// which has no rival. Rival: dm_control's pixels.Wrapper with a stack of frames in numpy, drawn by the same OpenGL
// through EGL.
#include <benchmark/benchmark.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/envs/vector_env.hpp>
#include <troupe/envs/wrapper.hpp>
#include <troupe/envs/wrappers/frame_stack.hpp>
#include <troupe/envs/wrappers/pixels.hpp>

namespace troupe::envs {
namespace {

struct Drawn {
  std::string task;
  RenderProfile profile = RenderProfile::kDmControl;
  int environments = 1, threads = 1;
};

void step_drawn(benchmark::State& state, const Drawn& how) {
  const MakeEnvironment make = wrapped(shared_environments(how.task),
                                       {{"pixels", pixels({.profile = how.profile})}, {"frame_stack", frame_stack(3)}});
  auto made = VectorEnv::make({.make = make, .count = how.environments, .threads = how.threads, .seed = 1});
  if (!made.ok()) return state.SkipWithError(made.error().message.c_str());
  VectorEnv& all = **made;
  const std::size_t count = all.count();
  std::vector<double> actions(count * static_cast<std::size_t>(all.spec().action_size()));
  std::vector<Move> moves(count, Move::kReset);
  Rng rng(2);
  const auto step = [&]() -> Status {
    for (double& value : actions) value = 2 * rng.uniform() - 1;
    all.advance(moves, std::as_bytes(std::span(actions)));
    for (std::size_t i = 0; i < count; ++i) {
      TROUPE_ASSIGN(const TimeStep stepped, all.result(i));
      moves[i] = stepped.last() ? Move::kReset : Move::kStep;
    }
    return {};
  };
  // The first frames make the contexts, and Mesa compiles its shaders.
  for (int warm_up = 0; warm_up < 10; ++warm_up) {
    if (const Status good = step(); !good.ok()) return state.SkipWithError(good.error().message.c_str());
  }
  for (auto _ : state) {
    if (const Status good = step(); !good.ok()) return state.SkipWithError(good.error().message.c_str());
  }
  state.SetItemsProcessed(state.iterations() * how.environments);
  state.SetLabel("steps/s");
}

void cheetah_run(benchmark::State& state) { step_drawn(state, {.task = "cheetah-run"}); }
void cheetah_run_2_threads(benchmark::State& state) {
  step_drawn(state, {.task = "cheetah-run", .environments = 4, .threads = 2});
}
void cheetah_run_fast(benchmark::State& state) {
  step_drawn(state, {.task = "cheetah-run", .profile = RenderProfile::kFast});
}
void cartpole_swingup(benchmark::State& state) { step_drawn(state, {.task = "cartpole-swingup"}); }
void cartpole_swingup_2_threads(benchmark::State& state) {
  step_drawn(state, {.task = "cartpole-swingup", .environments = 4, .threads = 2});
}
void cartpole_swingup_fast(benchmark::State& state) {
  step_drawn(state, {.task = "cartpole-swingup", .profile = RenderProfile::kFast});
}

// Wall time: Mesa draws on threads of its own.
BENCHMARK(cheetah_run)->UseRealTime()->MinTime(4);
BENCHMARK(cheetah_run_2_threads)->UseRealTime()->MinTime(4);
BENCHMARK(cheetah_run_fast)->UseRealTime()->MinTime(1);
BENCHMARK(cartpole_swingup)->UseRealTime()->MinTime(4);
BENCHMARK(cartpole_swingup_2_threads)->UseRealTime()->MinTime(4);
BENCHMARK(cartpole_swingup_fast)->UseRealTime()->MinTime(1);

}  // namespace
}  // namespace troupe::envs

BENCHMARK_MAIN();
