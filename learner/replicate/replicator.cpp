#include <troupe/learner/replicate/replicator.hpp>

#include <fmt/format.h>

#include <utility>
#include <vector>

#include <troupe/core/atomic_file.hpp>
#include <troupe/messages/safetensors.hpp>

namespace troupe::learner {

Status Replicator::step() {
  if (staged() == 0) TROUPE_TRY(stage());
  TROUPE_TRY(begin());
  return finish();
}

Status Replicator::begin(int) {
  return Error{Code::kInvalidArgument, "begin: these replicas take their inputs from pipelines, not from a feed"};
}

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

Status OneDevice::stage() {
  TROUPE_ASSIGN(const BatchView batch, input_->next());
  if (batch.rows > batch_) {
    return Error{Code::kShapeMismatch,
                 fmt::format("step: the input has {} rows, expected {} or fewer", batch.rows, batch_)};
  }
  TROUPE_TRY(program_->stage(batch));
  last_ = batch;
  return {};
}

Status OneDevice::finish() {
  TROUPE_TRY(program_->finish());
  return check_skipped(*program_);
}

Status check_skipped(const Program& program) {
  const std::int64_t skipped = program.skipped_in_a_row_max();
  if (skipped < kMaxSkippedInARow) return {};
  return Error{Code::kInternal, fmt::format("step {}: the gradient was not finite {} times in a row ({} steps skipped)",
                                            program.step(), skipped, program.skipped())};
}

Status but_not_unavailable(Status step) {
  if (step.ok() || step.error().code != Code::kUnavailable) return step;
  return Error{Code::kInternal, step.error().message};
}

Status save_batch(const BatchView& batch, const std::string& path) {
  if (batch.signature == nullptr) return Error{Code::kInvalidArgument, "save_batch: no batch"};
  std::vector<messages::TensorBytes> tensors;
  for (std::size_t c = 0; c < batch.columns.size(); ++c) {
    const TensorSpec& column = (*batch.signature)[c];
    tensors.push_back({column.name, column.dtype, column.shape.with_leading(batch.rows), batch.columns[c]});
  }
  TROUPE_ASSIGN(const std::vector<std::byte> file, messages::encode_safetensors(tensors, {}));
  return write_file_atomic(path, file);
}

}  // namespace troupe::learner
