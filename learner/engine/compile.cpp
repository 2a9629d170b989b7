// What Program::compile() does before and after an engine's part of it.
#include <fmt/format.h>

#include <algorithm>

#include <troupe/learner/engine/cpu/cpu_program.hpp>
#include <troupe/learner/engine/cuda/cuda_program.hpp>
#include <troupe/learner/engine/pjrt/pjrt_engine.hpp>
#include <troupe/learner/engine/program_impl.hpp>

namespace troupe::learner {

const Engine& engine_of(const Device& device) {
  if (device.is_gpu()) return cuda_engine();
  return device.is_pjrt() ? pjrt_engine() : cpu_engine();
}

Status complete_for_one_device(CompileOptions* options) {
  if (options->stripes == 0) options->stripes = 1;
  if (options->stripes == 1 && options->devices == 1 && options->compute != DType::kF64) return {};
  return Error{
      Code::kInvalidArgument,
      fmt::format("compile: {} stripes on {} devices in {}, expected 1, 1 and float32 or bfloat16 on {}",
                  options->stripes, options->devices, troupe::to_string(options->compute), to_string(options->device))};
}

PlanOptions plan_options(const Host& host) {
  const CompileOptions& options = host.options;
  return {.batch = host.batch,
          .rows = (host.batch + options.stripes - 1) / options.stripes,
          .devices = host.devices,
          .compute = options.compute,
          .by = {options.gemm, options.plans}};
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
  TROUPE_ASSIGN(impl->executable, engine.compile(data, impl->host));
  std::unique_ptr<Program> program(new Program(std::move(impl)));
  program->parameters_changed();
  TROUPE_TRY(program->impl_->lost);
  return program;
}

}  // namespace troupe::learner
