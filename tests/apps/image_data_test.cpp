// A residual network trained by the built program on files of images of every kind: whole ones, missing ones and
// damaged ones. Each class has a colour, so that a few steps suffice to tell them apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include <troupe/run/csv_metrics.hpp>
#include <troupe/tests/apps/program.hpp>
#include <troupe/tests/apps/test_directory.hpp>
#include <troupe/tests/data/write_images.hpp>
#include <troupe/tests/data/write_tfrecords.hpp>

namespace troupe::apps {
namespace {

namespace images = data::testing;
using testing::HasSubstr;

constexpr int kClasses = 3, kTrain = 24, kTest = 6;

/// Image `i` of class i mod 3.
Surface picture(int i, std::int64_t height, std::int64_t width) {
  Surface made = images::picture(height, width, 3);
  for (std::size_t at = 0; at < made.pixels.size(); ++at) {
    const bool bright = static_cast<int>(at % 3) == i % kClasses;
    made.pixels[at] = static_cast<std::uint8_t>(made.pixels[at] / 4 + (bright ? 150 : 0) + i);
  }
  return made;
}

class ImageData : public TestDirectory {
 protected:
  static constexpr const char* kFolder = "data = 'image_folder'\nimage_size = 16\ncrop = 'random_resized'\n";
  static constexpr const char* kRecords = "data = 'tfrecord'\nclasses = 3\nimage_size = 16\nnormalize = 'imagenet'\n";
  static constexpr const char* kCifar = "data = 'cifar10'\ncrop = 'pad'\n";

  /// PNG and JPEG files, by turns.
  void write_folder() {
    const auto write = [&](const std::string& split, int count) {
      for (int i = 0; i < count; ++i) {
        const std::string name = split + "/" + std::to_string(i % kClasses) + "/" + std::to_string(i);
        if (i % 2 == 0) {
          images::write(set() / (name + ".png"), images::png(picture(i, 24, 20)));
        } else {
          images::write(set() / (name + ".jpg"), images::jpeg(picture(i, 24, 20)));
        }
      }
    };
    write("train", kTrain);
    write("val", kTest);
  }
  /// Two shards to train with.
  void write_records() {
    const auto records = [](int begin, int end) {
      std::string bytes;
      for (int i = begin; i < end; ++i) {
        const auto label = static_cast<std::uint64_t>(i % kClasses) + 1;
        bytes += images::record(images::example(images::jpeg(picture(i, 24, 20)), label));
      }
      return bytes;
    };
    images::write(set() / "train-00000-of-00002", records(0, kTrain / 2));
    images::write(set() / "train-00001-of-00002", records(kTrain / 2, kTrain));
    images::write(set() / "validation-00000-of-00001", records(0, kTest));
  }
  void write_cifar() {
    const auto batch = [](int begin, int count) {
      images::Bytes bytes;
      for (int i = begin; i < begin + count; ++i) {
        bytes.push_back(static_cast<std::uint8_t>(i % kClasses));
        const Surface image = picture(i, 32, 32);
        for (std::size_t channel = 0; channel < 3; ++channel) {
          for (std::size_t at = channel; at < image.pixels.size(); at += 3) bytes.push_back(image.pixels[at]);
        }
      }
      return bytes;
    };
    for (int file = 1; file <= 5; ++file) {
      images::write(set() / ("data_batch_" + std::to_string(file) + ".bin"), batch(file, 5));
    }
    images::write(set() / "test_batch.bin", batch(0, kTest));
  }

