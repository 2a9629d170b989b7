#include <troupe/algorithms/resnet/replica.hpp>

#include <utility>

#include <troupe/algorithms/resnet/network.hpp>
#include <troupe/learner/ops/losses.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner::resnet {

std::unique_ptr<Replica> training(const Options& options, InputFn input) {
  const StepFn step = [options](ReplicaContext& context, const StepInputs& inputs) {
    Graph& graph = context.graph();
    const ParamGroup group = graph.group(kGroup);
    const NetworkMode mode = training_mode(context, options.sync_batch_norm);
    const Var logits = network(graph, group, options, inputs["image"], mode);
    if (options.average_decay > 0) graph.average(group, options.average_decay);
    const DeviceScope last = context.device(context.devices() - 1);
    const Var loss = mean(label_cross_entropy(logits, inputs["label"], options.label_smoothing));
    graph.metric("loss", loss);
    graph.metric("accuracy", mean(is_correct(logits, inputs["label"])));
    graph.minimize(loss, group, context.wrap_optimizer(options.optimizer));
  };
  return make_replica(std::move(input), step, validate(options));
}

std::unique_ptr<Replica> evaluation(const Options& options, InputFn input) {
  const StepFn step = [options](ReplicaContext& context, const StepInputs& inputs) {
    Graph& graph = context.graph();
    ParamGroup group = graph.group(kGroup);
    if (options.average_decay > 0) group = graph.average(group, options.average_decay);
    const Var logits = network(graph, group, options, inputs["image"], {.training = false});
    const Var label = inputs["label"];
    graph.metric("loss", mean(label_cross_entropy(logits, label)));
    graph.metric("accuracy", mean(is_correct(logits, label)));
    if (options.classes > 5) graph.metric("top5_accuracy", mean(is_in_top(logits, label, 5)));
  };
  return make_replica(std::move(input), step, validate(options));
}

}  // namespace troupe::learner::resnet
