#include <troupe/algorithms/classifier/network.hpp>
#include <troupe/algorithms/classifier/replica.hpp>
#include <troupe/learner/graph/optimizer_keys.hpp>
#include <troupe/learner/ops/layer_keys.hpp>
#include <troupe/run/models/image_keys.hpp>
#include <troupe/run/models/image_model.hpp>
#include <troupe/run/models/models.hpp>

namespace troupe::actors {
namespace {

ConfigSchema classifier_keys() {
  const learner::classifier::Options m;
  ConfigSchema keys = image_keys();
  std::ranges::move(learner::layer_keys("", m.sizes, m.activation), std::back_inserter(keys));
  keys.push_back({.path = "layer_split",
                  .default_value = std::string("layers"),
                  .doc = "What each device of model_parallel has: some layers, or of each layer a part",
                  .choices = {"layers", "batch", "hidden"}});
  keys.push_back({.path = "pipeline_parts",
                  .default_value = m.pipeline_parts,
                  .doc = "Of a batch, on which model_parallel's devices work at the same time",
                  .min = 1,
                  .max = 1024});
  keys.push_back(ema_key());
  std::ranges::move(learner::optimizer_keys("", {}), std::back_inserter(keys));
  return keys;
}

Result<MakeModel> make_classifier(const ConfigSection& keys) {
  std::vector<std::string> mistakes = learner::optimizer_mistakes(keys, "");
  const std::string& split = keys.get_string("layer_split");
  if (split != "layers" && keys.get_int("pipeline_parts") > 1) {
    mistakes.push_back("pipeline_parts: has no effect here: it is used only with layer_split = \"layers\"");
  }
  return image_model(
      keys, std::move(mistakes),
      [keys, split](ReplicaModel& model, const std::shared_ptr<ImageSource>& images, const ModelContext& context) {
        learner::classifier::Options network;
        network.sizes = keys.get_ints("layers");
        network.activation = learner::read_activation(keys, "");
        if (split != "layers") {
          network.layer_split = split == "batch" ? learner::Split::kBatch : learner::Split::kHidden;
        }
        network.pipeline_parts = keys.get_int("pipeline_parts");
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
