#include <troupe/learner/replica.hpp>

#include <fmt/format.h>

#include <utility>

#include <troupe/learner/ops/joint.hpp>

namespace troupe::learner {

class BatchSlot::Pipeline : public InputPipeline {
 public:
  explicit Pipeline(BatchSlot& slot) : slot_(slot) {}
  const Signature& signature() const override { return slot_.signature_; }
  Result<BatchView> next() override {
    if (!std::exchange(slot_.full_, false)) return Error{Code::kUnavailable, "batch slot: nothing was offered"};
    return slot_.batch_;
  }

 private:
  BatchSlot& slot_;
};

Status BatchSlot::offer(const BatchView& batch) {
  TROUPE_TRY(check_same(*batch.signature, signature_, "batch slot"));
  batch_ = batch;
  full_ = true;
  return {};
}

std::unique_ptr<InputPipeline> BatchSlot::pipeline() { return std::make_unique<Pipeline>(*this); }

StepInputs::StepInputs(Graph& graph, const Signature& signature) : graph_(graph) {
  columns_.reserve(signature.size());
  for (const TensorSpec& column : signature) {
    columns_.emplace_back(column.name, graph.input(column.name, column.shape, column.dtype));
  }
}

Var StepInputs::operator[](std::string_view name) const {
  for (const auto& [column, value] : columns_) {
    if (column == name) return value;
  }
  return graph_.fail(Code::kNotFound, fmt::format("step_fn: the input pipeline has no column \"{}\"", name));
}

ReplicaContext::ReplicaContext(Graph& graph, const InputContext& input, collectives::Communicator* communicator)
    : graph_(graph), input_(input), communicator_(communicator) {}

namespace {

/// What both reductions are for one replica: the value itself, whole on every shard.
Var whole(Var x) { return x.graph->spec(x).place == Place::kPartial ? sum_shards(x) : x; }

}  // namespace

JointFn ReplicaContext::all_reduce(collectives::ReduceOp op, double factor) {
  const collectives::CallOptions options{.name = fmt::format("step/{}", calls_++),
                                         .weight = static_cast<double>(input_.replica_batch)};
  return [=, communicator = communicator_](std::span<const std::span<float>> pieces) -> Status {
    for (const std::span<float> piece : pieces) {
      TROUPE_TRY(communicator->all_reduce(piece, op, options)->wait());
      for (float& x : piece) x *= static_cast<float>(factor);
    }
    return {};
  };
}

Var ReplicaContext::all_sum(Var x) {
  if (!x) return x;
  if (communicator_ == nullptr) return whole(x);
  JointFn forward = all_reduce(collectives::ReduceOp::kSum, 1);
  // sum(w_j dy_j) / w_i is the weighted mean times sum(w_j) / w_i.
  const double ratio = static_cast<double>(input_.global_batch) / static_cast<double>(input_.replica_batch);
  return joint(x, std::move(forward), all_reduce(collectives::ReduceOp::kMean, ratio));
}

Var ReplicaContext::all_mean(Var x) {
  if (!x) return x;
  if (communicator_ == nullptr) return whole(x);
  JointFn forward = all_reduce(collectives::ReduceOp::kMean, 1);
  return joint(x, std::move(forward), all_reduce(collectives::ReduceOp::kMean, 1));
}

OptimizerSpec ReplicaContext::wrap_optimizer(OptimizerSpec optimizer) {
  if (communicator_ == nullptr) return optimizer;
  optimizer.reduce = [mean = all_reduce(collectives::ReduceOp::kMean, 1)](std::span<float> gradient) {
    return mean({&gradient, 1});
  };
  return optimizer;
}

}  // namespace troupe::learner
