// The most memory that a process had resident which takes training steps of ResNet-50 v1.5, 8 images of 224 x 224, in
// MiB. One row a process, so each row is a process of its own.
#include <sys/resource.h>
#include <sys/wait.h>

#include <benchmark/benchmark.h>

#include <troupe/algorithms/resnet/replica.hpp>
#include <troupe/bench/learner/image_steps.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kBatch = 8;

/// Of a child process, which takes the steps.
double peak_mib(DType compute) {
  const pid_t child = fork();
  TROUPE_CHECK(child >= 0, "fork");
  if (child == 0) {
    resnet::Options options = resnet::of_depth(50).value();
    const auto replica = resnet::training(options, random_batch(resnet::batch_signature(options)));
    const auto one = OneDevice::make(*replica, {.batch = kBatch, .compile = {.compute = compute}});
    for (int i = 0; i < 3; ++i) (*one)->step().value();
    _exit(0);
  }
  int status = 0;
  rusage usage{};
  TROUPE_CHECK(wait4(child, &status, 0, &usage) == child && status == 0, "the steps failed");
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void memory(benchmark::State& state, DType compute) {
  for ([[maybe_unused]] auto _ : state) state.counters["value"] = peak_mib(compute);
  state.SetLabel("MiB");
}

}  // namespace
}  // namespace troupe::learner

int main(int argc, char** argv) {
  using namespace troupe::learner;
  for (const auto& [name, compute] :
       {std::pair{"resnet50_memory", troupe::DType::kF32}, {"resnet50_memory_bf16", troupe::DType::kBF16}}) {
    benchmark::RegisterBenchmark(name, [compute = compute](benchmark::State& state) {
      memory(state, compute);
    })->Iterations(1);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