  /// Takes off the last third.
  void cut(const std::string& name) {
    std::filesystem::resize_file(set() / name, std::filesystem::file_size(set() / name) * 2 / 3);
  }
  void flip_a_byte(const std::string& name, std::streamoff at) {
    std::fstream file(set() / name, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(at);
    const auto was = static_cast<char>(file.get());
    file.seekp(at);
    file.put(static_cast<char>(was ^ 1));
  }

  std::filesystem::path set() const { return path() / "set"; }
  ProgramResult train(const std::string& data, const std::string& arguments = "") {
    std::ofstream(path() / "c.toml")
        << "[metrics]\nevery_s = 0.1\n[replicas.net]\nmodel = 'resnet'\ndepth = 20\noptimizer = 'sgd'\n"
           "learning_rate = 0.02\nbatch_size = 8\nsteps = 40\nevaluate_every_steps = 40\nflip = true\n"
           "data_dir = 'set'\n"
        << data;
    std::filesystem::remove_all(path() / "r");
    return run_program(path(), "train c.toml --run-dir r " + arguments);
  }
  /// One error, which begins with the file; of the configuration (78) where a look at the set tells before anything is
  /// made.
  void expect_error(const std::string& data, const std::string& file, const std::string& what, int exit_code) {
    const ProgramResult result = train(data);
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr("set/" + file + ": " + what));
    EXPECT_EQ(result.err.find("set/"), result.err.rfind("set/")) << result.err;
  }
  double largest(const std::string& scalar) const {
    double value = -1;
    const std::vector<MetricRow> rows = read_metrics_csv(path() / "r/metrics.csv").value();
    for (const MetricRow& row : rows) {
      for (const Scalar& one : row.scalars) {
        if (one.name == scalar) value = std::max(value, one.value);
      }
    }
    return value;
  }
  void expect_trained(const ProgramResult& result) {
    ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
    const auto net = nlohmann::json::parse(text_of(path() / "r/summary.json"))["replicas"]["net"];
    EXPECT_EQ(net["evaluated_step"], 40);
    EXPECT_GT(net["evaluation"]["accuracy"], 0.9) << net;
    EXPECT_GT(largest("net/input_images_per_second"), 1);
  }
};

TEST_F(ImageData, FoldersRecordsAndCifarTrainANetwork) {
  write_folder();
  expect_trained(train(kFolder));
  write_records();
  expect_trained(train(kRecords));
  write_cifar();
  expect_trained(train(kCifar));
}

TEST_F(ImageData, AMissingFileIsOneErrorThatNamesIt) {
  write_folder();
  write_records();
  write_cifar();
  std::filesystem::remove_all(set() / "val");
  expect_error(kFolder, "val", "no folder of images", 78);
  std::filesystem::remove(set() / "train-00000-of-00002");
  expect_error(kRecords, "train-00000-of-00002", "missing", 78);
  std::filesystem::remove(set() / "data_batch_3.bin");
  expect_error(kCifar, "data_batch_3.bin", "open: No such file or directory", 78);
}

TEST_F(ImageData, ADamagedFileIsOneErrorThatNamesIt) {
  write_folder();
  write_records();
  write_cifar();
  cut("train/1/7.jpg");
  expect_error(kFolder, "train/1/7.jpg", "damaged JPEG: ", 1);
  flip_a_byte("train-00001-of-00002", 200);
  expect_error(kRecords, "train-00001-of-00002", "record 0: its checksum is wrong", 1);
  cut("data_batch_3.bin");
  expect_error(kCifar, "data_batch_3.bin", "10243 bytes, expected a multiple of 3073", 78);
}

TEST_F(ImageData, DamagedImagesAreSkippedAndCountedWhenAsked) {
  write_folder();
  cut("train/1/7.jpg");
  cut("train/2/8.png");
  const ProgramResult folder = train(std::string(kFolder) + "skip_damaged = true\n");
  expect_trained(folder);
  EXPECT_EQ(largest("net/input_damaged"), 2);
  EXPECT_THAT(folder.err, HasSubstr("set/train/1/7.jpg: "));
  write_records();
  flip_a_byte("train-00001-of-00002", 200);
  const ProgramResult records = train(std::string(kRecords) + "skip_damaged = true\n");
  expect_trained(records);
  EXPECT_EQ(largest("net/input_damaged"), 1);
  EXPECT_THAT(records.err, HasSubstr("set/train-00001-of-00002: record 0: its checksum is wrong"));
}

}  // namespace
}  // namespace troupe::apps
