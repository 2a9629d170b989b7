#include <troupe/actors/shipped_models.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include <troupe/actors/image_input.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/data/images.hpp>
#include <troupe/learner/classifier/replica.hpp>
#include <troupe/learner/resnet/replica.hpp>
#include <troupe/learner/sngan/judge.hpp>
#include <troupe/learner/sngan/replica.hpp>

namespace troupe::actors {
namespace {

constexpr data::SyntheticImages kSynthetic = {.count = 4000, .noise = 90};
constexpr std::int64_t kClasses = 10;  // of either set
constexpr data::SyntheticImages kSyntheticTest = {.count = 1000, .noise = 90};

/// Images of a split, loaded when somebody asks for them first. Replicas ask
/// from threads of their own.
class LazyImages {
 public:
  LazyImages(std::string source, data::Split split, std::uint64_t seed)
      : source_(std::move(source)), split_(split), seed_(seed) {}

  Result<std::shared_ptr<const data::Dataset>> get() {
    const std::lock_guard lock(mutex_);
    if (images_ != nullptr) return images_;
    if (source_ == "synthetic") {
      images_ = data::synthetic_images(split_ == data::Split::kTrain ? kSynthetic : kSyntheticTest, split_, seed_);
    } else {
      TROUPE_ASSIGN(images_, data::load_fashion_mnist(split_));
    }
    return images_;
  }

