#include <troupe/data/cifar10.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <troupe/tests/data/write_idx.hpp>

namespace troupe::data {
namespace {

using testing::Bytes;
using ::testing::EndsWith;

/// Planes of one value each, but for the first pixel.
Bytes record(std::uint8_t label, std::uint8_t first) {
  Bytes bytes = {label};
  for (const std::uint8_t value : {10, 20, 30}) bytes.insert(bytes.end(), 1024, value);
  bytes[1] = first;
  return bytes;
}

struct Files {
  explicit Files(const std::string& name) : folder(name) {
    for (std::uint8_t batch = 1; batch <= 5; ++batch) {
      Bytes two = record(batch, 100);
      const Bytes other = record(9, batch);
      two.insert(two.end(), other.begin(), other.end());
      testing::write(path(batch), two);
    }
    testing::write(folder.path / "test_batch.bin", record(3, 7));
  }
  std::filesystem::path path(int batch) const { return folder.path / ("data_batch_" + std::to_string(batch) + ".bin"); }
  std::string error() const {
    const auto set = load_cifar10(Split::kTrain, folder.path);
    return set.ok() ? "it was read" : set.error().message;
  }
  testing::Folder folder;
};

TEST(Cifar10, IsReadPixelByPixelInTheOrderOfItsFiles) {
  const Files files("cifar-good");
  const auto train = load_cifar10(Split::kTrain, files.folder.path).value();
  EXPECT_EQ(train->shape(), (Shape{32, 32, 3}));
  EXPECT_EQ(train->classes(), 10);
  EXPECT_EQ(train->labels, (std::vector<std::int32_t>{1, 9, 2, 9, 3, 9, 4, 9, 5, 9}));
  Sample sample;
  train->read(5, sample).value();
  EXPECT_EQ(Bytes(sample.bytes.begin(), sample.bytes.begin() + 6), (Bytes{3, 20, 30, 10, 20, 30}));
  EXPECT_EQ(sample.bytes.size(), 3072U);
  EXPECT_EQ(load_cifar10(Split::kTest, files.folder.path).value()->labels, (std::vector<std::int32_t>{3}));
}

TEST(Cifar10, NamesTheFileThatIsMissingOrDamaged) {
  const Files files("cifar-bad");
  testing::write(files.path(2), record(10, 0));
  EXPECT_EQ(files.error(), files.path(2).string() + ": label 10 of image 0, expected 0 .. 9");
  Bytes cut = record(1, 0);
  cut.pop_back();
  testing::write(files.path(2), cut);
  EXPECT_THAT(
      files.error(),
      EndsWith("batch_2.bin: 3072 bytes, expected a multiple of 3073, one for each image, and at most 1073741824"));
  testing::write(files.path(2), {});
  EXPECT_THAT(files.error(), ::testing::HasSubstr("batch_2.bin: 0 bytes, expected a multiple of 3073"));
  std::filesystem::remove(files.path(2));
  EXPECT_EQ(files.error(), files.path(2).string() + ": open: No such file or directory");
  std::filesystem::create_directory(files.path(2));
  EXPECT_EQ(files.error(), files.path(2).string() + ": a directory, expected a file");
}

}  // namespace
}  // namespace troupe::data
