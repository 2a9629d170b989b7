#pragma once
// From a stored sample to what a network sees: decoded, cropped, resized, mirrored, scaled. All that is drawn for it
// follows from (seed, epoch, index), so it does not matter which thread or replica reads it. Used by
// data/image_batches.
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/core/rng.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/data/dataset.hpp>
#include <troupe/data/image_codec.hpp>
#include <troupe/core/resize.hpp>

namespace troupe::data {

enum class Crop : std::uint8_t {
  kNone,           ///< the whole image
  kCenter,         ///< the largest square in the middle
  kPad,            ///< the whole image, moved by up to 4 pixels each way over black (CIFAR's); without augment: kNone
  kRandomResized,  ///< 8 .. 100 % of the area in a ratio of 3/4 .. 4/3 (Szegedy et al. 2014); without augment: resized
                   ///< to a short side of image_size * 256 / 224, of which the middle
};

enum class Scaling : std::uint8_t {
  kSymmetric,  ///< 0 .. 255 to [-1, 1]
  kImageNet,   ///< less ImageNet's mean, by its standard deviation, of each of three channels
};

struct ImageOptions {
  std::int64_t image_size = 0;  ///< of both sides; 0: as stored
  std::int64_t channels = 0;    ///< 1 or 3; 0: as stored, and 3 for files
  Crop crop = Crop::kNone;
  bool flip = false;    ///< half of the images are mirrored
  bool augment = true;  ///< false, for evaluation: nothing is drawn, see Crop, and nothing mirrored
  Scaling scaling = Scaling::kSymmetric;
  /// A damaged sample is replaced by the next one of the set that is whole, and counted; false: it is an error.
  bool skip_damaged = false;
  std::uint64_t seed = 0;
};

class ImageReader {
 public:
  /// What one thread needs to read.
  struct Scratch {
    Sample sample;
    Surface surface;
    Resizer resizer;
    std::vector<float> image;
  };

  /// Errors: kInvalidArgument, when a set of images of several sizes has no image_size, or for options that make no
  /// sense.
  static Result<std::shared_ptr<const ImageReader>> make(std::shared_ptr<const Dataset> dataset,
                                                         const ImageOptions& options);

  const Dataset& dataset() const { return *dataset_; }
  const ImageOptions& options() const { return options_; }
  /// [height, width, channels] of every image that is read.
  const Shape& shape() const { return shape_; }
  /// Reads sample `index` as it is seen in `epoch`. image: shape().elements() values. Any thread. Errors: the data
  /// set's and kCorrupt, naming the sample; with skip_damaged, kCorrupt when kDamagedInARowMax are damaged in a row.
  Status read(std::int64_t epoch, std::int64_t index, Scratch& scratch, std::span<float> image,
              std::int32_t& label) const;
  /// Different samples that were found damaged so far, and places that the set left out.
  std::int64_t damaged() const;

  static constexpr std::int64_t kDamagedInARowMax = 1000;

 private:
  ImageReader(std::shared_ptr<const Dataset> dataset, const ImageOptions& options, const Shape& shape);

  /// What becomes of one image.
  struct View {
    Region region;
    bool mirror = false;
    std::int64_t down = 0, right = 0;  ///< by which the image is moved over black
  };
  View choose(std::int64_t height, std::int64_t width, Rng& rng) const;
  Region random_resized(double height, double width, Rng& rng) const;
  Status read_one(std::int64_t index, Rng rng, Scratch& scratch, std::span<float> image, std::int32_t& label) const;
  void render(const PixelView& from, const View& view, Scratch& scratch, std::span<float> image) const;
  void note_damaged(std::int64_t index, const Error& error) const;

  std::shared_ptr<const Dataset> dataset_;
  ImageOptions options_;
  Shape shape_;
  mutable std::mutex mutex_;  // of damaged_
  mutable std::set<std::int64_t> damaged_;
};

}  // namespace troupe::data
