#include <troupe/algorithms/sngan/replica.hpp>

#include <utility>

#include <troupe/algorithms/sngan/networks.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/learner/ops/losses.hpp>
#include <troupe/learner/ops/reduce.hpp>

namespace troupe::learner::sngan {
namespace {

/// Normal noise, and labels that go round, the same again from the start after so many batches.
class EvaluationNoise final : public InputPipeline {
 public:
  EvaluationNoise(const Options& options, std::int64_t images, std::uint64_t seed, std::int64_t batch)
      : signature_(noise_signature(options)),
        classes_(options.classes),
        buffer_(signature_, batch),
        batches_((images + batch - 1) / batch),
        seed_(seed) {}
  const Signature& signature() const override { return signature_; }
  Result<BatchView> next() override {
    Rng rng(derive_seed(seed_, "evaluation noise", static_cast<std::uint64_t>(next_)));
    for (float& value : buffer_.mutable_view().as<float>(0)) value = static_cast<float>(rng.normal());
    if (classes_ > 0) {
      const auto label = buffer_.mutable_view().as<std::int32_t>(1);
      std::int64_t image = next_ * buffer_.view().rows;
      for (std::int32_t& of_row : label) of_row = static_cast<std::int32_t>(image++ % classes_);
    }
    next_ = (next_ + 1) % batches_;
    return buffer_.view();
  }

 private:
  const Signature signature_;
  std::int64_t classes_;
  BatchBuffer buffer_;
  std::int64_t batches_, next_ = 0;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<Replica> training(const Options& options, InputFn input) {
  const StepFn step = [options](ReplicaContext& context, const StepInputs& inputs) {
    Graph& graph = context.graph();
    const ParamGroup generator_group = graph.group(kGeneratorGroup);
    const ParamGroup discriminator_group = graph.group(kDiscriminatorGroup);
    const NetworkMode mode = training_mode(context, options.sync_batch_norm);

    // Fakes are of the classes that the real images are of, which come as often as in the data.
    const Var label = options.classes > 0 ? inputs["label"] : Var{};
    NormalisedLayers layers(graph, discriminator_group, true);
    const Var real = discriminator(layers, options, inputs["image"], label);
    const Var made = generator(graph, generator_group, options, inputs["noise"], label, mode);
    const Var fake = discriminator(layers, options, made, label);
    for (const Var u : layers.state()) context.set_policy(u, VariablePolicy::kSync);
    const Var discriminator_loss = hinge_discriminator(real, fake), generator_loss = hinge_generator(fake);
    graph.metric("discriminator_loss", discriminator_loss);
    graph.metric("generator_loss", generator_loss);
    graph.metric("real_logit", mean(real));
    graph.metric("fake_logit", mean(fake));

    if (options.average_decay > 0) graph.average(generator_group, options.average_decay);
    graph.minimize(discriminator_loss, discriminator_group, context.wrap_optimizer(options.optimizer));
    graph.minimize(generator_loss, generator_group, context.wrap_optimizer(generator_optimizer(options)));
  };
  return make_replica(std::move(input), step, validate(options));
}

std::unique_ptr<Replica> evaluation(const Options& options, std::int64_t images, std::uint64_t seed) {
  const InputFn input = [=](const InputContext& context) -> Result<std::unique_ptr<InputPipeline>> {
    return {std::make_unique<EvaluationNoise>(options, images, seed, context.replica_batch)};
  };
  const StepFn step = [options](ReplicaContext& context, const StepInputs& inputs) {
    Graph& graph = context.graph();
    ParamGroup group = graph.group(kGeneratorGroup);
    if (options.average_decay > 0) group = graph.average(group, options.average_decay);
    const Var label = options.classes > 0 ? inputs["label"] : Var{};
    graph.output(kImages, generator(graph, group, options, inputs["noise"], label, {.training = false}));
  };
  return make_replica(input, step, validate(options));
}

}  // namespace troupe::learner::sngan
