// Strong scaling of D4PG from pixels, as TF-Replicator measures it (Buchlovsky et al. 2019, arXiv 1902.00465, Figure
// 4): one step at a total batch of 256 images of 84 x 84 x 9, shared by 1, 2 and 4 learners of one thread each. They
// are devices of one process (multi_device), or processes that all-reduce through shared memory (multi_worker). Values
// are steps per second. vs_linear is that of one learner, times learners, or times cores where those are fewer: the
// ratio to it is the efficiency.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include <troupe/algorithms/d4pg/replica.hpp>
#include <troupe/bench/learner/image_steps.hpp>
#include <troupe/learner/replicate/make_replicator.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kTotalBatch = 256;

std::unique_ptr<Replica> from_pixels() {
  d4pg::Options options;
  options.encoder.pixels = {84, 84, 9};
  options.environment = {.observation_size = options.encoder.pixels.elements(), .action_low = {-1}, .action_high = {1}};
  options.batch = kTotalBatch;
  return d4pg::training(options, random_batch(d4pg::batch_signature(options)));
}

double in_processes_of_their_own(int learners) {
  constexpr int kSteps = 6;
  return on_processes(from_pixels, kTotalBatch, learners, DType::kF32, kSteps);
}

double as_devices(int learners) {
  constexpr double kSeconds = 5;
  const std::unique_ptr<Replica> replica = from_pixels();
  const auto devices = make_replicator(*replica, {.kind = ReplicatorKind::kMultiDevice,
                                                  .global_batch = kTotalBatch,
                                                  .replicas = learners,
                                                  .compile = {.threads = 1, .plans = PlanChoice::kMeasured}});
  return steps_per_second(*devices.value(), kSeconds);
}

void rows(const std::string& how, double (*measure)(int learners), int cores) {
  const auto one = std::make_shared<double>(0);
  for (const int learners : {1, 2, 4}) {
    benchmark::RegisterBenchmark((how + "_" + std::to_string(learners)).c_str(), [=](benchmark::State& state) {
      double value = 0;
      for ([[maybe_unused]] auto _ : state) value = measure(learners);
      if (learners == 1) *one = value;
      state.counters["value"] = value;
      if (*one > 0) state.counters["vs_linear"] = *one * std::min(learners, cores);
      state.SetLabel("steps/s");
    })->Iterations(1);
  }
}

}  // namespace
}  // namespace troupe::learner

int main(int argc, char** argv) {
  using namespace troupe::learner;
  benchmark::Initialize(&argc, argv);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  rows("multi_worker", in_processes_of_their_own, cores);  // first: a process that has had threads cannot fork
  rows("multi_device", as_devices, cores);
  benchmark::RunSpecifiedBenchmarks();
}
