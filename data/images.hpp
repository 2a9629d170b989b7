#pragma once
// Labelled images in memory: Fashion-MNIST from the files of Debian's package dataset-fashion-mnist, and images made up
// for tests.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <troupe/core/error.hpp>
#include <troupe/data/dataset.hpp>

namespace troupe::data {

/// Filled by hand, then shared as const. Sizes must fit together.
struct Images final : Dataset {
  std::int64_t height = 0, width = 0, channels = 1;
  std::int64_t class_count = 0;
  std::vector<std::uint8_t> pixels;  ///< [count, height, width, channels]; 0 is black
  std::vector<std::int32_t> labels;  ///< [count], each below class_count

  std::int64_t count() const override { return static_cast<std::int64_t>(labels.size()); }
  std::int64_t classes() const override { return class_count; }
  Shape shape() const override { return {height, width, channels}; }
  Status read(std::int64_t index, Sample& sample) const override;  ///< never fails
  std::string name(std::int64_t index) const override;
};

/// Where the Debian package puts its files.
inline constexpr const char* kFashionMnistDirectory = "/usr/share/datasets/fashion-mnist";

/// Xiao et al. 2017 (arXiv 1708.07747): 60000 images to train with and 10000 to test, 28 x 28, 10 classes. Takes any
/// set of these file names, of any size. Errors: as of read_idx() (kNotFound names the package to install); kCorrupt
/// when images and labels do not fit together or a label is none of the classes.
Result<std::shared_ptr<const Images>> load_fashion_mnist(
    Split split, const std::filesystem::path& directory = kFashionMnistDirectory);

struct SyntheticImages {
  std::int64_t count = 1;
  std::int64_t height = 8, width = 8, channels = 1;
  std::int64_t classes = 10;
  double noise = 60;  ///< standard deviation of a pixel around its class's, in steps of grey
};

/// Each class has a pattern of its own, the same in both splits, and each image is that with noise. Repeats for
/// (options, split, seed).
std::shared_ptr<const Images> synthetic_images(const SyntheticImages& options, Split split, std::uint64_t seed);

}  // namespace troupe::data
