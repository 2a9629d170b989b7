// One whole learner step of each agent at its published size, on HalfCheetah's: 17 observations, 6 actions, batch 256
// (of FlashSAC 512); of DrQ-v2 images of 84 x 84 x 9. Forward, gradients, optimisers, targets. The value is steps per
// second.
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <string>

#include <troupe/algorithms/dmpo/replica.hpp>
#include <troupe/algorithms/drqv2/replica.hpp>
#include <troupe/algorithms/flashsac/replica.hpp>
#include <troupe/algorithms/sac/replica.hpp>
#include <troupe/algorithms/td3/replica.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/replicate/replicator.hpp>

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

void step(benchmark::State& state, const Agent& agent, int stripes) {
  BatchSlot slot(agent.columns);
  const auto replica = agent.training([&](const InputContext&) { return slot.pipeline(); });
  const auto learner =
      OneDevice::make(*replica, {.batch = agent.batch, .compile = {.stripes = stripes, .plans = PlanChoice::kMeasured}})
          .value();
  Rng rng(1);
  BatchBuffer batch(agent.columns, agent.batch);
  for (std::size_t column = 0; column < agent.columns.size(); ++column) {
    if (agent.columns[column].dtype == DType::kU8) {
      for (std::uint8_t& x : batch.mutable_view().as<std::uint8_t>(column))
        x = static_cast<std::uint8_t>(rng.below(256));
    } else {
      for (float& x : batch.mutable_view().as<float>(column)) x = static_cast<float>(2 * rng.uniform() - 1);
    }
  }
  const auto one = [&] {
    slot.offer(batch.view()).value();
    learner->step().value();
  };
  for (int i = 0; i < agent.warm_up_steps; ++i) one();
  for ([[maybe_unused]] auto _ : state) one();
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("steps/s");
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

void register_rows() {
  const Agent agents[] = {{"sac", of(sac::training)},
                          {"td3", of(td3::training)},
                          {"dmpo", of(dmpo::training)},
                          {"flashsac", of(flashsac::training), flashsac::columns(of_cheetah<flashsac::Options>()), 512},
                          drqv2_of_images()};
  for (const Agent& agent : agents) {
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
