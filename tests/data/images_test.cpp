#include <troupe/data/images.hpp>

#include <gtest/gtest.h>

#include <troupe/tests/data/write_idx.hpp>

namespace troupe::data {
namespace {

using testing::Bytes;
using testing::Folder;
using testing::gzip;
using testing::idx;

struct ImageFiles {
  explicit ImageFiles(const std::string& name) : folder(name) {
    images(idx({3, 2, 2}, Bytes(12, 100)));
    labels(idx({3}, {0, 9, 4}));
  }
  void images(const Bytes& bytes) { testing::write(folder.path / "train-images-idx3-ubyte.gz", gzip(bytes)); }
  void labels(const Bytes& bytes) { testing::write(folder.path / "train-labels-idx1-ubyte.gz", gzip(bytes)); }
  std::string error() const {
    const auto set = load_fashion_mnist(Split::kTrain, folder.path);
    if (set.ok()) return "it was read";
    return set.error().message.substr(set.error().message.find(".gz: ") + 5);
  }
  Folder folder;
};

TEST(Images, OfFilesThatFitTogetherAreRead) {
  const ImageFiles files("images-good");
  const auto set = load_fashion_mnist(Split::kTrain, files.folder.path);
  ASSERT_TRUE(set.ok()) << set.error().message;
  EXPECT_EQ((*set)->count(), 3);
  EXPECT_EQ((*set)->shape(), (Shape{2, 2, 1}));
  EXPECT_EQ((*set)->labels, (std::vector<std::int32_t>{0, 9, 4}));
}

TEST(Images, AndLabelsMustFitTogether) {
  ImageFiles files("images-bad");
  files.labels(idx({2}, {0, 1}));
  EXPECT_EQ(files.error(), "shape [2], expected [3], one for each image");
  files.labels(idx({3, 1}, {0, 1, 2}));
  EXPECT_EQ(files.error(), "shape [3, 1], expected [3], one for each image");
  files.labels(idx({3}, {0, 10, 2}));
  EXPECT_EQ(files.error(), "label 10 of image 1, expected 0 .. 9");
  files.images(idx({12}, Bytes(12, 1)));
  EXPECT_EQ(files.error(), "shape [12], expected [images, rows, columns]");
}

TEST(Images, ThatAreNotInstalledNameThePackage) {
  const auto set = load_fashion_mnist(Split::kTest, "/nowhere");
  ASSERT_FALSE(set.ok());
  EXPECT_EQ(set.error().message, "/nowhere: no Fashion-MNIST here: install Debian's dataset-fashion-mnist");
}

TEST(Images, OfTheDebianPackageAreWhole) {
  if (!std::filesystem::exists(kFashionMnistDirectory)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  for (const Split split : {Split::kTrain, Split::kTest}) {
    const auto set = load_fashion_mnist(split);
    ASSERT_TRUE(set.ok()) << set.error().message;
    EXPECT_EQ((*set)->count(), split == Split::kTrain ? 60000 : 10000);
    EXPECT_EQ((*set)->shape(), (Shape{28, 28, 1}));
    std::vector<std::int64_t> counts(10);
    for (const std::int32_t label : (*set)->labels) ++counts[static_cast<std::size_t>(label)];
    EXPECT_EQ(counts, std::vector<std::int64_t>(10, (*set)->count() / 10));  // the set is balanced
  }
}

TEST(Images, MadeUpOnesShareTheirClassesBetweenSplits) {
  const SyntheticImages options{.count = 400, .classes = 3, .noise = 10};
  const auto train = synthetic_images(options, Split::kTrain, 5), test = synthetic_images(options, Split::kTest, 5);
  EXPECT_NE(train->pixels, test->pixels);
  EXPECT_EQ(train->pixels, synthetic_images(options, Split::kTrain, 5)->pixels);
  const auto mean_of = [](const Images& set, std::int32_t label) {
    double sum = 0, count = 0;
    for (std::size_t i = 0; i < set.labels.size(); ++i) {
      if (set.labels[i] != label) continue;
      sum += set.pixels[i * 64];
      ++count;
    }
    return sum / count;
  };
  // About 130 images a class, so the mean of one pixel has a standard error of 10 / sqrt(130) = 0.9 in each split.
  for (std::int32_t label = 0; label < 3; ++label) EXPECT_NEAR(mean_of(*train, label), mean_of(*test, label), 6);
}

}  // namespace
}  // namespace troupe::data
