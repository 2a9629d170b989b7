#include <troupe/algorithms/sngan/adversaries.hpp>
#include <troupe/algorithms/sngan/judge.hpp>
#include <troupe/algorithms/sngan/networks.hpp>
#include <troupe/algorithms/sngan/replica.hpp>
#include <troupe/learner/graph/optimizer_keys.hpp>
#include <troupe/learner/ops/layer_keys.hpp>
#include <troupe/run/models/image_keys.hpp>
#include <troupe/run/models/image_model.hpp>
#include <troupe/run/models/models.hpp>

namespace troupe::actors {
namespace {

ConfigSchema sngan_keys() {
  const learner::sngan::Options m;
  ConfigSchema keys = image_keys();
  ConfigSchema own = {
      {.path = "network",
       .default_value = std::string("mlp"),
       .doc = "Hidden layers, or residual blocks of convolutions",
       .choices = {"mlp", "resnet"},
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "width",
       .default_value = m.generator_width,
       .doc = "Of the blocks of resnet generator; above 32 pixels the last one's",
       .unit = "channels",
       .min = 1,
       .max = 4096,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "discriminator_width",
       .default_value = m.discriminator_width,
       .doc = "The same of its discriminator; above 32 pixels the first one's",
       .unit = "channels",
       .min = 1,
       .max = 4096,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "conditional",
       .default_value = false,
       .doc = "resnet makes images of given classes",
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "noise_size",
       .default_value = m.noise_size,
       .doc = "Numbers that it makes an image of",
       .min = 1,
       .max = 65536,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "n_dis",
       .default_value = m.n_dis,
       .doc = "Steps of the discriminator for one of the generator",
       .unit = "steps",
       .min = 1,
       .max = 1000},
      {.path = "evaluation_images",
       .default_value = std::int64_t{10'000},
       .doc = "Generated, and as many test images, that an evaluation compares",
       .unit = "images",
       .min = 2,
       .max = 1e7},
      {.path = "sync_batch_norm",
       .default_value = m.sync_batch_norm,
       .doc = "Statistics of the global batch, not of each replica's"},
      ema_key(),
  };
  std::ranges::move(own, std::back_inserter(keys));
  std::ranges::move(
      learner::layer_keys("", {256, 128}, m.generator_activation, " of mlp; reversed its discriminator's"),
      std::back_inserter(keys));
  keys.push_back(learner::activation_key("discriminator_", m.discriminator_activation, " of mlp's discriminator"));
  // Adam with the paper's decays (Miyato et al. 2018, table 3, setting C).
  std::ranges::move(learner::optimizer_keys("", {.beta1 = 0, .beta2 = 0.9}), std::back_inserter(keys));
  return keys;
}

std::vector<std::string> sngan_mistakes(const ConfigSection& keys) {
  std::vector<std::string> mistakes = learner::optimizer_mistakes(keys, "");
  if (keys.get_string("normalize") != "symmetric") {
    mistakes.push_back(
        fmt::format("normalize: got \"{}\", but sngan makes images in [-1, 1]", keys.get_string("normalize")));
  }
  if (keys.get_bool("conditional") && keys.get_string("network") != "resnet") {
    mistakes.push_back(fmt::format("conditional: true, but network \"{}\" does not look at labels, expected \"resnet\"",
                                   keys.get_string("network")));
  }
  return mistakes;
}

learner::sngan::Options read_sngan(const ConfigSection& keys, std::int64_t steps) {
  learner::sngan::Options network;
  if (keys.get_string("network") == "resnet") network.network = learner::sngan::Network::kResnet;
  network.generator_width = keys.get_int("width");
  network.discriminator_width = keys.get_int("discriminator_width");
  network.noise_size = keys.get_int("noise_size");
  network.n_dis = keys.get_int("n_dis");
  network.sync_batch_norm = keys.get_bool("sync_batch_norm");
  const std::vector<std::int64_t>& layers = keys.get_ints("layers");
  network.generator_sizes = layers;
  network.generator_activation = learner::read_activation(keys, "");
  network.discriminator_activation = learner::read_activation(keys, "discriminator_");
  network.discriminator_sizes.assign(layers.rbegin(), layers.rend());
  network.optimizer = learner::read_optimizer(keys, "", steps);
  network.average_decay = keys.get_float("ema_decay");
  return network;
}

Result<MakeModel> make_sngan(const ConfigSection& keys) {
  return image_model(
      keys, sngan_mistakes(keys),
      [keys](ReplicaModel& model, const std::shared_ptr<ImageSource>& images, const ModelContext& context) {
        const learner::sngan::Options network = read_sngan(keys, context.steps);
        const auto fitted = [network, images, conditional = keys.get_bool("conditional")](
                                data::Split split) -> Result<learner::sngan::Options> {
          TROUPE_ASSIGN(const auto reader, images->reader(split));
          learner::sngan::Options made = network;
          made.image = reader->shape();
          made.classes = conditional ? reader->dataset().classes() : 0;
          return made;
        };
        model.make = [fitted, images]() -> MadeReplica {
          TROUPE_ASSIGN(auto made, fitted(data::Split::kTrain));
          auto input = images->input(data::Split::kTrain, {.noise_size = made.noise_size});
          return {learner::sngan::training(made, std::move(input))};
        };
        model.split = SplitModel{
            .make_generator = [fitted, seed = context.seed]() -> MadeReplica {
              TROUPE_ASSIGN(auto made, fitted(data::Split::kTrain));
              auto noise = learner::sngan::noise_input(made, seed);
              return {learner::sngan::generator_training(made, std::move(noise))};
            },
            .make_discriminator = [fitted, images](const AddFakes& add_fakes) -> MadeReplica {
              TROUPE_ASSIGN(auto made, fitted(data::Split::kTrain));
              auto input =
                  [real = images->input(data::Split::kTrain),
                   add_fakes](const learner::InputContext& context) -> Result<std::unique_ptr<learner::InputPipeline>> {
                TROUPE_ASSIGN(auto pipeline, real(context));
                return add_fakes(std::move(pipeline));
              };
              return {learner::sngan::discriminator_training(made, std::move(input))};
            },
            .fakes = [fitted]() -> Result<Signature> {
              TROUPE_ASSIGN(const auto made, fitted(data::Split::kTrain));
              return learner::sngan::fakes_signature(made);
            },
            .n_dis = network.n_dis};
        model.evaluation_rows = test_rows(images, keys.get_int("evaluation_images"));
        // A batch a step of the evaluator, which stays short.
        model.evaluation_batch = keys.get_string("network") == "resnet" ? 50 : 500;
        model.make_evaluation = [fitted, rows = model.evaluation_rows, seed = context.seed]() -> MadeReplica {
          TROUPE_ASSIGN(auto made, fitted(data::Split::kTest));
          TROUPE_ASSIGN(const std::int64_t count, rows());
          return {learner::sngan::evaluation(made, count, seed)};
        };
        model.make_judge = [images, rows = model.evaluation_rows]() -> Result<std::unique_ptr<learner::Judge>> {
          TROUPE_ASSIGN(const auto reader, images->reader(data::Split::kTest));
          TROUPE_ASSIGN(const std::int64_t count, rows());
          // Its own seed, and images as they are, so that runs of several seeds are judged alike.
          const learner::sngan::JudgeOptions judge = {
              .classifier = {.image = reader->shape(), .classes = reader->dataset().classes(), .seed = 1},
              .images = count};
          auto train = images->input(data::Split::kTrain, {.seed = 1, .augment = false, .ahead = false});
          auto test = images->input(data::Split::kTest, {.ahead = false});
          return {std::make_unique<learner::sngan::SnganJudge>(judge, std::move(train), std::move(test))};
        };
        model.inference = inference_of<learner::sngan::Options>(fitted, learner::sngan::inference);
      });
}

}  // namespace

ModelKind sngan_model() {
  return {.doc = "Spectrally normalised GAN (Miyato et al. 2018)", .keys = sngan_keys(), .make = make_sngan};
}

}  // namespace troupe::actors
