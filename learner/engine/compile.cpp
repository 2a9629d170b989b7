// What Program::compile() does before and after an engine's part of it.
#include <fmt/format.h>

#include <algorithm>

#include <troupe/learner/engine/cpu/cpu_program.hpp>
#include <troupe/learner/engine/cuda/cuda_program.hpp>
#include <troupe/learner/engine/pjrt/pjrt_program.hpp>
#include <troupe/learner/engine/program_impl.hpp>

namespace troupe::learner {

const Engine& engine_of(const Device& device) {
  if (device.is_gpu()) return cuda_engine();
  return device.is_pjrt() ? pjrt_engine() : cpu_engine();
}

namespace {

Status check(const CompileOptions& options, std::int64_t batch) {
  const DType compute = options.compute;
  if (compute != DType::kF32 && compute != DType::kBF16 && compute != DType::kF64) {
    return Error{Code::kInvalidArgument, fmt::format("compile: compute type {}, expected float32, bfloat16 or float64",
                                                     troupe::to_string(compute))};
  }
  if (options.accumulate < 1) {
    return Error{Code::kInvalidArgument,
                 fmt::format("compile: accumulate is {}, expected at least 1", options.accumulate)};
  }
  if (options.stripes < 1 || options.stripes > batch) {
    return Error{Code::kInvalidArgument,
                 fmt::format("compile: {} stripes for a batch of {}, expected 1 to the batch", options.stripes, batch)};
  }
  if (options.threads < 0) {
    return Error{Code::kInvalidArgument, fmt::format("compile: {} threads, expected at least 0", options.threads)};
  }
  if (options.devices < 1) {
    return Error{Code::kInvalidArgument, fmt::format("compile: {} devices, expected at least 1", options.devices)};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Program>> Program::compile(const Graph& graph, const CompileOptions& asked) {
  TROUPE_TRY(graph.status());
  const GraphData& data = GraphAccess::data(graph);
  CompileOptions options = asked;
  options.device = resolve(asked.device);
  const Engine& engine = engine_of(options.device);
  TROUPE_TRY(engine.complete(data, graph.batch(), &options));
  TROUPE_TRY(check(options, graph.batch()));
  auto impl = std::make_unique<Impl>(data, graph.batch(), options);
  for (const Node& node : data.nodes) impl->host.devices = std::max(impl->host.devices, node.device + 1);
  impl->host.devices = std::min(impl->host.devices, options.devices);
  PlanOptions of_plan{.batch = graph.batch(),
                      .rows = (graph.batch() + options.stripes - 1) / options.stripes,
                      .devices = impl->host.devices,
                      .compute = options.compute,
                      .by = {options.gemm, options.plans}};
  engine.adapt(&of_plan);
  TROUPE_ASSIGN(const Plan plan, make_plan(data, of_plan));
  TROUPE_ASSIGN(impl->executable, engine.compile(data, plan, impl->host));
  std::unique_ptr<Program> program(new Program(std::move(impl)));
  program->parameters_changed();
  TROUPE_TRY(program->impl_->lost);
  return program;
}

}  // namespace troupe::learner
