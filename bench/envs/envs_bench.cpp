// Steps per second with uniformly random actions, as env actors take them: through the guard, into n-step transitions
// and trajectory frames, by the code that a run has, with everything but the network. Tasks of the Control Suite by one
// environment (actors.envs_per_actor = 1), and by 64 on two threads; each problem of classic control by one. Rivals:
// dm_control and Gymnasium in a plain loop (1 thread), EnvPool's asynchronous mode (2 threads), none of which makes
// anything of its steps.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <troupe/actors/roles/env_actor.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/envs/flattened.hpp>
#include <troupe/messages/reports.hpp>
#include <troupe/replay/n_step_adder.hpp>
#include <troupe/tests/actors/fake_context.hpp>

namespace troupe::actors {
namespace {

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
  Anything(envs::ActionSpec action, std::uint64_t seed)
      : action_(std::move(action)), acted_({action_.tensor}), rng_(seed) {}
  const Signature& acted() const override { return acted_; }
  Status choose(const acting::PolicyRow&, std::span<std::byte> acted) override {
    const auto put = [&](std::size_t index, auto number) {
      std::memcpy(acted.data() + index * sizeof(number), &number, sizeof(number));
    };
    if (action_.discrete()) {
      put(0, static_cast<std::int32_t>(rng_.below(static_cast<std::uint64_t>(action_.choices))));
      return {};
    }
    for (std::size_t i = 0; i < action_.low.size(); ++i) {
      put(i, static_cast<float>(action_.low[i] + (action_.high[i] - action_.low[i]) * rng_.uniform()));
    }
    return {};
  }
  std::vector<std::byte> save_state() const override { return {}; }
  Status restore_state(std::span<const std::byte>) override { return {}; }

 private:
  const envs::ActionSpec action_;
  const Signature acted_;
  Rng rng_;
};

void step_environments(benchmark::State& state, const envs::MakeEnvironment& make, std::int64_t count, int threads) {
  const auto one = make(0);
  if (!one.ok()) return state.SkipWithError(one.error().message.c_str());
  const envs::EnvSpec spec = (*one)->spec();
  EnvActorOptions options;
  options.make_environment = make;
  options.acting = {{spec.observation, {spec.action.tensor}}, {}, {}, [](const RoleIdentity&, std::int64_t) {
                      return Result<std::unique_ptr<Acting>>(std::make_unique<Silent>());
                    }};
  options.exploration = [spec](const acting::Explorer& who) {
    return Result<std::unique_ptr<acting::Exploration>>(std::make_unique<Anything>(spec.action, who.seed));
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

void register_all() {
  for (const std::string task : {"cheetah-run", "humanoid-run", "dog-run", "quadruped-run"}) {
    const auto steps = [task](std::int64_t count, int threads) {
      return [=](benchmark::State& state) {
        step_environments(state, envs::flattened(envs::shared_environments(task)), count, threads);
      };
    };
    std::string row = task;
    std::ranges::replace(row, '-', '_');
    // Wall time: the work of the second thread is not this thread's CPU time. Two seconds are 25 episodes of
    // cheetah-run and more. One environment is on the caller's thread: what a plain loop does.
    benchmark::RegisterBenchmark((row + "_1_thread").c_str(), steps(1, 1))->UseRealTime()->MinTime(2);
    benchmark::RegisterBenchmark((row + "_2_threads").c_str(), steps(64, 2))->UseRealTime()->MinTime(2);
  }
  for (const std::string name :
       {"Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"}) {
    benchmark::RegisterBenchmark((name + "_1_thread").c_str(), [name](benchmark::State& state) {
      step_environments(state, envs::shared_environments(name), 1, 1);
    })->UseRealTime();
  }
}

}  // namespace
}  // namespace troupe::actors

int main(int argc, char** argv) {
  troupe::actors::register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
