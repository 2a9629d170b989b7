#include <troupe/algorithms/sngan/adversaries.hpp>

#include <utility>

#include <troupe/algorithms/sngan/networks.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/ops/losses.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner::sngan {
namespace {

class NoiseInput final : public InputPipeline {
 public:
  NoiseInput(const Options& options, std::uint64_t seed, const InputContext& context)
      : signature_(noise_signature(options)),
        classes_(options.classes),
        seed_(seed),
        context_(context),
        step_(context.first_step),
        buffer_(signature_, context.replica_batch) {}

  const Signature& signature() const override { return signature_; }
  Result<BatchView> next() override {
    const std::int64_t begin =
        step_++ * context_.global_batch + context_.replica_id * context_.global_batch / context_.replica_count;
    const std::span<float> noise = buffer_.mutable_view().as<float>(0);
    const auto rows = static_cast<std::size_t>(context_.replica_batch);
    const std::size_t size = noise.size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      Rng rng(derive_seed(seed_, "noise", static_cast<std::uint64_t>(begin) + row));
      for (float& x : noise.subspan(row * size, size)) x = static_cast<float>(rng.normal());
      if (classes_ == 0) continue;
      buffer_.mutable_view().as<std::int32_t>(1)[row] =
          static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(classes_)));
    }
    return buffer_.view();
  }

 private:
  const Signature signature_;
  const std::int64_t classes_;
  const std::uint64_t seed_;
  const InputContext context_;
  std::int64_t step_;
  BatchBuffer buffer_;
};

}  // namespace

Signature fakes_signature(const Options& options) {
  Signature columns = {{kFakes, DType::kF32, options.image}};
  if (options.classes > 0) columns.push_back({kFakeLabels, DType::kI32, Shape{}});
  return columns;
}

InputFn noise_input(const Options& options, std::uint64_t seed) {
  return [options, seed](const InputContext& context) -> Result<std::unique_ptr<InputPipeline>> {
    return {std::make_unique<NoiseInput>(options, seed, context)};
  };
}

std::unique_ptr<Replica> generator_training(const Options& options, InputFn input) {
  const StepFn step = [options](ReplicaContext& context, const StepInputs& inputs) {
    Graph& graph = context.graph();
    const ParamGroup generator_group = graph.group(kGeneratorGroup);
    const ParamGroup discriminator_group = graph.group(kDiscriminatorGroup);
    const NetworkMode mode = training_mode(context, options.sync_batch_norm);

    const Var label = options.classes > 0 ? inputs["label"] : Var{};
    const Var fakes = generator(graph, generator_group, options, inputs["noise"], label, mode);
    NormalisedLayers layers(graph, discriminator_group, false);
    const Var logits = discriminator(layers, options, fakes, label);
    context.set_policy(discriminator_group, VariablePolicy::kLocal);
    const Var loss = hinge_generator(logits);
    graph.output(kFakes, fakes);
    graph.metric("generator_loss", loss);
    graph.metric("fake_logit", mean(logits));

    if (options.average_decay > 0) graph.average(generator_group, options.average_decay);
    graph.minimize(loss, generator_group, context.wrap_optimizer(generator_optimizer(options)));
  };
  return make_replica(std::move(input), step, validate(options));
}

std::unique_ptr<Replica> discriminator_training(const Options& options, InputFn input) {
  const StepFn step = [options](ReplicaContext& context, const StepInputs& inputs) {
    Graph& graph = context.graph();
    const ParamGroup group = graph.group(kDiscriminatorGroup);
    const bool labels = options.classes > 0;
    NormalisedLayers layers(graph, group, true);
    const Var real = discriminator(layers, options, inputs["image"], labels ? inputs["label"] : Var{});
    const Var fake = discriminator(layers, options, inputs[kFakes], labels ? inputs[kFakeLabels] : Var{});
    for (const Var u : layers.state()) context.set_policy(u, VariablePolicy::kSync);
    const Var loss = hinge_discriminator(real, fake);
    graph.metric("discriminator_loss", loss);
    graph.metric("real_logit", mean(real));
    graph.metric("fake_logit", mean(fake));
    graph.minimize(loss, group, context.wrap_optimizer(options.optimizer));
  };
  return make_replica(std::move(input), step, validate(options));
}

}  // namespace troupe::learner::sngan
