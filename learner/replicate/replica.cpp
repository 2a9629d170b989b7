#include <troupe/learner/replicate/replica.hpp>

#include <fmt/format.h>

#include <utility>

namespace troupe::learner {
namespace {

class TwoFunctions final : public Replica {
 public:
  TwoFunctions(InputFn input, StepFn step, Status options)
      : input_(std::move(input)), step_(std::move(step)), options_(std::move(options)) {}
  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override {
    TROUPE_TRY(options_);
    return input_(context);
  }
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override { step_(context, inputs); }

 private:
  const InputFn input_;
  const StepFn step_;
  const Status options_;
};

}  // namespace

std::unique_ptr<Replica> make_replica(InputFn input_fn, StepFn step_fn, Status options_status) {
  return std::make_unique<TwoFunctions>(std::move(input_fn), std::move(step_fn), std::move(options_status));
}

class BatchSlot::Pipeline : public InputPipeline {
 public:
  Pipeline(const BatchSlot& slot, const InputContext& context) : slot_(slot), context_(context), taken_(slot.offers_) {}
  const Signature& signature() const override { return slot_.signature_; }
  Result<BatchView> next() override {
    if (std::exchange(taken_, slot_.offers_) == slot_.offers_) {
      return Error{Code::kUnavailable, "batch slot: nothing was offered"};
    }
    BatchView batch = slot_.batch_;
    if (context_.replica_count < 2 || batch.rows <= context_.replica_batch) return batch;
    const std::int64_t first = batch.rows * context_.replica_id / context_.replica_count;
    const std::int64_t end = batch.rows * (context_.replica_id + 1) / context_.replica_count;
    for (std::size_t c = 0; c < batch.columns.size(); ++c) {
      const std::size_t row = slot_.signature_[c].bytes();
      batch.columns[c] =
          batch.columns[c].subspan(static_cast<std::size_t>(first) * row, static_cast<std::size_t>(end - first) * row);
    }
    batch.rows = end - first;
    return batch;
  }

 private:
  const BatchSlot& slot_;
  const InputContext context_;
  std::int64_t taken_;  ///< of the offers, the newest that it has taken or come too late for
};

Status BatchSlot::offer(const BatchView& batch) {
  TROUPE_TRY(check_same(*batch.signature, signature_, "batch slot"));
  batch_ = batch;
  ++offers_;
  return {};
}

std::unique_ptr<InputPipeline> BatchSlot::pipeline(const InputContext& context) const {
  return std::make_unique<Pipeline>(*this, context);
}

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

}  // namespace troupe::learner
