// One training step of the paper's SN-GAN for CIFAR-10 (32 x 32, 256 and 128 channels), batch 64: both networks
// forward, both losses, both gradients, both Adams. The value is steps per second. sngan_2_processes is the same batch
// shared by two processes of a thread each; its vs_threads is one process with two threads.
#include <benchmark/benchmark.h>

#include <troupe/bench/learner/image_steps.hpp>
#include <troupe/learner/sngan/replica.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kBatch = 64;
constexpr double kSeconds = 10;

std::unique_ptr<Replica> make() {
  sngan::Options options;
  options.network = sngan::Network::kResnet;
  options.image = Shape{32, 32, 3};
  options.noise_size = 128;
  return std::make_unique<sngan::SnganReplica>(options, random_batch(sngan::batch_signature(options)));
}

void step(benchmark::State& state, int threads, DType compute) {
  for ([[maybe_unused]] auto _ : state) {
    state.counters["value"] = on_threads(make, kBatch, threads, compute, kSeconds);
  }
  state.SetLabel("steps/s");
}

void processes(benchmark::State& state, DType compute) {
  for ([[maybe_unused]] auto _ : state) {
    state.counters["value"] = on_processes(make, kBatch, 2, compute, 5);
    state.counters["vs_threads"] = on_threads(make, kBatch, 2, compute, kSeconds);
  }
  state.SetLabel("steps/s");
}

void register_rows() {
  const auto add = [](const char* name, auto run) {
    benchmark::RegisterBenchmark(name, run)->Iterations(1)->UseRealTime();
  };
  // First: a process that has had threads cannot fork.
  add("sngan_2_processes", [](benchmark::State& state) { processes(state, DType::kF32); });
  add("sngan_bf16_2_processes", [](benchmark::State& state) { processes(state, DType::kBF16); });
  add("sngan_1_thread", [](benchmark::State& state) { step(state, 1, DType::kF32); });
  add("sngan_2_threads", [](benchmark::State& state) { step(state, 2, DType::kF32); });
  add("sngan_bf16_1_thread", [](benchmark::State& state) { step(state, 1, DType::kBF16); });
  add("sngan_bf16_2_threads", [](benchmark::State& state) { step(state, 2, DType::kBF16); });
}

}  // namespace
}  // namespace troupe::learner

int main(int argc, char** argv) {
  troupe::learner::register_rows();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
