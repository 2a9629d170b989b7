#pragma once
// A group of replicas that train one model together, as plain values: which replicator runs them, over how much, and
// what a shipped model learns. The section [replicas.NAME] of a configuration has the same names
// (run/replica_schema.cpp); train_replica() takes the first part from a user's own program. No invariants:
// check() says what does not fit together.
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/learner/graph/optimizer.hpp>

namespace troupe::actors {

struct ReplicaGroupOptions {
  std::string name = "replica";  ///< of its role; "NAME-evaluator" and so on follow from it
  /// "one_device", "multi_device", "central_storage", "model_parallel": one instance of the role runs all replicas.
  /// "multi_worker", "parameter_server", "sync_replicas", "split_gan": an instance a replica.
  std::string replicator = "one_device";
  std::int64_t count = 1;             ///< replicas; of "split_gan" the generator's
  std::int64_t devices = 1;           ///< of each replica, for "model_parallel"
  std::string reduce = "collective";  ///< "multi_device": or "hierarchical_copy", "reduction_to_one"
  std::int64_t batch_size = 128;      ///< rows of a step over all replicas
  std::int64_t accumulate = 1;        ///< batches whose gradients make one step
  std::int64_t steps = 2000;          ///< the group is done after so many
  bool deterministic = false;         ///< the same bits for 1, 2, 4 and 8 replicas
  std::string wire = "fp32";          ///< "bf16": half the bytes between processes, sums in float32
  /// "bf16": products and images; weights, statistics and losses stay float32. "tf32": on a GPU, products may round
  /// their operands so.
  std::string compute = "fp32";
  /// "cpu", "cuda:N" or "auto"; of several, replica or instance i has the i-th modulo their count.
  std::vector<std::string> device = {"cpu"};
  std::int64_t threads = 1;         ///< that share a step of a replica, on each of its devices
  std::string nccl_interface = {};  ///< TrainOptions::security's
  std::uint64_t seed = 1;           ///< of parameters and data
  // "parameter_server" and "sync_replicas".
  std::int64_t ps_shards = 1;          ///< instances that hold the parameters
  std::string ps_partition = "fixed";  ///< of variables over them: or "min_size", "max_size"
  std::string staleness = "none";   ///< of gradients: "drop" those older than max_staleness, "scale" by 1 / staleness
  std::int64_t max_staleness = 8;   ///< versions; of "split_gan" the generator's, beyond which its images are dropped
  std::int64_t backup_workers = 0;  ///< "sync_replicas": a step ends without the latest so many of `count` gradients
  std::int64_t discriminators = 1;  ///< "split_gan": replicas of the discriminator, beside `count` of the generator
  std::int64_t evaluate_every_steps = 500;  ///< when there is something to evaluate
};

/// What the shipped models need to know; a model takes what it has a use for.
struct ReplicaModelOptions {
  std::string model = "classifier";  ///< or "sngan", "resnet"
  // Of what it learns: docs/data.md.
  /// Or "cifar10", "image_folder", "tfrecord"; "synthetic": made up in a moment, for tests.
  std::string data = "fashion_mnist";
  std::string data_dir = {};            ///< where its files lie; of fashion_mnist, empty: the Debian package's
  std::int64_t image_size = 0;          ///< height and width that images are resized to; 0: as stored
  std::int64_t classes = 1000;          ///< of tfrecord; the others know theirs
  std::int64_t channels = 0;            ///< 1 or 3; 0: as stored, and 3 for files of images
  std::string crop = "none";            ///< or "center", "pad", "random_resized"
  bool flip = false;                    ///< half of the images of training are mirrored
  std::string normalize = "symmetric";  ///< to [-1, 1], or "imagenet": its mean and deviation
  std::int64_t data_threads = 2;        ///< that decode and augment ahead of training; 0: training does it itself
  bool skip_damaged = false;            ///< replace damaged images by the next whole one, instead of ending the run
  std::vector<std::int64_t> layers = {256, 128};
  learner::OptimizerSpec optimizer = {.rule = learner::Adam{.learning_rate = 1e-3}};
  double ema_decay = 0;  ///< of the parameters that are evaluated; 0: the newest are
  // "sngan".
  std::string network = "mlp";                          ///< of hidden layers `layers`, or "resnet"
  std::int64_t width = 256, discriminator_width = 128;  ///< channels of "resnet"
  bool conditional = false;                             ///< on the classes of the data
  std::int64_t noise_size = 64;
  std::int64_t n_dis = 1;                   ///< discriminator steps for one of the generator
  std::int64_t evaluation_images = 10'000;  ///< generated ones, and test images, that an evaluation compares
  // "resnet", and the first also of "sngan".
  bool sync_batch_norm = true;   ///< statistics of the global batch; false: of each replica's share
  std::int64_t depth = 50;       ///< layers: learner::resnet::of_depth()
  std::string variant = "v1.5";  ///< or "v1"
  double label_smoothing = 0;
};

/// Errors: kInvalidArgument, one line a mistake, naming the option.
Status check(const ReplicaGroupOptions& options);
/// The same of what a model needs to know, and of what its group can do.
Status check(const ReplicaModelOptions& options, const ReplicaGroupOptions& group);

/// How many instances of the group's own role there are.
std::int64_t instances(const ReplicaGroupOptions& options);
bool has_parameter_server(const ReplicaGroupOptions& options);
/// Whether the group's own role is the generator of a GAN and the discriminator has another
/// (actors/roles/split_gan.hpp).
bool is_split_gan(const ReplicaGroupOptions& options);

}  // namespace troupe::actors
