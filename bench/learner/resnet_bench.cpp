// One training step of ResNet-50 v1.5 on 8 images of 224 x 224: forward, gradients, SGD with Nesterov's momentum. The
// value is images per second. resnet50_2_processes: the same batch shared by two processes of a thread each; its
// vs_threads is one process with two threads.
#include <benchmark/benchmark.h>

#include <troupe/bench/learner/image_steps.hpp>
#include <troupe/learner/resnet/replica.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kBatch = 8;
constexpr double kSeconds = 10;

std::unique_ptr<Replica> make() {
  resnet::Options options = resnet::of_depth(50).value();
  options.label_smoothing = 0.1;
  return std::make_unique<resnet::ResnetReplica>(options, random_batch(resnet::batch_signature(options)));
}

void step(benchmark::State& state, int threads, DType compute) {
  for ([[maybe_unused]] auto _ : state) {
    state.counters["value"] = kBatch * on_threads(make, kBatch, threads, compute, kSeconds);
  }
  state.SetLabel("images/s");
}

void processes(benchmark::State& state, DType compute) {
  for ([[maybe_unused]] auto _ : state) {
    state.counters["value"] = kBatch * on_processes(make, kBatch, 2, compute, 7);
    state.counters["vs_threads"] = kBatch * on_threads(make, kBatch, 2, compute, kSeconds);
  }
  state.SetLabel("images/s");
}

void register_rows() {
  const auto add = [](const char* name, auto run) {
    benchmark::RegisterBenchmark(name, run)->Iterations(1)->UseRealTime();
  };
  // First: a process that has had threads cannot fork.
  add("resnet50_2_processes", [](benchmark::State& state) { processes(state, DType::kF32); });
  add("resnet50_bf16_2_processes", [](benchmark::State& state) { processes(state, DType::kBF16); });
  add("resnet50_1_thread", [](benchmark::State& state) { step(state, 1, DType::kF32); });
  add("resnet50_2_threads", [](benchmark::State& state) { step(state, 2, DType::kF32); });
  add("resnet50_bf16_1_thread", [](benchmark::State& state) { step(state, 1, DType::kBF16); });
  add("resnet50_bf16_2_threads", [](benchmark::State& state) { step(state, 2, DType::kBF16); });
}

}  // namespace
}  // namespace troupe::learner

int main(int argc, char** argv) {
  troupe::learner::register_rows();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
