#include <troupe/data/image_reader.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include <troupe/core/log.hpp>

namespace troupe::data {
namespace {

constexpr std::int64_t kPadding = 4;
constexpr double kAreaMin = 0.08, kRatioMin = 3.0 / 4, kRatioMax = 4.0 / 3;
/// Of the short side to the crop's, for evaluation.
constexpr double kEvaluationMargin = 256.0 / 224;
constexpr std::size_t kNamedDamaged = 10;

/// value -> value / divisor - offset, for each channel.
struct Affine {
  std::array<float, 3> divisor = {127.5F, 127.5F, 127.5F}, offset = {1, 1, 1};
};

constexpr Affine imagenet() {
  constexpr std::array<double, 3> mean = {0.485, 0.456, 0.406}, deviation = {0.229, 0.224, 0.225};
  Affine affine;
  for (std::size_t c = 0; c < 3; ++c) {
    affine.divisor[c] = static_cast<float>(255 * deviation[c]);
    affine.offset[c] = static_cast<float>(mean[c] / deviation[c]);
  }
  return affine;
}

void scale(std::span<float> image, Scaling scaling) {
  if (scaling == Scaling::kSymmetric) {
    for (float& value : image) value = value / 127.5F - 1;
    return;
  }
  constexpr Affine affine = imagenet();
  for (std::size_t i = 0; i < image.size(); i += 3) {
    for (std::size_t c = 0; c < 3; ++c) image[i + c] = image[i + c] / affine.divisor[c] - affine.offset[c];
  }
}

/// Luminance of ITU-R BT.601, as JPEG has it.
float grey(const float* rgb) { return 0.299F * rgb[0] + 0.587F * rgb[1] + 0.114F * rgb[2]; }

Region centre(double height, double width, double crop_height, double crop_width) {
  return {(height - crop_height) / 2, (width - crop_width) / 2, crop_height, crop_width};
}

bool is_whole(const Region& region, const PixelView& image) {
  return region.top == 0 && region.left == 0 && region.height == static_cast<double>(image.height) &&
         region.width == static_cast<double>(image.width);
}

}  // namespace

Result<std::shared_ptr<const ImageReader>> ImageReader::make(std::shared_ptr<const Dataset> dataset,
                                                             const ImageOptions& options) {
  const auto wrong = [](std::string what) { return Error{Code::kInvalidArgument, "images: " + std::move(what)}; };
  const Shape stored = dataset->shape();
  if (options.image_size < 0 || options.image_size > 4096) {
    return wrong(fmt::format("image_size is {}, expected 1 .. 4096, or 0 for that of the set", options.image_size));
  }
  if (options.channels != 0 && options.channels != 1 && options.channels != 3) {
    return wrong(fmt::format("channels is {}, expected 1, 3, or 0 for those of the set", options.channels));
  }
  const bool fixed = stored.rank() == 3;
  if (!fixed && options.image_size == 0) return wrong("image_size is 0, but images of this set are of several sizes");
  const std::int64_t height = options.image_size > 0 ? options.image_size : stored[0];
  const std::int64_t width = options.image_size > 0 ? options.image_size : stored[1];
  const bool square = options.crop == Crop::kCenter || options.crop == Crop::kRandomResized;
  if (square && options.image_size == 0 && height != width) {
    return wrong(fmt::format("a crop is square, but images are {} x {}: image_size is needed", height, width));
  }
  const std::int64_t channels = options.channels > 0 ? options.channels : fixed ? stored[2] : 3;
  if (options.scaling == Scaling::kImageNet && channels != 3) {
    return wrong(fmt::format("ImageNet's mean is of 3 channels, got {}", channels));
  }
  return std::shared_ptr<const ImageReader>(
      new ImageReader(std::move(dataset), options, Shape{height, width, channels}));
}

ImageReader::ImageReader(std::shared_ptr<const Dataset> dataset, const ImageOptions& options, const Shape& shape)
    : dataset_(std::move(dataset)), options_(options), shape_(shape) {}

Region ImageReader::random_resized(double height, double width, Rng& rng) const {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = height * width * (kAreaMin + (1 - kAreaMin) * rng.uniform());
    const double ratio = std::exp(std::log(kRatioMin) + (std::log(kRatioMax) - std::log(kRatioMin)) * rng.uniform());
    const double crop_width = std::round(std::sqrt(area * ratio)), crop_height = std::round(std::sqrt(area / ratio));
    if (crop_width < 1 || crop_height < 1 || crop_width > width || crop_height > height) continue;
    const auto place = [&](double space) {
      return static_cast<double>(rng.below(static_cast<std::uint64_t>(space) + 1));
    };
    const double top = place(height - crop_height);
    return {top, place(width - crop_width), crop_height, crop_width};
  }
  const double ratio = std::clamp(width / height, kRatioMin, kRatioMax);
  return centre(height, width, std::min(height, width / ratio), std::min(width, height * ratio));
}