 private:
  const std::string source_;
  const data::Split split_;
  const std::uint64_t seed_;
  std::mutex mutex_;
  std::shared_ptr<const data::Dataset> images_;
};

learner::InputFn images_of(const std::string& source, data::Split split, std::uint64_t seed,
                           const ImageInputOptions& options) {
  auto lazy = std::make_shared<LazyImages>(source, split, derive_seed(seed, "images", 0));
  return [lazy, options](const learner::InputContext& context) -> Result<std::unique_ptr<learner::InputPipeline>> {
    TROUPE_ASSIGN(auto images, lazy->get());
    return image_input(std::move(images), options, context);
  };
}

/// Of the images that evaluators look at.
std::int64_t test_rows(const ReplicaModelOptions& options) {
  return options.data == "synthetic" ? kSyntheticTest.count : 10'000;
}

/// The schedule of a group that takes `steps` steps.
learner::Schedule schedule_of(const ReplicaModelOptions& options, std::int64_t steps) {
  using Kind = learner::Schedule::Kind;
  learner::Schedule schedule;
  schedule.warmup_steps = std::min(options.warmup_steps, steps - 1);
  if (options.schedule == "cosine" || options.schedule == "linear") {
    schedule.kind = options.schedule == "cosine" ? Kind::kCosine : Kind::kLinear;
    schedule.total_steps = steps;
  } else if (options.schedule == "step") {  // a tenth, and a hundredth, for the last two quarters
    schedule.kind = Kind::kStep;
    schedule.boundaries = {std::max<std::int64_t>(steps / 2, 1), std::max<std::int64_t>(steps * 3 / 4, 2)};
  }
  return schedule;
}

learner::OptimizerSpec optimizer_of(const ReplicaModelOptions& options, std::int64_t steps) {
  learner::OptimizerSpec spec;
  if (options.optimizer == "sgd") {
    spec.rule = learner::Sgd{.learning_rate = options.learning_rate,
                             .momentum = options.momentum,
                             .nesterov = options.momentum > 0,
                             .weight_decay = options.weight_decay};
  } else {
    spec.rule = learner::Adam{.learning_rate = options.learning_rate, .weight_decay = options.weight_decay};
  }
  spec.schedule = schedule_of(options, steps);
  return spec;
}

ReplicaModel classifier(const ReplicaModelOptions& options, const ReplicaGroupOptions& group) {
  const bool synthetic = options.data == "synthetic";
  learner::classifier::Options network;
  if (synthetic) network.features = kSynthetic.height * kSynthetic.width;
  network.sizes = options.layers;
  network.optimizer = optimizer_of(options, group.steps);
  network.average_decay = options.ema_decay;
  const auto train = images_of(options.data, data::Split::kTrain, group.seed, {.seed = group.seed});
  const auto test = images_of(options.data, data::Split::kTest, group.seed, {.shuffle = false});
  ReplicaModel model;
  model.make = [network, train] {
    return Result<std::unique_ptr<learner::Replica>>(
        std::make_unique<learner::classifier::ClassifierReplica>(network, train));
  };
  model.make_evaluation = [network, test] {
    return Result<std::unique_ptr<learner::Replica>>(
        std::make_unique<learner::classifier::ClassifierEvaluation>(network, test));
  };
  model.evaluation_rows = test_rows(options);
  model.evaluation_batch = 500;
  return model;
}

ReplicaModel sngan(const ReplicaModelOptions& options, const ReplicaGroupOptions& group) {
  learner::sngan::Options network;
  if (options.data == "synthetic") network.image = {kSynthetic.height, kSynthetic.width, 1};
  if (options.network == "resnet") network.network = learner::sngan::Network::kResnet;
  network.classes = options.conditional ? kClasses : 0;
  network.generator_width = options.width;
  network.discriminator_width = options.discriminator_width;
  network.noise_size = options.noise_size;
  network.n_dis = options.n_dis;
  network.generator_sizes = options.layers;
  network.discriminator_sizes.assign(options.layers.rbegin(), options.layers.rend());
  network.optimizer.learning_rate = options.learning_rate;
  network.schedule = schedule_of(options, group.steps);
  network.average_decay = options.ema_decay;
  const auto train = images_of(options.data, data::Split::kTrain, group.seed,
                               {.seed = group.seed, .noise = {"noise"}, .noise_size = network.noise_size});
  ReplicaModel model;
  model.make = [network, train] {
    return Result<std::unique_ptr<learner::Replica>>(std::make_unique<learner::sngan::SnganReplica>(network, train));
  };
  model.evaluation_rows = std::min(options.evaluation_images, test_rows(options));
  model.evaluation_batch =
      options.network == "resnet" ? 50 : 500;  // a batch a step of the evaluator, which stays short
  model.make_evaluation = [network, images = model.evaluation_rows, seed = group.seed] {
    return Result<std::unique_ptr<learner::Replica>>(
        std::make_unique<learner::sngan::SnganEvaluation>(network, images, seed));
  };
  // Its own seed, so that runs of several seeds are judged alike.
  const learner::sngan::JudgeOptions judge = {.classifier = {.image = network.image, .classes = kClasses, .seed = 1},
                                              .images = model.evaluation_rows};
  const auto judge_train = images_of(options.data, data::Split::kTrain, group.seed, {.seed = 1});
  const auto judge_test = images_of(options.data, data::Split::kTest, group.seed, {.shuffle = false});
  model.make_judge = [judge, judge_train, judge_test] {
    return Result<std::unique_ptr<learner::Judge>>(
        std::make_unique<learner::sngan::SnganJudge>(judge, judge_train, judge_test));
  };
  return model;
}

Result<ReplicaModel> resnet(const ReplicaModelOptions& options, const ReplicaGroupOptions& group) {
  TROUPE_ASSIGN(learner::resnet::Options network, learner::resnet::of_depth(options.depth));
  network.variant = options.variant == "v1" ? learner::resnet::Variant::kV1 : learner::resnet::Variant::kV1_5;
  const bool synthetic = options.data == "synthetic";
  network.height = synthetic ? kSynthetic.height : 28;
  network.width = synthetic ? kSynthetic.width : 28;
  network.channels = 1;
  network.classes = 10;
  network.sync_batch_norm = options.sync_batch_norm;
  network.label_smoothing = options.label_smoothing;
  network.optimizer = optimizer_of(options, group.steps);
  network.average_decay = options.ema_decay;
  const auto train = images_of(options.data, data::Split::kTrain, group.seed, {.seed = group.seed});
  const auto test = images_of(options.data, data::Split::kTest, group.seed, {.shuffle = false});
  ReplicaModel model;
  model.make = [network, train] {
    return Result<std::unique_ptr<learner::Replica>>(std::make_unique<learner::resnet::ResnetReplica>(network, train));
  };
  model.make_evaluation = [network, test] {
    return Result<std::unique_ptr<learner::Replica>>(
        std::make_unique<learner::resnet::ResnetEvaluation>(network, test));
  };
  model.evaluation_rows = test_rows(options);
  model.evaluation_batch = network.imagenet ? 50 : 250;
  return model;
}

}  // namespace

Result<ReplicaModel> shipped_model(const ReplicaModelOptions& options, const ReplicaGroupOptions& group) {
  if (options.model == "classifier") return classifier(options, group);
  if (options.model == "sngan") return sngan(options, group);
  if (options.model == "resnet") return resnet(options, group);
  return Error{Code::kInvalidArgument, fmt::format("replicas.{}.model: unknown \"{}\"", group.name, options.model)};
}

}  // namespace troupe::actors
