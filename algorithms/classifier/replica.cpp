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

ClassifierReplica::ClassifierReplica(Options options, InputFn input_fn)
    : options_(std::move(options)), input_fn_(std::move(input_fn)) {}

Result<std::unique_ptr<InputPipeline>> ClassifierReplica::input_fn(const InputContext& context) {
  TROUPE_TRY(validate(options_));
  return input_fn_(context);  // graph operations check the columns that the step reads
}

void ClassifierReplica::step_fn(ReplicaContext& context, const StepInputs& inputs) {
  Graph& graph = context.graph();
  const ParamGroup group = graph.group(kGroup);
  const NetworkMode mode = training_mode(context, options_.sync_batch_norm);
  const Var logits = network(graph, group, options_, inputs["image"], mode);
  if (options_.average_decay > 0) graph.average(group, options_.average_decay);
  const DeviceScope last = context.device(context.devices() - 1);
  graph.minimize(judge(graph, options_, logits, inputs["label"]), group, context.wrap_optimizer(options_.optimizer));
}

ClassifierEvaluation::ClassifierEvaluation(Options options, InputFn input_fn)
    : options_(std::move(options)), input_fn_(std::move(input_fn)) {}

Result<std::unique_ptr<InputPipeline>> ClassifierEvaluation::input_fn(const InputContext& context) {
  TROUPE_TRY(validate(options_));
  return input_fn_(context);
}

void ClassifierEvaluation::step_fn(ReplicaContext& context, const StepInputs& inputs) {
  Graph& graph = context.graph();
  ParamGroup group = graph.group(kGroup);
  if (options_.average_decay > 0) group = graph.average(group, options_.average_decay);
  judge(graph, options_, network(graph, group, options_, inputs["image"], {.training = false}), inputs["label"]);
}

}  // namespace troupe::learner::classifier