ImageReader::View ImageReader::choose(std::int64_t rows, std::int64_t columns, Rng& rng) const {
  const auto height = static_cast<double>(rows), width = static_cast<double>(columns);
  const double side = std::min(height, width);
  View view{.region = {0, 0, height, width}};
  const auto move = [&] { return static_cast<std::int64_t>(rng.below(2 * kPadding + 1)) - kPadding; };
  switch (options_.crop) {
    case Crop::kNone:
      break;
    case Crop::kCenter:
      view.region = centre(height, width, side, side);
      break;
    case Crop::kPad:
      if (!options_.augment) break;
      view.down = move();
      view.right = move();
      break;
    case Crop::kRandomResized:
      view.region = options_.augment ? random_resized(height, width, rng)
                                     : centre(height, width, side / kEvaluationMargin, side / kEvaluationMargin);
      break;
  }
  view.mirror = options_.flip && options_.augment && rng.below(2) == 1;
  return view;
}

void ImageReader::render(const PixelView& from, const View& view, Scratch& scratch, std::span<float> image) const {
  const std::int64_t height = shape_[0], width = shape_[1], channels = shape_[2], had = from.channels;
  const bool as_is = had == channels && view.down == 0 && view.right == 0;
  std::span<float> shown = image;
  if (!as_is) {
    scratch.image.resize(static_cast<std::size_t>(height * width * had));
    shown = scratch.image;
  }
  if (!view.mirror && from.height == height && from.width == width && is_whole(view.region, from)) {
    std::copy(from.pixels.begin(), from.pixels.end(), shown.begin());
  } else {
    scratch.resizer.resize(from, view.region, {.height = height, .width = width, .mirror = view.mirror}, shown);
  }
  if (!as_is) {
    float* to = image.data();
    for (std::int64_t y = -view.down; y < height - view.down; ++y) {
      for (std::int64_t x = -view.right; x < width - view.right; ++x, to += channels) {
        const bool inside = y >= 0 && y < height && x >= 0 && x < width;
        const float* const pixel = shown.data() + (inside ? (y * width + x) * had : 0);
        for (std::int64_t c = 0; c < channels; ++c) {
          to[c] = !inside ? 0 : had == channels ? pixel[c] : had == 1 ? pixel[0] : grey(pixel);
        }
      }
    }
  }
  scale(image, options_.scaling);
}

Status ImageReader::read_one(std::int64_t index, Rng rng, Scratch& scratch, std::span<float> image,
                             std::int32_t& label) const {
  Sample& sample = scratch.sample;
  TROUPE_TRY(dataset_->read(index, sample));
  label = sample.label;
  if (sample.shape.rank() == 3) {
    const PixelView pixels{sample.bytes, sample.shape[0], sample.shape[1], sample.shape[2]};
    render(pixels, choose(pixels.height, pixels.width, rng), scratch, image);
    return {};
  }
  std::optional<View> view;
  const auto excerpt = [&](std::int64_t height, std::int64_t width) {
    view = choose(height, width, rng);
    return Excerpt{view->region, shape_[0], shape_[1]};
  };
  Result<Region> region = decode_image(sample.bytes, shape_[2] == 1, excerpt, scratch.surface);
  if (!region.ok()) {
    return Error{region.error().code, fmt::format("{}: {}", dataset_->name(index), region.error().message)};
  }
  view->region = *region;
  render(scratch.surface.view(), *view, scratch, image);
  return {};
}

Status ImageReader::read(std::int64_t epoch, std::int64_t index, Scratch& scratch, std::span<float> image,
                         std::int32_t& label) const {
  const Rng rng(derive_seed(derive_seed(options_.seed, "augment", static_cast<std::uint64_t>(epoch)), "image",
                            static_cast<std::uint64_t>(index)));
  const std::int64_t attempts = options_.skip_damaged ? std::min(dataset_->count(), kDamagedInARowMax) : 1;
  Status read;
  for (std::int64_t attempt = 0; attempt < attempts; ++attempt) {
    const std::int64_t candidate = (index + attempt) % dataset_->count();
    read = read_one(candidate, rng, scratch, image, label);
    if (read.ok() || read.error().code != Code::kCorrupt || !options_.skip_damaged) return read;
    note_damaged(candidate, read.error());
  }
  return Error{Code::kCorrupt, fmt::format("{}, and so are {} in a row", read.error().message, attempts)};
}

void ImageReader::note_damaged(std::int64_t index, const Error& error) const {
  const std::lock_guard lock(mutex_);
  if (!damaged_.insert(index).second || damaged_.size() > kNamedDamaged) return;
  log::warn("skipped: {}{}", error.message,
            damaged_.size() == kNamedDamaged ? "; further ones are only counted (input_damaged)" : "");
}

std::int64_t ImageReader::damaged() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(damaged_.size()) + dataset_->damaged();
}

}  // namespace troupe::data
