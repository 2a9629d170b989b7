#include <troupe/algorithms/classifier/network.hpp>
#include <troupe/algorithms/classifier/replica.hpp>
#include <troupe/learner/graph/optimizer_keys.hpp>
#include <troupe/run/models/image_keys.hpp>
#include <troupe/run/models/image_model.hpp>
#include <troupe/run/models/models.hpp>

namespace troupe::actors {
namespace {

ConfigSchema classifier_keys() {
  const learner::classifier::Options m;
  ConfigSchema keys = image_keys();
  keys.push_back({.path = "layers",
                  .default_value = m.sizes,
                  .doc = "Hidden layers",
                  .unit = "units",
                  .min = 1,
                  .max = 16384,
                  .fixed = ConfigKey::Fixed::kValue});
  keys.push_back(ema_key());
  std::ranges::move(learner::optimizer_keys("", {}), std::back_inserter(keys));
  return keys;
}

Result<MakeModel> make_classifier(const ConfigSection& keys) {
  return image_model(
      keys, learner::optimizer_mistakes(keys, ""),
      [keys](ReplicaModel& model, const std::shared_ptr<ImageSource>& images, const ModelContext& context) {
        learner::classifier::Options network;
        network.sizes = keys.get_ints("layers");
        network.optimizer = learner::read_optimizer(keys, "", context.steps);
        network.average_decay = keys.get_float("ema_decay");
        const auto fitted = [network, images](data::Split split) -> Result<learner::classifier::Options> {
          TROUPE_ASSIGN(const auto reader, images->reader(split));
          learner::classifier::Options made = network;
          made.features = reader->shape().elements();
          made.classes = reader->dataset().classes();
          return made;
        };
        model.make = [fitted, images]() -> MadeReplica {
          TROUPE_ASSIGN(auto made, fitted(data::Split::kTrain));
          return {learner::classifier::training(made, images->input(data::Split::kTrain))};
        };
        model.make_evaluation = [fitted, images]() -> MadeReplica {
          TROUPE_ASSIGN(auto made, fitted(data::Split::kTest));
          return {learner::classifier::evaluation(made, images->input(data::Split::kTest))};
        };
        model.evaluation_rows = test_rows(images);
        model.evaluation_batch = 500;
        model.inference = inference_of<learner::classifier::Options>(fitted, learner::classifier::inference);
      });
}

}  // namespace

ModelKind classifier_model() {
  return {.doc = "A multi-layer perceptron on flattened images", .keys = classifier_keys(), .make = make_classifier};
}

}  // namespace troupe::actors
