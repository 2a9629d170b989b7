#include <troupe/learner/sngan/replica.hpp>

#include <cmath>
#include <utility>
#include <vector>

#include <troupe/core/rng.hpp>
#include <troupe/learner/ops/elementwise.hpp>
#include <troupe/learner/ops/joint.hpp>
#include <troupe/learner/ops/linear.hpp>
#include <troupe/learner/ops/losses.hpp>
#include <troupe/learner/ops/reduce.hpp>
#include <troupe/learner/ops/shaping.hpp>
#include <troupe/learner/sngan/networks.hpp>

namespace troupe::learner::sngan {
namespace {

constexpr std::int64_t kFeatures = 256;

/// Normal values of that deviation, the same in every evaluation there is.
Var random_constant(Graph& graph, const Shape& shape, double deviation, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(static_cast<std::size_t>(shape.elements()));
  for (float& value : values) value = static_cast<float>(deviation * rng.normal());
  return graph.constant(shape, std::move(values));
}

}  // namespace

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

SnganEvaluation::SnganEvaluation(Options options, InputFn input_fn)
    : options_(std::move(options)), input_fn_(std::move(input_fn)) {}

Result<std::unique_ptr<InputPipeline>> SnganEvaluation::input_fn(const InputContext& context) {
  TROUPE_TRY(validate(options_));
  return input_fn_(context);
}

void SnganEvaluation::step_fn(ReplicaContext& context, const StepInputs& inputs) {
  Graph& graph = context.graph();
  ParamGroup group = graph.group(kGeneratorGroup);
  if (options_.average_decay > 0) group = graph.average(group, options_.average_decay);
  // Pixels are about as far from 0 as 1, so projections have a deviation of some 1, and so have the biases.
  const double deviation = 1 / std::sqrt(static_cast<double>(options_.pixels));
  const Var weight = random_constant(graph, Shape{options_.pixels, kFeatures}, deviation, 1);
  const Var bias = random_constant(graph, Shape{kFeatures}, 1, 2);
  const auto mean_features = [&](Var images) {
    const Var flat = reshape(images, Shape{graph.batch(), options_.pixels});
    const Var features = linear(flat, weight, bias, Activation::kRelu);
    const Var ones = affine(slice(features, 0, 1), 0, 1);
    const Var sums = sum_shards(matmul(features, ones, true));
    return affine(sums, 1 / static_cast<double>(graph.batch()));
  };
  const Var fake = generator(graph, group, options_, inputs["noise"], {.training = false});
  graph.metric("feature_distance", mean(square(sub(mean_features(inputs["image"]), mean_features(fake)))));
}

}  // namespace troupe::learner::sngan
