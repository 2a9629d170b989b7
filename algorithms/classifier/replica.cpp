#include <troupe/algorithms/classifier/replica.hpp>

#include <utility>

#include <troupe/algorithms/classifier/network.hpp>
#include <troupe/learner/ops/losses.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner::classifier {
namespace {

/// The loss, with the metrics of both steps.
Var judge(Graph& graph, const Options& options, Var logits, Var label) {
  const Var loss = mean(label_cross_entropy(logits, label, options.label_smoothing));
  graph.metric("loss", loss);
  graph.metric("accuracy", mean(is_correct(logits, label)));
  return loss;
}

}  // namespace

std::unique_ptr<Replica> training(const Options& options, InputFn input) {
  const StepFn step = [options](ReplicaContext& context, const StepInputs& inputs) {
    Graph& graph = context.graph();
    const ParamGroup group = graph.group(kGroup);
    const NetworkMode mode = training_mode(context, options.sync_batch_norm);
    const Var logits = network(context, group, options, inputs["image"], mode);
    if (options.average_decay > 0) graph.average(group, options.average_decay);
    const DeviceScope last = context.device(context.devices() - 1);
    graph.minimize(judge(graph, options, logits, inputs["label"]), group, context.wrap_optimizer(options.optimizer));
  };
  return make_replica(std::move(input), step, validate(options));
}

std::unique_ptr<Replica> evaluation(const Options& options, InputFn input) {
  const StepFn step = [options](ReplicaContext& context, const StepInputs& inputs) {
    Graph& graph = context.graph();
    ParamGroup group = graph.group(kGroup);
    if (options.average_decay > 0) group = graph.average(group, options.average_decay);
    judge(graph, options, network(context, group, options, inputs["image"], {.training = false}), inputs["label"]);
  };
  return make_replica(std::move(input), step, validate(options));
}

}  // namespace troupe::learner::classifier
