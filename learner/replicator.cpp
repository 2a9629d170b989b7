#include <troupe/learner/replicator.hpp>

#include <fmt/format.h>

#include <utility>

namespace troupe::learner {

OneDevice::OneDevice(std::unique_ptr<InputPipeline> input, std::unique_ptr<Program> program, std::int64_t batch)
    : input_(std::move(input)), program_(std::move(program)), batch_(batch) {}

Result<std::unique_ptr<OneDevice>> OneDevice::make(Replica& replica, const OneDeviceOptions& options) {
  if (options.batch < 1) {
    return Error{Code::kInvalidArgument, fmt::format("replicator: batch {} is not positive", options.batch)};
  }
  InputContext context{.replica_batch = options.batch, .global_batch = options.batch, .first_step = options.first_step};
  if (options.communicator != nullptr) {
    const collectives::GroupView& view = options.communicator->view();
    context = {view.rank, view.size, options.batch, options.global_batch, options.first_step};
    if (context.global_batch < context.replica_batch) {
      return Error{Code::kInvalidArgument, fmt::format("replicator: global batch {} is below the replica's batch {}",
                                                       context.global_batch, context.replica_batch)};
    }
  }
  context.devices = options.compile.devices;
  TROUPE_ASSIGN(std::unique_ptr<InputPipeline> input, replica.input_fn(context));
  Graph graph(options.batch);
  ReplicaContext replica_context(graph, context, options.communicator);
  replica.step_fn(replica_context, StepInputs(graph, input->signature()));
  TROUPE_ASSIGN(std::unique_ptr<Program> program, Program::compile(graph, options.compile));
  return std::unique_ptr<OneDevice>(new OneDevice(std::move(input), std::move(program), options.batch));
}

Status OneDevice::step() {
  TROUPE_ASSIGN(const BatchView batch, input_->next());
  if (batch.rows != batch_) {
    return Error{Code::kShapeMismatch, fmt::format("step: the input has {} rows, expected {}", batch.rows, batch_)};
  }
  TROUPE_TRY(program_->bind(batch));
  return program_->run();
}

}  // namespace troupe::learner
