// Steps per second of cheetah-run with uniformly random actions, as env actors take them: through the guard, into
// n-step transitions and trajectory frames, by the code that a run has, with everything but the network. One
// environment (actors.envs_per_actor = 1), and 64 on two threads. Rivals: dm_control in a plain loop (1 thread),
// EnvPool's asynchronous mode (2 threads), neither of which makes anything of its steps.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <vector>

#include <troupe/actors/roles/env_actor.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/envs/flattened.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/replay/n_step_adder.hpp>
#include <troupe/tests/actors/fake_context.hpp>

namespace troupe::actors {
namespace {

const TensorSpec kAction = {"action", DType::kF32, {6}};

/// In the place of a policy: says nothing, at once.
class Silent final : public Acting {
 public:
  Status refresh(RoleContext&) override { return {}; }
  Result<std::optional<std::int64_t>> act(RoleContext&, const BatchView&, const MutableBatchView&) override {
    return std::optional<std::int64_t>(0);
  }
  std::string waiting_for() const override { return {}; }
  void report(Report&) const override {}
};

class Anything final : public acting::Exploration {
 public:
  explicit Anything(std::uint64_t seed) : rng_(seed) {}
  const Signature& acted() const override { return acted_; }
  Status choose(const acting::PolicyRow&, std::span<std::byte> acted) override {
    float action[6];
    for (float& value : action) value = static_cast<float>(2 * rng_.uniform() - 1);
    std::memcpy(acted.data(), action, sizeof(action));
    return {};
  }
  std::vector<std::byte> save_state() const override { return {}; }
  Status restore_state(std::span<const std::byte>) override { return {}; }

 private:
  const Signature acted_ = {kAction};
  Rng rng_;
};

void step_cheetahs(benchmark::State& state, std::int64_t count, int threads) {
  EnvActorOptions options;
  options.make_environment = envs::flattened(envs::shared_environments("cheetah-run"));
  options.acting = {{{{"observation", DType::kF32, {17}}}, {kAction}}, {}, {}, [](const RoleIdentity&, std::int64_t) {
                      return Result<std::unique_ptr<Acting>>(std::make_unique<Silent>());
                    }};
  options.exploration = [](const acting::Explorer& who) {
    return Result<std::unique_ptr<acting::Exploration>>(std::make_unique<Anything>(who.seed));
  };
  options.adder = replay::n_step_adders(5, 0.99);
  options.environments = count;
  options.threads = threads;
  auto actor = EnvActor::make(options, {"actor", 0, 1, 0, 1});
  if (!actor.ok()) return state.SkipWithError(actor.error().message.c_str());

  testing::FakeContext context;  // takes what is sent, and gives it no time
  auto& trajectories = context.out("trajectories");
  context.caller("steps").answer = [&context](const Frame&) {
    return messages::make_steps_grant(context.pool(), {0, messages::kMostSteps, false});
  };
  std::int64_t steps = 0;
  for (auto _ : state) {
    if (const auto stepped = (*actor)->step(context); !stepped.ok()) {
      return state.SkipWithError(stepped.error().message.c_str());
    }
    for (const Frame& frame : trajectories.sent) steps += messages::read_trajectory(frame)->info().env_steps;
    for (const char* const port : {"trajectories", "use", "episodes"}) {
      context.out(port).sent.clear();
      context.out(port).receivers.clear();
      context.out(port).room = 1000;
    }
  }
  state.SetItemsProcessed(steps);
  state.SetLabel("steps/s");
}

// One environment on the caller's thread: what a plain loop does.
void cheetah_run_1_thread(benchmark::State& state) { step_cheetahs(state, 1, 1); }
void cheetah_run_2_threads(benchmark::State& state) { step_cheetahs(state, 64, 2); }

// Wall time: the work of the second thread is not this thread's CPU time. Two seconds are 25 episodes and more.
BENCHMARK(cheetah_run_1_thread)->UseRealTime()->MinTime(2);
BENCHMARK(cheetah_run_2_threads)->UseRealTime()->MinTime(2);

}  // namespace
}  // namespace troupe::actors

BENCHMARK_MAIN();
