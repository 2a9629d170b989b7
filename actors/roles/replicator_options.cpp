#include <troupe/actors/roles/replicator_options.hpp>

#include <fmt/format.h>

namespace troupe::actors {

std::vector<learner::Device> devices_of(const ReplicaGroupOptions& options) {
  return learner::parse_devices(options.device).value();
}

learner::CompileOptions compile_options(const ReplicaGroupOptions& options) {
  learner::CompileOptions compile;
  compile.seed = options.seed;
  compile.accumulate = static_cast<int>(options.accumulate);
  compile.devices = static_cast<int>(options.devices);
  compile.compute = options.compute == "bf16" ? DType::kBF16 : DType::kF32;
  compile.tf32 = options.compute == "tf32";
  compile.plans =
      options.deterministic || options.repeatable ? learner::PlanChoice::kByRule : learner::PlanChoice::kMeasured;
  compile.waits = options.repeatable;
  compile.stripes = 0;
  compile.threads = static_cast<int>(options.threads);  // also of the fixed shards of a deterministic program
  return compile;
}

DType wire_type(const ReplicaGroupOptions& options) { return options.wire == "bf16" ? DType::kBF16 : DType::kF32; }

Result<learner::ReplicatorOptions> replicator_options(const ReplicaGroupOptions& options) {
  // Whose step_fn places its stages by ReplicaContext::device(); several such replicas meet as those of one device do.
  const bool split = options.replicator == "model_parallel";
  const std::string replicator = !split ? options.replicator : options.count == 1 ? "one_device" : "multi_device";
  const auto kind = learner::replicator_kind(replicator);
  if (!kind) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: replicator \"{}\" runs no replicas by itself", options.name, options.replicator)};
  }
  learner::ReplicatorOptions how;
  how.kind = *kind;
  how.global_batch = options.batch_size;
  how.replicas = static_cast<int>(options.count);
  how.reduce = options.reduce == "hierarchical_copy"  ? collectives::InProcessAlgorithm::kHierarchicalCopy
               : options.reduce == "reduction_to_one" ? collectives::InProcessAlgorithm::kReductionToOne
                                                      : collectives::InProcessAlgorithm::kCollective;
  how.deterministic = options.deterministic;
  how.compile = compile_options(options);
  how.devices = devices_of(options);
  how.wire = wire_type(options);
  how.nccl_interface = options.nccl_interface;
  how.members_take_turns = options.repeatable;
  return how;
}

}  // namespace troupe::actors
