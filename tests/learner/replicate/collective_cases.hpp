#pragma once
// Steps with one collective each, whose losses all weigh its result differently, so that every replica's gradient has
// a part of every other's. Used for all ways in which replicas meet.
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/joint.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/learner/replicate/replica.hpp>

namespace troupe::learner {

using collectives::ReduceOp;

inline const Signature kSignature = {{"x", DType::kF32, Shape{4}}};

/// Always the same rows of one global batch.
class Rows final : public InputPipeline {
 public:
  explicit Rows(const InputContext& context) : batch_(kSignature, context.global_batch) {
    Rng rng(11);
    for (float& x : batch_.mutable_view().as<float>(0)) x = static_cast<float>(rng.normal());
    const std::int64_t rows = context.global_batch, begin = rows * context.replica_id / context.replica_count;
    share_ = batch_.view().slice(begin, context.replica_batch);
  }
  const Signature& signature() const override { return kSignature; }
  Result<BatchView> next() override { return share_; }

 private:
  BatchBuffer batch_;
  BatchView share_;
};

/// local: [4], this replica's own (partial sum). rows: [batch, 1], its products. w: [4, 1].
struct Values {
  ReplicaContext& context;
  Var local, rows, w;
};
using Body = std::function<Var(const Values&)>;

class UsesOne final : public Replica {
 public:
  explicit UsesOne(Body body, double rate = 0) : body_(std::move(body)), rate_(rate) {}
  Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) override {
    return std::unique_ptr<InputPipeline>(std::make_unique<Rows>(context));
  }
  void step_fn(ReplicaContext& context, const StepInputs& inputs) override {
    Graph& graph = context.graph();
    const Var x = inputs["x"], w = graph.param(graph.group("model"), "w", Shape{4, 1}, Init::uniform(1));
    const Var h = tanh(matmul(x, w));
    const Var local = reshape(scale(matmul(x, h, true, false), 0.3), Shape{4});
    const Var y = body_({context, local, h, w});
    const Var weight = sum_stripes(mean(square(x)));  // of each replica its own
    const Var loss = add(mul(sum_all(square(y)), weight), mean(square(h)));
    graph.metric("loss", loss);
    graph.minimize(loss, graph.group("model"), context.wrap_optimizer({.rule = Sgd{.learning_rate = rate_}}));
  }

 private:
  static Var sum_all(Var y) { return y && y.graph->spec(y).place == Place::kRows ? sum_stripes(sum(y)) : sum(y); }
  Body body_;
  double rate_;
};

struct Case {
  std::string name;
  Body body;
  std::int64_t rows = 7;  // uneven shares
};
inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// One for each collective, forward and backward.
inline std::vector<Case> cases() {
  const auto items = [](const Values& v) {
    std::vector<Var> made;
    for (int i = 0; i < 5; ++i) made.push_back(scale(reshape(v.w, Shape{4}), 0.4 * (i + 1)));
    return made;
  };
  const auto fn = [](Var item) { return add(tanh(item), scale(square(item), 0.3)); };
  std::vector<Case> all;
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin}) {
    const std::string name(to_string(op));
    all.push_back({"all_reduce_" + name, [op](const Values& v) { return v.context.all_reduce(v.local, op, "named"); }});
    all.push_back({"map_reduce_" + name, [=](const Values& v) { return v.context.map_reduce(items(v), fn, op); }});
  }
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
    all.push_back({"reduce_scatter_" + std::string(to_string(op)), [op](const Values& v) {
                     // As many rows as replicas, each another multiple.
                     Var rows;
                     const Var flat = reshape(sum_stripes(v.local), Shape{1, 4});
                     for (int r = 0; r < v.context.input().replica_count; ++r) {
                       const Var next = scale(flat, r + 1);
                       rows = rows ? concat(rows, next) : next;
                     }
                     return v.context.reduce_scatter(reshape(rows, Shape{v.context.input().replica_count, 4}), op);
                   }});
  }
  all.push_back({"all_gather", [](const Values& v) { return v.context.all_gather(v.local); }});
  all.push_back({"all_gather_rows", [](const Values& v) { return tanh(v.context.all_gather(v.rows)); }, 6});
  all.push_back(
      {"broadcast", [](const Values& v) { return v.context.broadcast(v.local, v.context.input().replica_count - 1); }});
  all.push_back({"map_gather", [=](const Values& v) { return v.context.map_gather(items(v), fn); }});
  return all;
}

}  // namespace troupe::learner
