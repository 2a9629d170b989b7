#include <troupe/learner/sngan/replica.hpp>

#include <utility>

#include <troupe/learner/ops/losses.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/sngan/networks.hpp>

namespace troupe::learner::sngan {

SnganReplica::SnganReplica(Options options, InputFn input_fn)
    : options_(std::move(options)), input_fn_(std::move(input_fn)) {}

Result<std::unique_ptr<InputPipeline>> SnganReplica::input_fn(const InputContext& context) {
  TROUPE_TRY(validate(options_));
  return input_fn_(context);  // graph operations check the columns that the step reads
}

void SnganReplica::step_fn(ReplicaContext& context, const StepInputs& inputs) {
  Graph& graph = context.graph();
  const ParamGroup generator_group = graph.group(kGeneratorGroup);
  const ParamGroup discriminator_group = graph.group(kDiscriminatorGroup);
  GeneratorMode mode;
  if (options_.sync_batch_norm) mode.all_sum = [&](Var x) { return context.all_sum(x); };
  mode.shared = [&](Var state) { context.set_policy(state, VariablePolicy::kSync); };

  const Discriminator discriminator(graph, discriminator_group, options_, true);
  for (const Var u : discriminator.state()) mode.shared(u);
  const Var real = discriminator(inputs["image"]);
  const Var fake = discriminator(generator(graph, generator_group, options_, inputs["noise"], mode));
  const Var discriminator_loss = hinge_discriminator(real, fake), generator_loss = hinge_generator(fake);
  graph.metric("discriminator_loss", discriminator_loss);
  graph.metric("generator_loss", generator_loss);
  graph.metric("real_logit", mean(real));
  graph.metric("fake_logit", mean(fake));

  if (options_.average_decay > 0) graph.average(generator_group, options_.average_decay);
  OptimizerSpec optimizer{.rule = options_.optimizer, .schedule = options_.schedule};
  graph.minimize(discriminator_loss, discriminator_group, context.wrap_optimizer(optimizer));
  optimizer.every_steps = options_.n_dis;
  graph.minimize(generator_loss, generator_group, context.wrap_optimizer(optimizer));
}

}  // namespace troupe::learner::sngan
