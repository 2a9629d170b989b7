#include <troupe/learner/replicate/replica.hpp>

#include <fmt/format.h>

#include <utility>

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

}  // namespace troupe::learner
