#include <troupe/algorithms/resnet/replica.hpp>

#include <utility>

#include <troupe/algorithms/resnet/network.hpp>
#include <troupe/learner/ops/losses.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner::resnet {

ResnetReplica::ResnetReplica(Options options, InputFn input_fn)
    : options_(std::move(options)), input_fn_(std::move(input_fn)) {}

Result<std::unique_ptr<InputPipeline>> ResnetReplica::input_fn(const InputContext& context) {
  TROUPE_TRY(validate(options_));
  return input_fn_(context);  // graph operations check the columns that the step reads
}

void ResnetReplica::step_fn(ReplicaContext& context, const StepInputs& inputs) {
  Graph& graph = context.graph();
  const ParamGroup group = graph.group(kGroup);
  const NetworkMode mode = training_mode(context, options_.sync_batch_norm);
  const Var logits = network(graph, group, options_, inputs["image"], mode);
  if (options_.average_decay > 0) graph.average(group, options_.average_decay);
  const DeviceScope last = context.device(context.devices() - 1);
  const Var loss = mean(label_cross_entropy(logits, inputs["label"], options_.label_smoothing));
  graph.metric("loss", loss);
  graph.metric("accuracy", mean(is_correct(logits, inputs["label"])));
  graph.minimize(loss, group, context.wrap_optimizer(options_.optimizer));
}

ResnetEvaluation::ResnetEvaluation(Options options, InputFn input_fn)
    : options_(std::move(options)), input_fn_(std::move(input_fn)) {}

Result<std::unique_ptr<InputPipeline>> ResnetEvaluation::input_fn(const InputContext& context) {
  TROUPE_TRY(validate(options_));
  return input_fn_(context);
}

void ResnetEvaluation::step_fn(ReplicaContext& context, const StepInputs& inputs) {
  Graph& graph = context.graph();
  ParamGroup group = graph.group(kGroup);
  if (options_.average_decay > 0) group = graph.average(group, options_.average_decay);
  const Var logits = network(graph, group, options_, inputs["image"], {.training = false});
  const Var label = inputs["label"];
  graph.metric("loss", mean(label_cross_entropy(logits, label)));
  graph.metric("accuracy", mean(is_correct(logits, label)));
  if (options_.classes > 5) graph.metric("top5_accuracy", mean(is_in_top(logits, label, 5)));
}

}  // namespace troupe::learner::resnet
