// Environment steps a second over 1, 2, 4 and 8 env-actor processes, beside the linear growth from one. The topology is
// D4PG's over processes, as `troupe train --processes` runs it: policy, exploration, n-step returns, trajectories to
// replay. The environment is a stub of fixed cost, 1 ms a step: of CPU, which is full with as many processes as there
// are cores, or of waiting, as for a simulator elsewhere. Replay never has enough for the learner, which stays idle:
// on this machine it would take a core for itself.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <thread>

#include <troupe/actors/roles/env_actor.hpp>
#include <troupe/algorithms/d4pg/algorithm.hpp>
#include <troupe/bench/actors/processes.hpp>
#include <troupe/core/metrics.hpp>
#include <troupe/envs/flattened.hpp>
#include <troupe/run/agent_topology.hpp>
#include <troupe/run/no_metrics.hpp>
#include <troupe/run/run_topology.hpp>

namespace troupe::actors {
namespace {

constexpr Duration kStepCost = std::chrono::milliseconds(1);
constexpr Duration kMeasured = std::chrono::seconds(4);
constexpr std::int64_t kWarmUpSteps = 100;  // of each env actor
constexpr std::size_t kMostActors = 8;

enum class Cost { kCpu, kWaiting };

struct Measured {
  std::array<std::atomic<std::int64_t>, kMostActors> steps;
  double steps_per_s;
};

Duration thread_cpu() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

class Stub final : public envs::Environment {
 public:
  Stub(Cost cost, std::atomic<std::int64_t>& steps) : cost_(cost), steps_(steps) {}

  static envs::EnvSpec make_spec() {
    envs::EnvSpec spec;
    spec.name = "stub";
    spec.observation = {{"state", DType::kF64, {17}}};
    spec.action = envs::ActionSpec::continuous(std::vector<double>(6, -1), std::vector<double>(6, 1));
    spec.episode_steps = 1000;
    spec.control_dt = seconds(kStepCost);
    return spec;
  }

  const envs::EnvSpec& spec() const override { return spec_; }
  Result<envs::TimeStep> reset(std::uint64_t, std::span<std::byte> observation) override { return reset(observation); }
  Result<envs::TimeStep> reset(std::span<std::byte> observation) override {
    step_ = 0;
    std::memset(observation.data(), 0, observation.size());
    return envs::TimeStep{};
  }
  Result<envs::TimeStep> step(std::span<const std::byte>, std::span<std::byte> observation) override {
    if (cost_ == Cost::kWaiting) {
      std::this_thread::sleep_for(kStepCost);
    } else {
      const Duration end = thread_cpu() + kStepCost;
      while (thread_cpu() < end) {
      }
    }
    std::memset(observation.data(), 0, observation.size());
    steps_.fetch_add(1, std::memory_order_relaxed);
    return envs::TimeStep{++step_ == spec_.episode_steps ? envs::StepType::kLast : envs::StepType::kMid, 1, 1};
  }
  std::vector<std::byte> save_state() const override { return {}; }
  Status restore_state(std::span<const std::byte>) override { return {}; }
  Status render(const envs::RenderOptions&, std::span<std::uint8_t>) override {
    return Error{Code::kUnavailable, "a stub looks like nothing"};
  }

 private:
  const envs::EnvSpec spec_ = make_spec();
  Cost cost_;
  std::atomic<std::int64_t>& steps_;
  std::int64_t step_ = 0;
};

/// Ends the run when it has measured.
class Watch final : public Role {
 public:
  Watch(std::size_t actors, const InAllProcesses<Measured>& measured) : actors_(actors), measured_(measured) {}

  Result<Progress> step(RoleContext& context) override {
    context.wake_after(std::chrono::milliseconds(10));
    const Duration now = context.clock().now();
    std::int64_t sum = 0;
    std::int64_t least = kWarmUpSteps;
    for (std::size_t i = 0; i < actors_; ++i) {
      const std::int64_t steps = measured_->steps[i];
      sum += steps;
      least = std::min(least, steps);
    }
    if (least < kWarmUpSteps) return Progress::kIdle;
    if (begin_ == Duration::zero()) {
      begin_ = now;
      before_ = sum;
    }
    if (now - begin_ < kMeasured) return Progress::kIdle;
    measured_->steps_per_s = static_cast<double>(sum - before_) / seconds(now - begin_);
    return Progress::kDone;
  }

 private:
  std::size_t actors_;
  const InAllProcesses<Measured>& measured_;
  Duration begin_{};
  std::int64_t before_ = 0;
};

double steps_per_s(Cost cost, std::int64_t actors) {
  const InAllProcesses<Measured> measured;
  TrainOptions options;
  options.agents.emplace_back();
  AgentOptions& configured = options.agents[0];
  configured.env = "cheetah-run";  // the evaluator's, which stays idle too; the stub has its sizes
  configured.make_environment = envs::shared_environments(configured.env);
  configured.make_algorithm = learner::d4pg::algorithm({});
  configured.max_env_steps = 0;
  configured.actors.count = actors;
  configured.replay.min_items = configured.replay.max_items;
  NoMetrics sink;
  Topology topology = run_topology(options, {sink}, 0).value();
  const Agent agent = make_agent(configured).value();
  EnvActorOptions actor;
  actor.acting = local_acting(agent.algorithm.columns, agent.make_policy, {});
  actor.exploration = agent.algorithm.explores;
  actor.adder = agent.algorithm.adder;
  for (RoleSpec& role : topology.roles) {
    if (role.name != kActorRole) continue;
    role.make = [actor, cost, &measured](const RoleIdentity& identity) {
      EnvActorOptions own = actor;
      own.make_environment = envs::flattened([cost, &steps = measured->steps[static_cast<std::size_t>(identity.index)]](
                                                 std::uint64_t) -> Result<std::unique_ptr<envs::Environment>> {
        return {std::make_unique<Stub>(cost, steps)};
      });
      return EnvActor::make(own, identity);
    };
  }
  topology.roles.push_back(
      {.name = "watch",
       .make = factory([&, actors] { return std::make_unique<Watch>(static_cast<std::size_t>(actors), measured); }),
       .completes_run = true});
  run_in_processes(topology, one_process_each(topology));
  return measured->steps_per_s;
}

void rows(const std::string& name, Cost cost, std::int64_t cores) {
  const auto one = std::make_shared<double>(0);
  for (const std::int64_t actors : {1, 2, 4, 8}) {
    benchmark::RegisterBenchmark((name + "_" + std::to_string(actors)).c_str(), [=](benchmark::State& state) {
      double value = 0;
      for (auto _ : state) value = steps_per_s(cost, actors);
      if (actors == 1) *one = value;
      state.counters["value"] = value;
      if (*one > 0) state.counters["vs_linear"] = *one * static_cast<double>(std::min(actors, cores));
      state.SetLabel("steps/s");
    })->Iterations(1);
  }
}

}  // namespace
}  // namespace troupe::actors

int main(int argc, char** argv) {
  using namespace troupe::actors;
  benchmark::Initialize(&argc, argv);
  rows("env_steps_cpu", Cost::kCpu, std::thread::hardware_concurrency());
  rows("env_steps_waiting", Cost::kWaiting, kMostActors);
  benchmark::RunSpecifiedBenchmarks();
}
