#include <troupe/run/replica_schema.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include <troupe/actors/roles/split_gan.hpp>
#include <troupe/algorithms/resnet/options.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/core/text.hpp>
#include <troupe/run/mistake_place.hpp>
#include <troupe/run/optimizer_keys.hpp>
#include <troupe/run/role_names.hpp>

namespace troupe::apps {
namespace {

/// Below 1, also in float32: an average that never moves is none.
constexpr double kDecayMax = 0.9999999;
std::string path(std::string_view name, std::string_view key) { return fmt::format("replicas.{}.{}", name, key); }

}  // namespace

ConfigSchema replica_schema() {
  const actors::ReplicaGroupOptions g;
  const actors::ReplicaModelOptions m;
  const actors::ReplicaRun r;
  ConfigSchema schema = {
      {.path = "replicas.*.model",
       .default_value = m.model,
       .doc = "What the group trains; each [replicas.NAME] is a group of its own",
       .choices = {"classifier", "sngan", "resnet"},
       .required = true,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.data",
       .default_value = m.data,
       .doc = "What it learns from, see docs/data.md; synthetic: made up, small, for trials",
       .choices = {"fashion_mnist", "cifar10", "image_folder", "tfrecord", "synthetic"},
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.data_dir",
       .default_value = m.data_dir,
       .doc = "Where its files lie; of fashion_mnist, empty: the Debian package's"},
      {.path = "replicas.*.image_size",
       .default_value = m.image_size,
       .doc = "Height and width that images are resized to; 0: as stored",
       .unit = "pixels",
       .min = 0,
       .max = 4096,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.classes",
       .default_value = m.classes,
       .doc = "Of tfrecord, whose labels are 1 .. classes; other data knows its own",
       .min = 1,
       .max = 1e6,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.channels",
       .default_value = m.channels,
       .doc = "1: grey, 3: RGB; 0: as stored, and 3 for files of images",
       .min = 0,
       .max = 3,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.crop",
       .default_value = m.crop,
       .doc = "Of images of training; what is tested is the whole, or the middle",
       .choices = {"none", "center", "pad", "random_resized"}},
      {.path = "replicas.*.flip",
       .default_value = m.flip,
       .doc = "Half of the images of training are mirrored left to right"},
      {.path = "replicas.*.normalize",
       .default_value = m.normalize,
       .doc = "Pixels to [-1, 1], or by ImageNet's mean and deviation",
       .choices = {"symmetric", "imagenet"},
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.data_threads",
       .default_value = m.data_threads,
       .doc = "Decode and augment ahead of each replica; 0: training does it itself",
       .min = 0,
       .max = 256},
      {.path = "replicas.*.skip_damaged",
       .default_value = m.skip_damaged,
       .doc = "Count damaged images and take the next whole one, instead of ending"},
      {.path = "replicas.*.replicator",
       .default_value = g.replicator,
       .doc = "How its replicas run, see docs/replicas.md",
       .choices = {"one_device", "multi_device", "multi_worker", "central_storage", "parameter_server", "sync_replicas",
                   "model_parallel", "split_gan"},
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.count",
       .default_value = g.count,
       .doc = "Replicas that train together; of split_gan those of the generator",
       .min = 1,
       .max = 256,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.devices",
       .default_value = g.devices,
       .doc = "Devices of each replica, for model_parallel",
       .min = 1,
       .max = 64,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.reduce",
       .default_value = g.reduce,
       .doc = "How multi_device adds up gradients",
       .choices = {"collective", "hierarchical_copy", "reduction_to_one"}},
      {.path = "replicas.*.batch_size",
       .default_value = g.batch_size,
       .doc = "Rows of a step, over all replicas",
       .unit = "rows",
       .min = 1,
       .max = 65536},
      accumulate_key("replicas.*.accumulate"),
      {.path = "replicas.*.steps",
       .default_value = g.steps,
       .doc = "Steps of the group; the run ends when all groups, and D4PG, are done",
       .unit = "steps",
       .min = 1,
       .max = kCountMax},
      {.path = "replicas.*.deterministic",
       .default_value = g.deterministic,
       .doc = "The same bits for 1, 2, 4 and 8 replicas of one batch"},
      {.path = "replicas.*.wire",
       .default_value = g.wire,
       .doc = "Gradients between processes; sums are fp32 either way",
       .choices = {"fp32", "bf16"}},
      {.path = "replicas.*.compute",
       .default_value = g.compute,
       .doc = "Products and images; weights, statistics and losses are fp32 always",
       .choices = {"fp32", "tf32", "bf16"}},
      {.path = "replicas.*.device",
       .default_value = g.device,
       .doc = "cpu, cuda:N or auto; of several, replica i has the i-th modulo their count"},
      {.path = "replicas.*.threads",
       .default_value = g.threads,
       .doc = "Threads that share a step of each replica, on each of its devices",
       .min = 1,
       .max = 256},
      {.path = "replicas.*.layers",
       .default_value = m.layers,
       .doc = "Hidden layers",
       .unit = "units",
       .min = 1,
       .max = 16384,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.ema_decay",
       .default_value = m.ema_decay,
       .doc = "Of the average of the parameters that is evaluated; 0: the newest are",
       .min = 0,
       .max = kDecayMax,
       .fixed = ConfigKey::Fixed::kWhetherZero},
      {.path = "replicas.*.network",
       .default_value = m.network,
       .doc = "Of sngan: hidden layers, or residual blocks of convolutions",
       .choices = {"mlp", "resnet"},
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.width",
       .default_value = m.width,
       .doc = "Of the blocks of sngan's resnet generator; above 32 pixels the last one's",
       .unit = "channels",
       .min = 1,
       .max = 4096,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.discriminator_width",
       .default_value = m.discriminator_width,
       .doc = "The same of its discriminator; above 32 pixels the first one's",
       .unit = "channels",
       .min = 1,
       .max = 4096,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.conditional",
       .default_value = m.conditional,
       .doc = "sngan's resnet makes images of given classes",
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.noise_size",
       .default_value = m.noise_size,
       .doc = "Numbers that sngan makes an image of",
       .min = 1,
       .max = 65536,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.n_dis",
       .default_value = m.n_dis,
       .doc = "Steps of sngan's discriminator for one of its generator",
       .unit = "steps",
       .min = 1,
       .max = 1000},
      {.path = "replicas.*.evaluation_images",
       .default_value = m.evaluation_images,
       .doc = "Generated, and as many test images, that sngan's evaluation compares",
       .unit = "images",
       .min = 2,
       .max = 1e7},
      {.path = "replicas.*.depth",
       .default_value = m.depth,
       .doc = "Layers of resnet: 18, 34, 50, 101, 152 (ImageNet), 20, 32, 44, 56, 110 (CIFAR)",
       .unit = "layers",
       .min = 18,
       .max = 152,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.variant",
       .default_value = m.variant,
       .doc = "Of resnet: stride in a bottleneck's first (v1) or 3x3 convolution",
       .choices = {"v1", "v1.5"},
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.sync_batch_norm",
       .default_value = m.sync_batch_norm,
       .doc = "Of resnet and sngan: statistics of the global batch, not of each replica's"},
      {.path = "replicas.*.label_smoothing",
       .default_value = m.label_smoothing,
       .doc = "Of resnet: share of the target that is spread over all classes",
       .min = 0,
       .max = 0.99},
      {.path = "replicas.*.ps_shards",
       .default_value = g.ps_shards,
       .doc = "Parameter servers, each with a part of the variables",
       .min = 1,
       .max = 64,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.ps_partition",
       .default_value = g.ps_partition,
       .doc = "Variables over parameter servers: whole in turn, or cut up by size",
       .choices = {"fixed", "min_size", "max_size"},
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.staleness",
       .default_value = g.staleness,
       .doc = "Of late gradients: keep, drop beyond max_staleness, or scale by 1 / staleness",
       .choices = {"none", "drop", "scale"}},
      {.path = "replicas.*.max_staleness",
       .default_value = g.max_staleness,
       .doc = "Beyond which gradients, or split_gan's images, are dropped",
       .unit = "versions",
       .min = 0,
       .max = 1e6},
      {.path = "replicas.*.backup_workers",
       .default_value = g.backup_workers,
       .doc = "Latest gradients of each step that sync_replicas does without",
       .min = 0,
       .max = 255},
      {.path = "replicas.*.discriminators",
       .default_value = g.discriminators,
       .doc = "Replicas of the discriminator, for split_gan",
       .min = 1,
       .max = 256,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "replicas.*.evaluate_every_steps",
       .default_value = g.evaluate_every_steps,
       .doc = "Between two evaluations; one more is made at the end",
       .unit = "steps",
       .min = 1,
       .max = kCountMax},
      {.path = "replicas.*.nodes",
       .default_value = r.nodes,
       .doc = "Processes that share the replicas; 0: with the chief",
       .min = 0,
       .max = 256},
      {.path = "replicas.*.ps_nodes",
       .default_value = r.ps_nodes,
       .doc = "Processes that share the parameter servers; 0: with the chief",
       .min = 0,
       .max = 64},
      {.path = "replicas.*.discriminator_nodes",
       .default_value = r.discriminator_nodes,
       .doc = "Processes that share the discriminators; 0: with the chief",
       .min = 0,
       .max = 256},
  };
  const auto behind = std::ranges::find(schema, "replicas.*.ema_decay", &ConfigKey::path);
  const ConfigSchema optimizer = optimizer_keys("replicas.*.", {});
  schema.insert(behind, optimizer.begin(), optimizer.end());
  return schema;
}

std::vector<actors::ReplicaRun> to_replica_runs(const Config& config) {
  std::vector<actors::ReplicaRun> runs;
  const auto seed = static_cast<std::uint64_t>(config.get_int("seed"));
  for (const std::string& name : config.names("replicas")) {
    const auto integer = [&](std::string_view key) { return config.get_int(path(name, key)); };
    const auto number = [&](std::string_view key) { return config.get_float(path(name, key)); };
    const auto text = [&](std::string_view key) { return config.get_string(path(name, key)); };
    runs.push_back({
        .group = {.name = name,
                  .replicator = text("replicator"),
                  .count = integer("count"),
                  .devices = integer("devices"),
                  .reduce = text("reduce"),
                  .batch_size = integer("batch_size"),
                  .accumulate = integer("accumulate"),
                  .steps = integer("steps"),
                  .deterministic = config.get_bool(path(name, "deterministic")),
                  .wire = text("wire"),
                  .compute = text("compute"),
                  .device = config.get_strings(path(name, "device")),
                  .threads = integer("threads"),
                  .nccl_interface = config.get_string("security.nccl_interface"),
                  .seed = derive_seed(seed, name, 0),
                  .ps_shards = integer("ps_shards"),
                  .ps_partition = text("ps_partition"),
                  .staleness = text("staleness"),
                  .max_staleness = integer("max_staleness"),
                  .backup_workers = integer("backup_workers"),
                  .discriminators = integer("discriminators"),
                  .evaluate_every_steps = integer("evaluate_every_steps")},
        .model = {.model = text("model"),
                  .data = text("data"),
                  .data_dir = text("data_dir"),
                  .image_size = integer("image_size"),
                  .classes = integer("classes"),
                  .channels = integer("channels"),
                  .crop = text("crop"),
                  .flip = config.get_bool(path(name, "flip")),
                  .normalize = text("normalize"),
                  .data_threads = config.get_bool("deterministic") ? 0 : integer("data_threads"),
                  .skip_damaged = config.get_bool(path(name, "skip_damaged")),
                  .layers = config.get_ints(path(name, "layers")),
                  .optimizer = read_optimizer(config, path(name, ""), integer("steps")),
                  .ema_decay = number("ema_decay"),
                  .network = text("network"),
                  .width = integer("width"),
                  .discriminator_width = integer("discriminator_width"),
                  .conditional = config.get_bool(path(name, "conditional")),
                  .noise_size = integer("noise_size"),
                  .n_dis = integer("n_dis"),
                  .evaluation_images = integer("evaluation_images"),
                  .sync_batch_norm = config.get_bool(path(name, "sync_batch_norm")),
                  .depth = integer("depth"),
                  .variant = text("variant"),
                  .label_smoothing = number("label_smoothing")},
        .nodes = integer("nodes"),
        .ps_nodes = integer("ps_nodes"),
        .discriminator_nodes = integer("discriminator_nodes"),
    });
  }
  return runs;
}

std::vector<std::string> replica_mistakes(const Config& config) {
  std::vector<std::string> mistakes;
  for (const actors::ReplicaRun& run : to_replica_runs(config)) {
    const std::string& name = run.group.name;
    const auto add = [&](std::string_view what) {
      mistakes.push_back(fmt::format("{}: {}", place_of(config, what), what));
    };
    for (const Status& checked : {actors::check(run.group), actors::check(run.model, run.group)}) {
      if (checked.ok()) continue;
      for (const std::string_view line : lines(checked.error().message)) add(line);
    }
    for (const std::string& mistake : optimizer_mistakes(config, path(name, ""))) add(mistake);
    if (const auto depth = learner::resnet::of_depth(run.model.depth); !depth.ok()) {
      add(fmt::format("{}: {}", path(name, "depth"), depth.error().message));
    }
    if (is_taken_name(name))
      add(path(name, "model") + ": the group is called like another role, or like an instance of one");
    const std::int64_t instances = actors::instances(run.group);
    if (run.nodes > instances) {
      add(fmt::format("{}: got {} for {} instance{}, expected no more", path(name, "nodes"), run.nodes, instances,
                      instances == 1 ? "" : "s"));
    }
    if (actors::has_parameter_server(run.group) && run.ps_nodes > run.group.ps_shards) {
      add(fmt::format("{}: got {} for {} ps_shards, expected no more", path(name, "ps_nodes"), run.ps_nodes,
                      run.group.ps_shards));
    }
    if (actors::is_split_gan(run.group)) {
      if (run.model.model != "sngan") {
        add(fmt::format("{}: got \"split_gan\" for model \"{}\", which has no generator and discriminator",
                        path(name, "replicator"), run.model.model));
      }
      if (const Status fresh = actors::check_staleness(run.group, run.model.n_dis); !fresh.ok()) {
        add(fresh.error().message);
      }
      if (run.discriminator_nodes > run.group.discriminators) {
        add(fmt::format("{}: got {} for {} discriminator{}, expected no more", path(name, "discriminator_nodes"),
                        run.discriminator_nodes, run.group.discriminators, run.group.discriminators == 1 ? "" : "s"));
      }
    }
    if (config.get_bool("deterministic") && std::max(instances, run.group.discriminators) > 1) {
      const bool split = actors::is_split_gan(run.group);
      add(fmt::format(
          "{}: replicator \"{}\" needs a thread for each replica{}, but deterministic runs have one: take {}",
          path(name, "replicator"), run.group.replicator, split ? " of a side" : "",
          split ? "one of each" : "\"multi_device\""));
    }
  }
  return mistakes;
}

}  // namespace troupe::apps
