#pragma once
// Replicas for tests of how they meet: one that clips and has collectives in its step, the same with batches that break
// it, and with parameters and state of every policy.
#include <gtest/gtest.h>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/learner/engine/program.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/learner/replicate/replica.hpp>
#include <troupe/tests/algorithms/d4pg/batches.hpp>

namespace troupe::learner {

inline constexpr std::int64_t kRows = 32;

/// Global batches that are the same however many replicas share them; `lengths` cuts a replica's rows short.
class Batches final : public InputPipeline {
 public:
  Batches(Signature signature, const InputContext& context, std::vector<std::int64_t> lengths)
      : signature_(std::move(signature)), context_(context), lengths_(std::move(lengths)) {
    step_ = context.first_step;
  }
  const Signature& signature() const override { return signature_; }
  Result<BatchView> next() override {
    if (step_ >= 100) return Error{Code::kOutOfRange, "the end"};
    Rng rng(derive_seed(3, "batch", static_cast<std::uint64_t>(step_++)));
    batch_ = std::make_unique<BatchBuffer>(signature_, context_.global_batch);
    d4pg::fill_random(rng, *batch_);
    const std::int64_t rows = context_.global_batch, id = context_.replica_id, count = context_.replica_count;
    const std::int64_t begin = rows * id / count, end = rows * (id + 1) / count;
    if (lengths_.empty()) return batch_->view().slice(begin, end - begin);
    return batch_->view().slice(begin, lengths_[static_cast<std::size_t>(id)]);
  }

 private:
  Signature signature_;
  InputContext context_;
  std::vector<std::int64_t> lengths_;
  std::unique_ptr<BatchBuffer> batch_;
  std::int64_t step_ = 0;
};

/// A network whose rows meet all others in the middle of the step, as in a batch norm over replicas, with an optimiser
/// that clips and a loss on the parameters.
class Mlp : public Replica {
 public:
  explicit Mlp(std::vector<std::int64_t> lengths = {}) : lengths_(std::move(lengths)) {}
  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override {
    return std::unique_ptr<InputPipeline>(std::make_unique<Batches>(signature(), context, lengths_));
  }
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    Graph& graph = context.graph();
    const ParamGroup group = graph.group("net");
    const auto param = [&](const char* name, Shape shape) {
      return graph.param(group, name, shape, Init::uniform(0.4));
    };
    const Var h = linear(inputs["observation"], param("0/weight", {6, 16}), param("0/bias", {16}), Activation::kTanh);
    const Var ones = graph.constant(Shape{16, 1}, std::vector<float>(16, 1.0F / 16));
    const Var centre = context.all_mean(mean(matmul(h, ones)), "centre");
    const Var total = context.all_sum(sum(square(h)), "total");
    const Var rows = context.all_sum(count_rows(graph), "rows");
    const Var y = bias_activation(matmul(h, param("1/weight", {16, 1})), reshape_scalar(scale(centre, -1)));
    const Var weight = param("2/weight", {8, 1});
    const Var loss = add(add(mean(square(y)), scale(sum(square(weight)), 0.05)), scale(mul(total, total), 1e-7));
    graph.metric("loss", loss);
    graph.metric("rows", rows);
    graph.minimize(loss, group, context.wrap_optimizer({.rule = Adam{.learning_rate = 1e-2}, .max_global_norm = 0.3}));
  }
  static Signature signature() { return {{"observation", DType::kF32, Shape{6}}}; }

 private:
  static Var reshape_scalar(Var x) { return reshape(x, Shape{1}); }
  std::vector<std::int64_t> lengths_;
};

inline std::vector<float> all_values(Program& program) {
  std::vector<float> values;
  for (std::size_t g = 0; g < program.group_count(); ++g) {
    const auto group = program.group(g).values();
    values.insert(values.end(), group.begin(), group.end());
  }
  return values;
}

/// Relative.
inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double squares = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(squares / size);
}

/// One replica's batches are broken from its step 2 on.
class Broken final : public Mlp {
 public:
  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override {
    class Pipeline final : public InputPipeline {
     public:
      Pipeline(std::unique_ptr<InputPipeline> of, int id) : of_(std::move(of)), id_(id) {}
      const Signature& signature() const override { return of_->signature(); }
      Result<BatchView> next() override {
        auto batch = of_->next();
        if (id_ == 1 && ++steps_ > 2) {
          auto* x = reinterpret_cast<float*>(const_cast<std::byte*>(batch->columns[0].data()));
          x[3] = std::numeric_limits<float>::quiet_NaN();
        }
        return batch;
      }

     private:
      std::unique_ptr<InputPipeline> of_;
      int id_, steps_ = 0;
    };
    return std::unique_ptr<InputPipeline>(
        std::make_unique<Pipeline>(Mlp::input_fn(context).value(), context.replica_id));
  }
};

/// One parameter of its own, one that follows rank 0's, and an average in the state that all share.
class Policies final : public Mlp {
 public:
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    Mlp::step_fn(context, inputs);
    Graph& graph = context.graph();
    const ParamGroup group = graph.group("own");
    const Var local = graph.param(group, "local", Shape{6, 1}, Init::uniform(1));
    const Var follows = graph.param(group, "follows", Shape{6, 1}, Init::uniform(1));
    context.set_policy(local, VariablePolicy::kLocal);
    context.set_policy(follows, VariablePolicy::kBroadcast);
    const Var x = inputs["observation"];
    graph.minimize(mean(square(add(matmul(x, local), square(matmul(x, follows))))), group,
                   context.wrap_optimizer({.rule = Sgd{.learning_rate = 0.01}}));
    const Var average = graph.state("average", {}, Init::constant(0)),
              mine = graph.state("mine", {}, Init::constant(0));
    context.set_policy(average, VariablePolicy::kSync);
    context.assign(average, mean(x));
    context.assign(mine, mean(x));
  }
};

}  // namespace troupe::learner
