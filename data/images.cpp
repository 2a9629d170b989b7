#include <troupe/data/images.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <troupe/core/rng.hpp>
#include <troupe/data/idx.hpp>

namespace troupe::data {
namespace {

constexpr std::int64_t kFashionClasses = 10;

}  // namespace

Status Images::read(std::int64_t index, Sample& sample) const {
  const auto at = static_cast<std::size_t>(index), each = static_cast<std::size_t>(shape().elements());
  sample.label = labels[at];
  sample.shape = shape();
  sample.bytes = std::span(pixels).subspan(at * each, each);
  return {};
}

std::string Images::name(std::int64_t index) const { return fmt::format("image {}", index); }

Result<std::shared_ptr<const Images>> load_fashion_mnist(Split split, const std::filesystem::path& directory) {
  if (std::error_code error; !std::filesystem::is_directory(directory, error)) {
    return Error{Code::kNotFound,
                 fmt::format("{}: no Fashion-MNIST here: install Debian's dataset-fashion-mnist", directory.string())};
  }
  const std::string prefix = split == Split::kTrain ? "train" : "t10k";
  const std::filesystem::path image_file = directory / (prefix + "-images-idx3-ubyte.gz");
  const std::filesystem::path label_file = directory / (prefix + "-labels-idx1-ubyte.gz");
  TROUPE_ASSIGN(IdxArray pixels, read_idx(image_file));
  TROUPE_ASSIGN(const IdxArray labels, read_idx(label_file));
  if (pixels.shape.rank() != 3) {
    return Error{Code::kCorrupt, fmt::format("{}: shape {}, expected [images, rows, columns]", image_file.string(),
                                             pixels.shape.to_string())};
  }
  if (labels.shape.rank() != 1 || labels.shape[0] != pixels.shape[0]) {
    return Error{Code::kCorrupt, fmt::format("{}: shape {}, expected [{}], one for each image", label_file.string(),
                                             labels.shape.to_string(), pixels.shape[0])};
  }
  for (std::size_t i = 0; i < labels.values.size(); ++i) {
    if (labels.values[i] >= kFashionClasses) {
      return Error{Code::kCorrupt, fmt::format("{}: label {} of image {}, expected 0 .. {}", label_file.string(),
                                               labels.values[i], i, kFashionClasses - 1)};
    }
  }
  auto images = std::make_shared<Images>();
  images->height = pixels.shape[1];
  images->width = pixels.shape[2];
  images->class_count = kFashionClasses;
  images->pixels = std::move(pixels.values);
  images->labels.assign(labels.values.begin(), labels.values.end());
  return {std::shared_ptr<const Images>(std::move(images))};
}

std::shared_ptr<const Images> synthetic_images(const SyntheticImages& options, Split split, std::uint64_t seed) {
  auto images = std::make_shared<Images>();
  images->height = options.height;
  images->width = options.width;
  images->channels = options.channels;
  images->class_count = options.classes;
  const auto each = static_cast<std::size_t>(images->shape().elements());
  Rng patterns(derive_seed(seed, "patterns", 0));
  std::vector<double> pattern(static_cast<std::size_t>(options.classes) * each);
  for (double& grey : pattern) grey = 48 + 160 * patterns.uniform();
  Rng rng(derive_seed(seed, "images", split == Split::kTrain ? 0 : 1));
  images->labels.resize(static_cast<std::size_t>(options.count));
  images->pixels.resize(images->labels.size() * each);
  for (std::size_t i = 0; i < images->labels.size(); ++i) {
    const auto label = static_cast<std::size_t>(rng.below(static_cast<std::uint64_t>(options.classes)));
    images->labels[i] = static_cast<std::int32_t>(label);
    for (std::size_t p = 0; p < each; ++p) {
      const double grey = pattern[label * each + p] + options.noise * rng.normal();
      images->pixels[i * each + p] = static_cast<std::uint8_t>(std::lround(std::clamp(grey, 0.0, 255.0)));
    }
  }
  return images;
}

}  // namespace troupe::data
