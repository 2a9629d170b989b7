#pragma once
// Labelled images in memory: Fashion-MNIST from the files of Debian's package dataset-fashion-mnist, and images made up
// for tests. Immutable once made, so all replicas of a process share one.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include <troupe/core/error.hpp>

namespace troupe::data {

struct Images {
  std::int64_t count = 0;
  std::int64_t height = 0, width = 0;
  std::int64_t classes = 0;
  std::vector<std::uint8_t> pixels;  ///< [count, height, width]; 0 is black
  std::vector<std::int32_t> labels;  ///< [count], each below classes

  std::int64_t pixels_each() const { return height * width; }
};

enum class Split : std::uint8_t { kTrain, kTest };

/// Where the Debian package puts its files.
inline constexpr const char* kFashionMnistDirectory = "/usr/share/datasets/fashion-mnist";

/// Xiao et al. 2017 (arXiv 1708.07747): 60000 images to train with and 10000 to test, 28 x 28, 10 classes. Takes any
/// set of these file names, of any size. Errors: as of read_idx() (kNotFound names the package to install); kCorrupt
/// when images and labels do not fit together or a label is none of the classes.
Result<std::shared_ptr<const Images>> load_fashion_mnist(
    Split split, const std::filesystem::path& directory = kFashionMnistDirectory);

struct SyntheticImages {
  std::int64_t count = 1;
  std::int64_t height = 8, width = 8;
  std::int64_t classes = 10;
  double noise = 60;  ///< standard deviation of a pixel around its class's, in steps of grey
};

/// Each class has a pattern of its own, the same in both splits, and each image is that with noise. Repeats for
/// (options, split, seed).
std::shared_ptr<const Images> synthetic_images(const SyntheticImages& options, Split split, std::uint64_t seed);

}  // namespace troupe::data
