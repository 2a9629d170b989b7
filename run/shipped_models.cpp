#include <troupe/run/shipped_models.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include <troupe/algorithms/classifier/network.hpp>
#include <troupe/algorithms/classifier/replica.hpp>
#include <troupe/algorithms/resnet/network.hpp>
#include <troupe/algorithms/resnet/replica.hpp>
#include <troupe/algorithms/sngan/adversaries.hpp>
#include <troupe/algorithms/sngan/judge.hpp>
#include <troupe/algorithms/sngan/networks.hpp>
#include <troupe/algorithms/sngan/replica.hpp>
#include <troupe/run/image_source.hpp>

namespace troupe::actors {
namespace {

/// How many images evaluators look at.
std::function<Result<std::int64_t>()> test_rows(const std::shared_ptr<ImageSource>& images,
                                                std::int64_t at_most = std::numeric_limits<std::int64_t>::max()) {
  return [images, at_most]() -> Result<std::int64_t> {
    TROUPE_ASSIGN(const auto reader, images->reader(data::Split::kTest));
    return std::min(reader->dataset().count(), at_most);
  };
}

using MadeReplica = Result<std::unique_ptr<learner::Replica>>;

/// The network that users run, in the size that its data asks for.
template <typename Options>
std::function<void(learner::Graph&)> inference_of(std::function<Result<Options>(data::Split)> fitted,
                                                  void (*network)(learner::Graph&, const Options&)) {
  return [fitted = std::move(fitted), network](learner::Graph& graph) {
    const auto made = fitted(data::Split::kTest);
    if (!made.ok()) {
      graph.fail(made.error().code, made.error().message);
      return;
    }
    network(graph, *made);
  };
}

ReplicaModel classifier(const ReplicaModelOptions& options, const ReplicaGroupOptions& group) {
  learner::classifier::Options network;
  network.sizes = options.layers;
  network.optimizer = options.optimizer;
  network.average_decay = options.ema_decay;
  const auto images = std::make_shared<ImageSource>(options, group.seed);
  const auto fitted = [network, images](data::Split split) -> Result<learner::classifier::Options> {
    TROUPE_ASSIGN(const auto reader, images->reader(split));
    learner::classifier::Options made = network;
    made.features = reader->shape().elements();
    made.classes = reader->dataset().classes();
    return made;
  };
  ReplicaModel model;
  model.make = [fitted, images]() -> MadeReplica {
    TROUPE_ASSIGN(auto made, fitted(data::Split::kTrain));
    return {std::make_unique<learner::classifier::ClassifierReplica>(made, images->input(data::Split::kTrain))};
  };
  model.make_evaluation = [fitted, images]() -> MadeReplica {
    TROUPE_ASSIGN(auto made, fitted(data::Split::kTest));
    return {std::make_unique<learner::classifier::ClassifierEvaluation>(made, images->input(data::Split::kTest))};
  };
  model.evaluation_rows = test_rows(images);
  model.evaluation_batch = 500;
  model.inference = inference_of<learner::classifier::Options>(fitted, learner::classifier::inference);
  return model;
}

ReplicaModel sngan(const ReplicaModelOptions& options, const ReplicaGroupOptions& group) {
  learner::sngan::Options network;
  if (options.network == "resnet") network.network = learner::sngan::Network::kResnet;
  network.generator_width = options.width;
  network.discriminator_width = options.discriminator_width;
  network.noise_size = options.noise_size;
  network.n_dis = options.n_dis;
  network.sync_batch_norm = options.sync_batch_norm;
  network.generator_sizes = options.layers;
  network.discriminator_sizes.assign(options.layers.rbegin(), options.layers.rend());
  // Of the rule, Adam with the paper's decays.
  std::get<learner::Adam>(network.optimizer.rule).learning_rate =
      std::visit([](const auto& rule) { return rule.learning_rate; }, options.optimizer.rule);
  network.optimizer.schedule = options.optimizer.schedule;
  network.average_decay = options.ema_decay;
  const auto images = std::make_shared<ImageSource>(options, group.seed);
  const auto fitted = [network, images,
                       conditional = options.conditional](data::Split split) -> Result<learner::sngan::Options> {
    TROUPE_ASSIGN(const auto reader, images->reader(split));
    learner::sngan::Options made = network;
    made.image = reader->shape();
    made.classes = conditional ? reader->dataset().classes() : 0;
    return made;
  };
  ReplicaModel model;
  model.make = [fitted, images]() -> MadeReplica {
    TROUPE_ASSIGN(auto made, fitted(data::Split::kTrain));
    auto input = images->input(data::Split::kTrain, {.noise_size = made.noise_size});
    return {std::make_unique<learner::sngan::SnganReplica>(made, std::move(input))};
  };
  model.split = SplitModel{
      .make_generator = [fitted, seed = group.seed]() -> MadeReplica {
        TROUPE_ASSIGN(auto made, fitted(data::Split::kTrain));
        auto noise = learner::sngan::noise_input(made, seed);
        return {std::make_unique<learner::sngan::SnganGenerator>(made, std::move(noise))};
      },
      .make_discriminator = [fitted, images](const AddFakes& add_fakes) -> MadeReplica {
        TROUPE_ASSIGN(auto made, fitted(data::Split::kTrain));
        auto input = [real = images->input(data::Split::kTrain), add_fakes](
                         const learner::InputContext& context) -> Result<std::unique_ptr<learner::InputPipeline>> {
          TROUPE_ASSIGN(auto pipeline, real(context));
          return add_fakes(std::move(pipeline));
        };
        return {std::make_unique<learner::sngan::SnganDiscriminator>(made, std::move(input))};
      },
      .fakes = [fitted]() -> Result<Signature> {
        TROUPE_ASSIGN(const auto made, fitted(data::Split::kTrain));
        return learner::sngan::fakes_signature(made);
      },
      .n_dis = options.n_dis};
  model.evaluation_rows = test_rows(images, options.evaluation_images);
  // A batch a step of the evaluator, which stays short.
  model.evaluation_batch = options.network == "resnet" ? 50 : 500;
  model.make_evaluation = [fitted, rows = model.evaluation_rows, seed = group.seed]() -> MadeReplica {
    TROUPE_ASSIGN(auto made, fitted(data::Split::kTest));
    TROUPE_ASSIGN(const std::int64_t count, rows());
    return {std::make_unique<learner::sngan::SnganEvaluation>(made, count, seed)};
  };
  model.make_judge = [images, rows = model.evaluation_rows]() -> Result<std::unique_ptr<learner::Judge>> {
    TROUPE_ASSIGN(const auto reader, images->reader(data::Split::kTest));
    TROUPE_ASSIGN(const std::int64_t count, rows());
    // Its own seed, and images as they are, so that runs of several seeds are judged alike.
    const learner::sngan::JudgeOptions judge = {
        .classifier = {.image = reader->shape(), .classes = reader->dataset().classes(), .seed = 1}, .images = count};
    auto train = images->input(data::Split::kTrain, {.seed = 1, .augment = false, .ahead = false});
    auto test = images->input(data::Split::kTest, {.ahead = false});
    return {std::make_unique<learner::sngan::SnganJudge>(judge, std::move(train), std::move(test))};
  };
  model.inference = inference_of<learner::sngan::Options>(fitted, learner::sngan::inference);
  return model;
}

Result<ReplicaModel> resnet(const ReplicaModelOptions& options, const ReplicaGroupOptions& group) {
  TROUPE_ASSIGN(learner::resnet::Options network, learner::resnet::of_depth(options.depth));
  network.variant = options.variant == "v1" ? learner::resnet::Variant::kV1 : learner::resnet::Variant::kV1_5;
  network.sync_batch_norm = options.sync_batch_norm;
  network.label_smoothing = options.label_smoothing;
  network.optimizer = options.optimizer;
  network.average_decay = options.ema_decay;
  const auto images = std::make_shared<ImageSource>(options, group.seed);
  const auto fitted = [network, images](data::Split split) -> Result<learner::resnet::Options> {
    TROUPE_ASSIGN(const auto reader, images->reader(split));
    learner::resnet::Options made = network;
    made.height = reader->shape()[0];
    made.width = reader->shape()[1];
    made.channels = reader->shape()[2];
    made.classes = reader->dataset().classes();
    return made;
  };
  ReplicaModel model;
  model.make = [fitted, images]() -> MadeReplica {
    TROUPE_ASSIGN(auto made, fitted(data::Split::kTrain));
    return {std::make_unique<learner::resnet::ResnetReplica>(made, images->input(data::Split::kTrain))};
  };
  model.make_evaluation = [fitted, images]() -> MadeReplica {
    TROUPE_ASSIGN(auto made, fitted(data::Split::kTest));
    return {std::make_unique<learner::resnet::ResnetEvaluation>(made, images->input(data::Split::kTest))};
  };
  model.evaluation_rows = test_rows(images);
  model.evaluation_batch = network.imagenet ? 50 : 250;
  model.inference = inference_of<learner::resnet::Options>(fitted, learner::resnet::inference);
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
