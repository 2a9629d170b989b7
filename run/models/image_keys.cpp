#include <troupe/run/models/image_keys.hpp>

#include <fmt/format.h>

#include <troupe/data/tfrecords.hpp>

namespace troupe::actors {

ConfigSchema image_keys() {
  const ImageDataOptions m;
  return {
      {.path = "data",
       .default_value = m.data,
       .doc = "What it learns from, see docs/data.md; synthetic: made up, small, for trials",
       .choices = {"fashion_mnist", "cifar10", "image_folder", "tfrecord", "synthetic"},
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "data_dir",
       .default_value = m.data_dir,
       .doc = "Where its files lie; of fashion_mnist, empty: the Debian package's"},
      {.path = "image_size",
       .default_value = m.image_size,
       .doc = "Height and width that images are resized to; 0: as stored",
       .unit = "pixels",
       .min = 0,
       .max = 4096,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "classes",
       .default_value = m.classes,
       .doc = "Of tfrecord, whose labels are 1 .. classes; other data knows its own",
       .min = 1,
       .max = 1e6,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "channels",
       .default_value = m.channels,
       .doc = "1: grey, 3: RGB; 0: as stored, and 3 for files of images",
       .min = 0,
       .max = 3,
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "crop",
       .default_value = m.crop,
       .doc = "Of images of training; what is tested is the whole, or the middle",
       .choices = {"none", "center", "pad", "random_resized"}},
      {.path = "flip", .default_value = m.flip, .doc = "Half of the images of training are mirrored left to right"},
      {.path = "normalize",
       .default_value = m.normalize,
       .doc = "Pixels to [-1, 1], or by ImageNet's mean and deviation",
       .choices = {"symmetric", "imagenet"},
       .fixed = ConfigKey::Fixed::kValue},
      {.path = "data_threads",
       .default_value = m.data_threads,
       .doc = "Decode and augment ahead of each replica; 0: training does it itself",
       .min = 0,
       .max = 256},
      {.path = "skip_damaged",
       .default_value = m.skip_damaged,
       .doc = "Count damaged images and take the next whole one, instead of ending"},
  };
}

ImageDataOptions read_images(const ConfigSection& keys) {
  return {.data = keys.get_string("data"),
          .data_dir = keys.get_string("data_dir"),
          .image_size = keys.get_int("image_size"),
          .classes = keys.get_int("classes"),
          .channels = keys.get_int("channels"),
          .crop = keys.get_string("crop"),
          .flip = keys.get_bool("flip"),
          .normalize = keys.get_string("normalize"),
          .data_threads = keys.get_int("data_threads"),
          .skip_damaged = keys.get_bool("skip_damaged")};
}

std::vector<std::string> image_mistakes(const ImageDataOptions& o) {
  std::vector<std::string> mistakes;
  const bool files = o.data == "image_folder" || o.data == "tfrecord";
  if (o.data_dir.empty() && (files || o.data == "cifar10")) {
    mistakes.push_back(fmt::format("data_dir: empty, expected the folder of \"{}\"", o.data));
  }
  if (o.image_size == 0 && files) {
    mistakes.push_back(
        fmt::format("image_size: 0, but images of \"{}\" are of several sizes, expected theirs in training", o.data));
  }
  if (o.channels == 2) mistakes.emplace_back("channels: got 2, expected 1, 3, or 0");
  return mistakes;
}

Result<UsableImages> usable_images(ImageDataOptions options, const ModelContext& context) {
  using Data = ModelContext::Data;
  options.seed = context.seed;
  if (!context.threads) options.data_threads = 0;
  if (context.data == Data::kRead || options.data == "synthetic") return UsableImages{std::move(options)};
  const bool here = context.data == Data::kLookedAt;
  if (options.data == "tfrecord" && here) {
    // Opening them takes minutes.
    for (const data::Split split : {data::Split::kTrain, data::Split::kTest}) {
      const auto found = data::TfRecords::find(options.data_dir, split);
      if (!found.ok()) return Error{found.error().code, "data_dir: " + found.error().message};
    }
  } else if (here) {
    return UsableImages{std::move(options)};
  }
  const bool fashion = options.data == "fashion_mnist";
  if (options.image_size == 0 && fashion) options.image_size = 28;
  if (options.image_size == 0 && options.data == "cifar10") options.image_size = 32;
  if (options.image_size == 0) return UsableImages{.made = false};
  options.data = "synthetic";
  if (options.channels == 0) options.channels = fashion ? 1 : 3;
  return UsableImages{std::move(options)};
}

}  // namespace troupe::actors
