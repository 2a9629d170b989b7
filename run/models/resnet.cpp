#include <troupe/algorithms/resnet/network.hpp>
#include <troupe/algorithms/resnet/replica.hpp>
#include <troupe/learner/graph/optimizer_keys.hpp>
#include <troupe/run/models/image_keys.hpp>
#include <troupe/run/models/image_model.hpp>
#include <troupe/run/models/models.hpp>

namespace troupe::actors {
namespace {

ConfigSchema resnet_keys() {
  ConfigSchema keys = image_keys();
  ConfigSchema own = {
      {.path = "depth",
       .default_value = std::int64_t{50},
       .doc = "Layers: 18, 34, 50, 101, 152 (ImageNet), 20, 32, 44, 56, 110 (CIFAR)",
       .unit = "layers",
       .min = 18,
       .max = 152,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "variant",
       .default_value = std::string("v1.5"),
       .doc = "Stride in a bottleneck's first (v1) or 3x3 convolution",
       .choices = {"v1", "v1.5"},
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "sync_batch_norm",
       .default_value = true,
       .doc = "Statistics of the global batch, not of each replica's"},
      {.path = "label_smoothing",
       .default_value = 0.0,
       .doc = "Share of the target that is spread over all classes",
       .min = 0,
       .max = 0.99},
      ema_key(),
  };
  std::ranges::move(own, std::back_inserter(keys));
  std::ranges::move(learner::optimizer_keys("", {}), std::back_inserter(keys));
  return keys;
}

Result<MakeModel> make_resnet(const ConfigSection& keys) {
  std::vector<std::string> mistakes = learner::optimizer_mistakes(keys, "");
  auto made = learner::resnet::of_depth(keys.get_int("depth"));
  if (!made.ok()) mistakes.push_back("depth: " + made.error().message);
  learner::resnet::Options network = made.ok() ? *made : learner::resnet::Options{};
  network.variant =
      keys.get_string("variant") == "v1" ? learner::resnet::Variant::kV1 : learner::resnet::Variant::kV1_5;
  network.sync_batch_norm = keys.get_bool("sync_batch_norm");
  network.label_smoothing = keys.get_float("label_smoothing");
  network.average_decay = keys.get_float("ema_decay");
  return image_model(keys, std::move(mistakes),
                     [keys, read = std::move(network)](ReplicaModel& model, const std::shared_ptr<ImageSource>& images,
                                                       const ModelContext& context) {
                       learner::resnet::Options network = read;
                       network.optimizer = learner::read_optimizer(keys, "", context.steps);
                       const auto fitted = [network, images](data::Split split) -> Result<learner::resnet::Options> {
                         TROUPE_ASSIGN(const auto reader, images->reader(split));
                         learner::resnet::Options made = network;
                         made.height = reader->shape()[0];
                         made.width = reader->shape()[1];
                         made.channels = reader->shape()[2];
                         made.classes = reader->dataset().classes();
                         return made;
                       };
                       model.make = [fitted, images]() -> MadeReplica {
                         TROUPE_ASSIGN(auto made, fitted(data::Split::kTrain));
                         return {learner::resnet::training(made, images->input(data::Split::kTrain))};
                       };
                       model.make_evaluation = [fitted, images]() -> MadeReplica {
                         TROUPE_ASSIGN(auto made, fitted(data::Split::kTest));
                         return {learner::resnet::evaluation(made, images->input(data::Split::kTest))};
                       };
                       model.evaluation_rows = test_rows(images);
                       model.evaluation_batch = network.imagenet ? 50 : 250;
                       model.inference = inference_of<learner::resnet::Options>(fitted, learner::resnet::inference);
                     });
}

}  // namespace

ModelKind resnet_model() {
  return {
      .doc = "Residual networks (He et al. 2016) for ImageNet and CIFAR", .keys = resnet_keys(), .make = make_resnet};
}

}  // namespace troupe::actors
