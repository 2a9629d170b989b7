// Programs on PJRT's plug-in for the processor, on all processors; with --device on JAX's plug-in for that GPU. The
// values are rates of whole runs, from the host's inputs to the host's results; each step has its rate by Troupe's own
// kernels as vs_kernels. compile_resnet50 is how many training steps of ResNet-50 on 8 images libtpu compiles in a
// second for v5e:2x2, StableHLO included, with products of bfloat16 operands, as JAX has them on TPUs by default.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include <troupe/bench/learner/image_models.hpp>
#include <troupe/bench/learner/random_rows.hpp>
#include <troupe/learner/engine/pjrt/hlo_module.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/pjrt/find_plugin.hpp>
#include <troupe/pjrt/topology.hpp>
#include <troupe/tests/algorithms/d4pg/hand_fed.hpp>

namespace troupe::learner {
namespace {

bool on_gpu() { return bench::device_index() >= 0; }
Device pjrt_device() { return on_gpu() ? Device{"pjrt:cuda", bench::device_index()} : Device{"pjrt:cpu", 0}; }
Device own_device() { return on_gpu() ? gpu_device(bench::device_index()) : Device(); }

int processors() { return static_cast<int>(std::thread::hardware_concurrency()); }

CompileOptions on(const Device& device) {
  CompileOptions options{.device = device, .plans = PlanChoice::kMeasured};
  options.stripes = device == Device() ? processors() : 1;
  return options;
}

void small_call(benchmark::State& state) {
  Graph graph(1);
  graph.output("y", affine(graph.input("x", {8}), 1, 1));
  const auto program = Program::compile(graph, {.device = pjrt_device()}).value();
  const BatchBuffer inputs({{"x", DType::kF32, Shape{8}}}, 1);  // as policies and learners have theirs
  program->bind(inputs.view()).value();
  for ([[maybe_unused]] auto _ : state) {
    program->run().value();
    benchmark::DoNotOptimize(program->output("y").data());
  }
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("calls/s");
}

double d4pg_steps(const Device& device) {
  d4pg::HandFedOptions options{.compile = on(device)};
  options.d4pg.environment = {
      .observation_size = 17, .action_low = std::vector<double>(6, -1), .action_high = std::vector<double>(6, 1)};
  const auto learner = d4pg::HandFed::make(options).value();
  BatchBuffer batch(learner->signature(), options.d4pg.batch);
  fill_with_noise(batch);
  for (int i = 0; i < 20; ++i) learner->step(batch.view()).value();
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::duration<double> spent{};
  int steps = 0;
  for (; spent.count() < 4; ++steps) {
    learner->step(batch.view()).value();
    spent = std::chrono::steady_clock::now() - begin;
  }
  return steps / spent.count();
}

double image_steps(std::unique_ptr<Replica> replica, std::int64_t batch, const Device& device) {
  const auto one = OneDevice::make(*replica, {.batch = batch, .compile = on(device)}).value();
  return steps_per_second(*one, 10);
}

double resnet50_compilations() {
  const auto path = pjrt::find_plugin("tpu").value();
  pjrt::prepare_libtpu_to_compile();
  const auto plugin = pjrt::Plugin::open(path).value();
  const auto topology = pjrt::Topology::make(plugin, "v5e:2x2").value();
  const auto replica = resnet50();
  constexpr std::int64_t kBatch = 8;
  const InputContext context{.replica_batch = kBatch, .global_batch = kBatch};
  const auto begin = std::chrono::steady_clock::now();
  const auto input = replica->input_fn(context).value();
  Graph graph(kBatch);
  ReplicaContext replica_context(graph, context, nullptr);
  replica->step_fn(replica_context, StepInputs(graph, input->signature()));
  const HloModule module = make_hlo_module(graph, {.phase = HloPhase::kUpdate, .bf16 = true}).value();
  benchmark::DoNotOptimize(topology.compile(module.text).value());
  return 1 / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void register_rows() {
  benchmark::RegisterBenchmark("small_call", small_call)->UseRealTime()->MinTime(3);
  const auto add = [](const char* name, const char* unit, auto measure) {
    benchmark::RegisterBenchmark(name,
                                 [=](benchmark::State& state) {
                                   for ([[maybe_unused]] auto _ : state) measure(state.counters);
                                   state.SetLabel(unit);
                                 })
        ->Iterations(1)
        ->UseRealTime();
  };
  const auto add_step = [&](const char* name, const char* unit, auto rate) {
    add(name, unit, [=](benchmark::UserCounters& counters) {
      counters["value"] = rate(pjrt_device());
      counters["vs_kernels"] = rate(own_device());
    });
  };
  add_step("d4pg_step", "steps/s", d4pg_steps);
  add_step("sngan_step", "steps/s", [](const Device& device) { return image_steps(cifar_sngan(), 64, device); });
  add_step("resnet50_step", "images/s", [](const Device& device) { return 8 * image_steps(resnet50(), 8, device); });
  if (on_gpu() || !pjrt::find_plugin("tpu").ok()) return;
  add("compile_resnet50", "compilations/s",
      [](benchmark::UserCounters& counters) { counters["value"] = resnet50_compilations(); });
}

}  // namespace
}  // namespace troupe::learner

int main(int argc, char** argv) {
  troupe::learner::register_rows();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  std::fflush(stdout);
  _exit(0);  // libtpu's threads need no farewell
}
