#pragma once
// A problem with a known optimum: y = x [2, -3, 0.5, ...]^T + 1 without noise, in rows that follow from the worker and
// the number of the batch alone.
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner::testing {

inline constexpr std::int64_t kFeatures = 5;
inline constexpr float kSlopes[kFeatures] = {2, -3, 0.5, 1, -1};
inline constexpr float kIntercept = 1;

class LineInput final : public InputPipeline {
 public:
  explicit LineInput(const InputContext& context)
      : worker_(context.replica_id),
        next_(context.first_step),
        batch_({{"x", DType::kF32, {kFeatures}}, {"y", DType::kF32, {1}}}, context.replica_batch) {}
  const Signature& signature() const override { return *batch_.view().signature; }
  Result<BatchView> next() override {
    Rng rng(static_cast<std::uint64_t>(1000 * next_++ + worker_));
    const auto x = batch_.mutable_view().as<float>(0), y = batch_.mutable_view().as<float>(1);
    for (std::size_t row = 0; row < y.size(); ++row) {
      y[row] = kIntercept;
      for (std::size_t i = 0; i < kFeatures; ++i) {
        x[row * kFeatures + i] = static_cast<float>(2 * rng.uniform() - 1);
        y[row] += kSlopes[i] * x[row * kFeatures + i];
      }
    }
    return batch_.view();
  }

 private:
  int worker_;
  std::int64_t next_;
  BatchBuffer batch_;
};

class LineReplica final : public Replica {
 public:
  explicit LineReplica(OptimizerSpec optimizer, std::function<void(Graph&, ParamGroup)> more = {})
      : optimizer_(std::move(optimizer)), more_(std::move(more)) {}
  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override {
    return std::unique_ptr<InputPipeline>(std::make_unique<LineInput>(context));
  }
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    Graph& graph = context.graph();
    const ParamGroup line = graph.group("line");
    const Var weight = graph.param(line, "weight", {kFeatures, 1}, Init::uniform(0.5));
    const Var bias = graph.param(line, "bias", {1}, Init::constant(0));
    const Var loss = mean(square(sub(linear(inputs["x"], weight, bias), inputs["y"])));
    graph.minimize(loss, line, context.wrap_optimizer(optimizer_));
    graph.metric("loss", loss);
    if (more_) more_(graph, line);
  }

 private:
  OptimizerSpec optimizer_;
  std::function<void(Graph&, ParamGroup)> more_;
};

}  // namespace troupe::learner::testing
