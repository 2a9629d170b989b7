#include <troupe/run/models/image_source.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include <troupe/core/rng.hpp>
#include <troupe/data/cifar10.hpp>
#include <troupe/data/image_folder.hpp>
#include <troupe/data/images.hpp>
#include <troupe/data/tfrecords.hpp>

namespace troupe::actors {
namespace {

constexpr data::SyntheticImages kSynthetic = {.count = 4000, .noise = 90};
constexpr data::SyntheticImages kSyntheticTest = {.count = 1000, .noise = 90};

data::Crop crop_of(const std::string& name) {
  return name == "center"           ? data::Crop::kCenter
         : name == "pad"            ? data::Crop::kPad
         : name == "random_resized" ? data::Crop::kRandomResized
                                    : data::Crop::kNone;
}

/// Whether images take work that is worth threads: those of a file, or that are changed.
bool takes_work(const data::ImageReader& reader) {
  const data::ImageOptions& options = reader.options();
  const Shape stored = reader.dataset().shape();
  const bool resized = stored.rank() != 3 || stored[0] != reader.shape()[0] || stored[1] != reader.shape()[1];
  return resized || (options.augment && (options.flip || options.crop != data::Crop::kNone));
}

}  // namespace

Result<std::shared_ptr<const data::Dataset>> ImageSource::open(data::Split split) const {
  if (options_.data == "synthetic") {
    return {std::shared_ptr<const data::Dataset>(data::synthetic_images(
        split == data::Split::kTrain ? kSynthetic : kSyntheticTest, split, derive_seed(options_.seed, "images", 0)))};
  }
  const auto opened = [](auto set) -> Result<std::shared_ptr<const data::Dataset>> {
    if (!set.ok()) return set.error();
    return {std::shared_ptr<const data::Dataset>(std::move(*set))};
  };
  const std::filesystem::path directory = options_.data_dir;
  if (options_.data == "cifar10") return opened(data::load_cifar10(split, directory));
  if (options_.data == "image_folder") {
    if (split == data::Split::kTrain) return opened(data::ImageFolder::open(directory / "train"));
    TROUPE_ASSIGN(const auto classes, data::ImageFolder::classes_of(directory / "train"));
    return opened(data::ImageFolder::open(directory / "val", &classes));
  }
  if (options_.data == "tfrecord") {
    const data::TfRecordOptions records{.classes = options_.classes, .skip_damaged = options_.skip_damaged};
    return opened(data::TfRecords::open(directory, split, records));
  }
  if (options_.data == "fashion_mnist") {
    return opened(data::load_fashion_mnist(split, directory.empty() ? data::kFashionMnistDirectory : directory));
  }
  return Error{Code::kInvalidArgument, fmt::format("data: unknown \"{}\"", options_.data)};
}

Result<std::shared_ptr<const data::ImageReader>> ImageSource::reader(data::Split split, bool augment) {
  const std::lock_guard lock(mutex_);
  const auto at = static_cast<std::size_t>(split);
  std::shared_ptr<const data::ImageReader>& reader = readers_[at][augment];
  if (reader != nullptr) return reader;
  if (datasets_[at] == nullptr) {
    TROUPE_ASSIGN(datasets_[at], open(split));
  }
  const data::ImageOptions images{
      .image_size = options_.image_size,
      .channels = options_.channels,
      .crop = crop_of(options_.crop),
      .flip = options_.flip,
      .augment = augment,
      .scaling = options_.normalize == "imagenet" ? data::Scaling::kImageNet : data::Scaling::kSymmetric,
      .skip_damaged = options_.skip_damaged,
      .seed = options_.seed};
  TROUPE_ASSIGN(reader, data::ImageReader::make(datasets_[at], images));
  return reader;
}

learner::InputFn ImageSource::input(data::Split split, const ImageUse& use) {
  return [self = shared_from_this(), split,
          use](const learner::InputContext& context) -> Result<std::unique_ptr<learner::InputPipeline>> {
    const bool train = split == data::Split::kTrain;
    TROUPE_ASSIGN(auto reader, self->reader(split, train && use.augment));
    ImageInputOptions input{.seed = use.seed.value_or(self->options_.seed),
                            .shuffle = train,
                            .says_how_fast = self->options_.data_threads > 0};
    if (use.noise_size > 0) {
      input.noise = {"noise"};
      input.noise_size = use.noise_size;
    }
    if (use.ahead && takes_work(*reader)) input.threads = static_cast<int>(self->options_.data_threads);
    return image_input(std::move(reader), input, context);
  };
}

}  // namespace troupe::actors
