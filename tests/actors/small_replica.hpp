#pragma once
// A replica small enough for tests of roles: fits a line, y = 3 a - 2 b + 1, to batches that depend on the step and the
// global row alone.
#include <cstdint>
#include <memory>

#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::actors::testing {

class LineInput final : public learner::InputPipeline {
 public:
  explicit LineInput(const learner::InputContext& context)
      : context_(context), step_(context.first_step), batch_(signature_, context.replica_batch) {}
  const Signature& signature() const override { return signature_; }
  Result<BatchView> next() override {
    const std::int64_t first = context_.replica_id * context_.global_batch / context_.replica_count;
    for (std::int64_t row = 0; row < context_.replica_batch; ++row) {
      Rng rng(derive_seed(7, "line", static_cast<std::uint64_t>(step_ * context_.global_batch + first + row)));
      const auto i = static_cast<std::size_t>(row);
      const auto x = batch_.mutable_view().as<float>(0), y = batch_.mutable_view().as<float>(1);
      x[2 * i] = static_cast<float>(rng.normal());
      x[2 * i + 1] = static_cast<float>(rng.normal());
      y[i] = 3 * x[2 * i] - 2 * x[2 * i + 1] + 1;
    }
    ++step_;
    return batch_.view();
  }

 private:
  const Signature signature_ = {{"x", DType::kF32, {2}}, {"y", DType::kF32, {1}}};
  learner::InputContext context_;
  std::int64_t step_;
  BatchBuffer batch_;
};

class Line final : public learner::Replica {
 public:
  explicit Line(bool trains) : trains_(trains) {}
  Result<std::unique_ptr<learner::InputPipeline>> input_fn(const learner::InputContext& context) override {
    return {std::make_unique<LineInput>(context)};
  }
  void step_fn(learner::ReplicaContext& context, const learner::StepInputs& inputs) override {
    learner::Graph& graph = context.graph();
    const learner::ParamGroup line = graph.group("line");
    const learner::Var weight = graph.param(line, "weight", {2, 1}, learner::Init::constant(0));
    const learner::Var bias = graph.param(line, "bias", {1}, learner::Init::constant(0));
    const learner::Var loss = mean(learner::square(sub(learner::linear(inputs["x"], weight, bias), inputs["y"])));
    graph.metric("loss", loss);
    if (trains_) graph.minimize(loss, line, context.wrap_optimizer({.rule = learner::Sgd{.learning_rate = 0.1}}));
  }

 private:
  bool trains_;
};

inline MakeReplica make_line(bool trains) {
  return [trains] { return Result<std::unique_ptr<learner::Replica>>(std::make_unique<Line>(trains)); };
}

inline ReplicaModel line_model() {
  return {.make = make_line(true),
          .make_evaluation = make_line(false),
          .evaluation_rows = [] { return Result<std::int64_t>(64); },
          .evaluation_batch = 32};
}

}  // namespace troupe::actors::testing
