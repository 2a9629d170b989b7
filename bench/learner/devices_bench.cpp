// One replica over several devices of one processor, against the same step on one device: two independent branches, a
// chain of stages as a pipeline, and layers split over a mesh. Batch 256, width 512, an SGD step. Rows come in pairs:
// NAME_1_device and NAME_2_devices; the value is steps per second.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/replicate/mesh.hpp>

namespace troupe::learner {
namespace {

constexpr std::int64_t kBatch = 256, kWidth = 512;

enum class Kind { kBranches, kPipeline, kBatch, kHidden };

Var layers(ReplicaContext& context, ParamGroup net, Var x, const std::string& name, int count, Split split) {
  MeshValue h = x;
  for (int i = 0; i < count; ++i) {
    const std::string layer = name + std::to_string(i);
    h = mesh_linear(context, h,
                    {.group = net,
                     .name = layer,
                     .out = kWidth,
                     .activation = Activation::kRelu,
                     .weight = Init::normal(0.05),
                     .bias = {}},
                    split);
  }
  return h.whole();
}

void step(benchmark::State& state, Kind kind, int devices) {
  Graph graph(kBatch);
  ReplicaContext context(graph, {.replica_batch = kBatch, .global_batch = kBatch, .devices = devices}, nullptr);
  const ParamGroup net = graph.group("net");
  const Var x = graph.input("x", {kWidth});
  Var y;
  if (kind == Kind::kBranches) {
    std::vector<Var> ends;
    for (int branch = 0; branch < 2; ++branch) {
      const auto on = context.device(branch);
      ends.push_back(layers(context, net, x, branch == 0 ? "left" : "right", 3, Split::kNone));
    }
    y = add(ends[0], ends[1]);
  } else if (kind == Kind::kPipeline) {
    const std::vector<Stage> stages{[&](Var h) { return layers(context, net, h, "first", 3, Split::kNone); },
                                    [&](Var h) { return layers(context, net, h, "second", 3, Split::kNone); }};
    y = pipeline(context, x, 4, stages);
  } else {
    y = layers(context, net, x, "layer", 6, kind == Kind::kBatch ? Split::kBatch : Split::kHidden);
  }
  graph.minimize(mean(square(y)), net, {.rule = Sgd{.learning_rate = 1e-4}});
  auto program = Program::compile(graph, {.devices = devices}).value();
  Rng rng(1);
  std::vector<float> data(static_cast<std::size_t>(kBatch * kWidth));
  for (float& value : data) value = static_cast<float>(rng.normal());
  program->bind("x", std::span<const float>(data)).value();
  for (int i = 0; i < 5; ++i) program->run().value();
  for ([[maybe_unused]] auto _ : state) program->run().value();
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("steps/s");
}

void register_rows() {
  const std::pair<const char*, Kind> kinds[] = {{"branches", Kind::kBranches},
                                                {"pipeline_of_4_parts", Kind::kPipeline},
                                                {"mesh_by_batch", Kind::kBatch},
                                                {"mesh_by_hidden", Kind::kHidden}};
  for (const auto& [name, kind] : kinds) {
    for (const int devices : {1, 2}) {
      const std::string row = std::string(name) + (devices == 1 ? "_1_device" : "_2_devices");
      benchmark::RegisterBenchmark(row.c_str(), step, kind, devices)->UseRealTime()->MinTime(1);
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
