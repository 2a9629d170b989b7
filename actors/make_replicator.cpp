#include <troupe/actors/make_replicator.hpp>

#include <fmt/format.h>

namespace troupe::actors {

learner::CompileOptions compile_options(const ReplicaGroupOptions& options) {
  learner::CompileOptions compile;
  compile.seed = options.seed;
  compile.devices = static_cast<int>(options.devices);
  return compile;
}

Result<std::unique_ptr<learner::Replicator>> make_replicator(learner::Replica& replica,
                                                             const ReplicaGroupOptions& options,
                                                             std::int64_t first_step) {
  const learner::CompileOptions compile = compile_options(options);
  // A replica on several devices is one replica: its step_fn places its stages by ReplicaContext::device().
  if (options.replicator == "one_device" || options.replicator == "model_parallel") {
    TROUPE_ASSIGN(auto one, learner::OneDevice::make(
                                replica, {.batch = options.batch_size, .compile = compile, .first_step = first_step}));
    return std::unique_ptr<learner::Replicator>(std::move(one));
  }
  return Error{Code::kInvalidArgument, fmt::format("replicas.{}.replicator: \"{}\" runs no replicas by itself",
                                                   options.name, options.replicator)};
}

}  // namespace troupe::actors
