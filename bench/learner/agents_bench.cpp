// One whole learner step of each agent at its published size, on HalfCheetah's: 17 observations, 6 actions, batch 256
// (of FlashSAC 512); of DrQ-v2 images of 84 x 84 x 9. Forward, gradients, optimisers, targets. The value is steps per
// second. With --device on that GPU, from batches in the host's memory, in launches that overlap the next one's copies,
// with D4PG too; vs_pjrt is the same graph's through JAX's plug-in, where that is found. drqv2_gpu_replay: from replay
// in the GPU's memory, since its batches are 32 MB each. In float32, and FlashSAC, whose products are the largest, with
// TF32 ones too.
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <string>

#include <troupe/actors/roles/gpu_replay_feed.hpp>
#include <troupe/algorithms/d4pg/policy.hpp>
#include <troupe/algorithms/d4pg/replica.hpp>
#include <troupe/algorithms/dmpo/replica.hpp>
#include <troupe/algorithms/drqv2/replica.hpp>
#include <troupe/algorithms/flashsac/replica.hpp>
#include <troupe/algorithms/sac/replica.hpp>
#include <troupe/algorithms/td3/replica.hpp>
#include <troupe/bench/gpu/device.hpp>
#include <troupe/bench/learner/fed_steps.hpp>
#include <troupe/bench/learner/full_table.hpp>
#include <troupe/bench/learner/random_rows.hpp>
#include <troupe/learner/replicate/replicator.hpp>
#include <troupe/pjrt/find_plugin.hpp>

namespace troupe::learner {
namespace {

control::EnvironmentShape cheetah() {
  return {.observation_size = 17, .action_low = std::vector<double>(6, -1), .action_high = std::vector<double>(6, 1)};
}

struct Agent {
  const char* name;
  std::function<std::unique_ptr<Replica>(InputFn)> training;
  Signature columns = control::transitions(cheetah(), false);
  std::int64_t batch = 256;
  int warm_up_steps = 20;
};

template <typename Options>
Options of_cheetah() {
  Options options;
  options.environment = cheetah();
  return options;
}
template <typename Options>
auto of(std::unique_ptr<Replica> (*training)(const Options&, InputFn)) {
  return [training](InputFn input) { return training(of_cheetah<Options>(), std::move(input)); };
}

/// Random rows of an agent's columns, for its replica, which is compiled.
class Learner {
 public:
  Learner(const Agent& agent, const CompileOptions& compile)
      : slot_(agent.columns), batch_(agent.columns, agent.batch) {
    replica_ = agent.training([&](const InputContext&) { return slot_.pipeline(); });
    replicator_ = OneDevice::make(*replica_, {.batch = agent.batch, .compile = compile}).value();
    fill_with_noise(batch_);
  }

  Replicator& replicator() { return *replicator_; }
  void stage() {
    slot_.offer(batch_.view()).value();
    replicator_->stage().value();
  }
  void step() {
    stage();
    replicator_->step().value();
  }

 private:
  BatchSlot slot_;
  BatchBuffer batch_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<OneDevice> replicator_;
};

void step(benchmark::State& state, const Agent& agent, int stripes) {
  Learner learner(agent, {.stripes = stripes, .plans = PlanChoice::kMeasured});
  for (int i = 0; i < agent.warm_up_steps; ++i) learner.step();
  for ([[maybe_unused]] auto _ : state) learner.step();
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("steps/s");
}

/// Steps a second in launches of as many as there can be; the next one's batches go over while one runs.
double launched(const Agent& agent, const Device& device, bool tf32 = false) {
  Learner learner(agent, {.device = device, .tf32 = tf32, .plans = PlanChoice::kMeasured});
  Replicator& replicator = learner.replicator();
  const int steps = bench::tiny(replicator.steps_per_launch(), 1);
  const auto stage = [&] {
    while (replicator.staged() < steps) learner.stage();
  };
  stage();
  return steps / bench::seconds_of([&] {
           replicator.begin().value();
           stage();
           replicator.finish().value();
         });
}

Agent drqv2_of_images() {
  drqv2::Options options;
  options.encoder.pixels = {84, 84, 9};
  options.environment = cheetah();
  options.environment.observation_size = options.encoder.pixels.elements();
  return {.name = "drqv2",
          .training = [options](InputFn input) { return drqv2::training(options, std::move(input)); },
          .columns = drqv2::transitions(options),
          .warm_up_steps = 2};
}

/// The same from a table in the GPU's memory that draws uniformly.
double from_gpu_replay(const Agent& agent, const Device& device) {
  Learner learner(agent, {.device = device, .plans = PlanChoice::kMeasured});
  Program& program = learner.replicator().program();
  const auto table = replay::GpuTable::make({.signature = agent.columns,
                                             .max_items = bench::tiny<std::int64_t>(10'000, 2'000),
                                             .sampler = {.kind = replay::SelectorKind::kUniform}},
                                            program.gpu())
                         .value();
  fill(*table);
  actors::feed_from(*table, agent.batch, 0, "", program).value();
  return fed_steps_per_second(program);
}

/// As learner_gpu_bench has it.
Agent d4pg_of_cheetah() {
  auto options = of_cheetah<d4pg::Options>();
  return {.name = "d4pg",
          .training = [options](InputFn input) { return d4pg::training(options, std::move(input)); },
          .columns = d4pg::batch_signature(options)};
}

std::vector<Agent> agents() {
  return {{"sac", of(sac::training)},
          {"td3", of(td3::training)},
          {"dmpo", of(dmpo::training)},
          {"flashsac", of(flashsac::training), flashsac::columns(of_cheetah<flashsac::Options>()), 512},
          drqv2_of_images()};
}

void register_gpu_rows() {
  const bool pjrt = !bench::trial() && pjrt::find_plugin("cuda").ok();
  std::vector<Agent> all = agents();
  all.insert(all.begin(), d4pg_of_cheetah());
  for (Agent& agent : all) {
    agent.batch = bench::tiny<std::int64_t>(agent.batch, 4);
    bench::add_row(std::string(agent.name) + "_step", "steps/s", [=](benchmark::UserCounters& counters) {
      counters["value"] = launched(agent, gpu_device(bench::device_index()));
      if (pjrt) counters["vs_pjrt"] = launched(agent, {"pjrt:cuda", bench::device_index()});
    });
  }
  const Device gpu = gpu_device(bench::device_index());
  bench::add_row("flashsac_step_tf32", "steps/s", [gpu, flashsac = all[all.size() - 2]](auto& counters) {
    counters["value"] = launched(flashsac, gpu, true);
  });
  bench::add_row("drqv2_gpu_replay", "steps/s",
                 [gpu, drqv2 = all.back()](auto& counters) { counters["value"] = from_gpu_replay(drqv2, gpu); });
}

void register_rows() {
  if (bench::device_index() >= 0) return register_gpu_rows();
  for (const Agent& agent : agents()) {
    for (const int threads : {1, 2}) {
      const std::string row = std::string(agent.name) + "_step_" + (threads == 1 ? "1_thread" : "2_threads");
      benchmark::RegisterBenchmark(row.c_str(), step, agent, threads)->UseRealTime()->MinTime(3);
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
