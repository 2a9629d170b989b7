#pragma once
// Where the images come from that a model learns from, as keys of its section (docs/data.md), and the options that they
// become. Used by every model on images, and by a user's own.
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/actors/roles/replica_model.hpp>
#include <troupe/core/config.hpp>

namespace troupe::actors {

struct ImageDataOptions {
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
  std::uint64_t seed = 1;               ///< of shuffling, augmentation, noise, and of images that are made up
};

/// The keys, called as the fields are.
ConfigSchema image_keys();
ImageDataOptions read_images(const ConfigSection& keys);
/// What does not fit together, a line a mistake that begins with its key.
std::vector<std::string> image_mistakes(const ImageDataOptions& options);

/// The options as `context` wants them: on data that is there, or on made-up images of the size in which they are read.
/// Errors: for kLookedAt, files that are not there. made: false when nobody knows that size yet.
struct UsableImages {
  ImageDataOptions options;
  bool made = true;
};
Result<UsableImages> usable_images(ImageDataOptions options, const ModelContext& context);

}  // namespace troupe::actors
