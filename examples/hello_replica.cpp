// A model of one's own, trained by any replicator: a replica says where its batches come from (input_fn) and what one
// step does (step_fn); how many run, where, and how their gradients meet is a word of the configuration:
//   hello_replica train hello_replica.toml
//   hello_replica train hello_replica.toml --set replicas.spirals.count=2 --set replicas.spirals.replicator=multi_device
// or multi_worker, also with --processes, or parameter_server. It has metrics, checkpoints and all of `troupe`.
#include <cmath>

#include <troupe/apps/main.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/ops/categorical.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/reduce.hpp>

using namespace troupe;           // NOLINT: an example reads better without prefixes
using namespace troupe::learner;  // NOLINT

// Points on three arms of a spiral, and which arm each is on. A batch depends on the step and on the row among all
// replicas' rows, so several replicas see what one would see.
class Spirals : public InputPipeline {
 public:
  explicit Spirals(const InputContext& context)
      : context_(context), step_(context.first_step), batch_(columns_, context.replica_batch) {}
  const Signature& signature() const override { return columns_; }
  Result<BatchView> next() override {
    const std::int64_t first = context_.replica_id * context_.global_batch / context_.replica_count;
    const auto point = batch_.mutable_view().as<float>(0), arm = batch_.mutable_view().as<float>(1);
    for (std::int64_t row = 0; row < context_.replica_batch; ++row) {
      Rng rng(derive_seed(1, "spirals", static_cast<std::uint64_t>(step_ * context_.global_batch + first + row)));
      const std::size_t i = static_cast<std::size_t>(row), which = rng.below(3);
      const double radius = rng.uniform(),
                   angle = 4 * radius + 2.0944 * static_cast<double>(which) + 0.2 * rng.normal();
      point[2 * i] = static_cast<float>(radius * std::cos(angle));
      point[2 * i + 1] = static_cast<float>(radius * std::sin(angle));
      for (std::size_t k = 0; k < 3; ++k) arm[3 * i + k] = k == which ? 1 : 0;
    }
    ++step_;
    return batch_.view();
  }

 private:
  const Signature columns_ = {{"point", DType::kF32, {2}}, {"arm", DType::kF32, {3}}};
  InputContext context_;
  std::int64_t step_;
  BatchBuffer batch_;
};

// Three arms, two hidden layers.
Var logits(Graph& graph, Var point) {
  const ParamGroup net = graph.group("net");
  const auto layer = [&](Var x, const std::string& name, std::int64_t in, std::int64_t out, Activation kind) {
    const Var weight = graph.param(net, name + "/weight", {in, out}, Init::normal(1 / std::sqrt(in)));
    return linear(x, weight, graph.param(net, name + "/bias", {out}, Init::constant(0)), kind);
  };
  const Var hidden = layer(point, "hidden", 2, 32, Activation::kElu);
  return layer(layer(hidden, "more", 32, 32, Activation::kElu), "logits", 32, 3, Activation::kNone);
}

void step_fn(ReplicaContext& context, const StepInputs& inputs) {
  Graph& graph = context.graph();
  const Var loss = mean(softmax_cross_entropy(logits(graph, inputs["point"]), inputs["arm"]));
  graph.metric("loss", loss);
  graph.minimize(loss, graph.group("net"), context.wrap_optimizer({.rule = Adam{.learning_rate = 1e-2}}));
}

Result<std::unique_ptr<InputPipeline>> input_fn(const InputContext& context) {
  return {std::make_unique<Spirals>(context)};
}

Result<actors::MakeModel> spirals(const ConfigSection&) {
  return actors::MakeModel([](const actors::ModelContext&) -> Result<actors::ReplicaModel> {
    actors::ReplicaModel model;
    model.make = [] { return make_replica(input_fn, step_fn); };
    model.inference = [](Graph& graph) { graph.output("logits", logits(graph, graph.input("point", {2}))); };
    return model;
  });
}

int main(int argc, char** argv) {
  Registry mine = shipped();
  mine.model("spirals", {.doc = "Which arm of a spiral a point is on", .make = spirals});
  return troupe::main(argc, argv, mine);
}
