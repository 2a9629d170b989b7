#include <troupe/data/image_reader.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include <troupe/data/images.hpp>
#include <troupe/tests/data/write_images.hpp>

namespace troupe::data {
namespace {

using testing::Bytes;
using ::testing::HasSubstr;
using testing::picture;

std::shared_ptr<Images> images_of(const std::vector<Surface>& pictures) {
  auto images = std::make_shared<Images>();
  images->height = pictures[0].height;
  images->width = pictures[0].width;
  images->channels = pictures[0].channels;
  images->class_count = 100;
  for (const Surface& each : pictures) {
    images->pixels.insert(images->pixels.end(), each.pixels.begin(), each.pixels.end());
    images->labels.push_back(static_cast<std::int32_t>(images->labels.size()));
  }
  return images;
}

/// Files in memory, of any size.
class Encoded final : public Dataset {
 public:
  explicit Encoded(std::vector<Bytes> files) : files_(std::move(files)) {}
  std::int64_t count() const override { return std::ssize(files_); }
  std::int64_t classes() const override { return 100; }
  Shape shape() const override { return {}; }
  Status read(std::int64_t index, Sample& sample) const override {
    sample.label = static_cast<std::int32_t>(index);
    sample.shape = {};
    sample.bytes = files_[static_cast<std::size_t>(index)];
    return {};
  }
  std::string name(std::int64_t index) const override { return "file " + std::to_string(index); }

 private:
  std::vector<Bytes> files_;
};

struct Seen {
  std::vector<float> image;
  std::int32_t label = -1;
};

Seen seen(const ImageReader& reader, std::int64_t index, std::int64_t epoch = 0) {
  ImageReader::Scratch scratch;
  Seen made{std::vector<float>(static_cast<std::size_t>(reader.shape().elements()))};
  const Status read = reader.read(epoch, index, scratch, made.image, made.label);
  EXPECT_TRUE(read.ok()) << read.error().message;
  return made;
}

std::shared_ptr<const ImageReader> reader(std::shared_ptr<const Dataset> set, const ImageOptions& options) {
  return ImageReader::make(std::move(set), options).value();
}

float level(double byte) { return static_cast<float>(byte) / 127.5F - 1; }

TEST(ImageReader, MovesAPaddedImageOverBlackAndEveryWay) {
  const auto set = images_of({Surface{9, 9, 1, Bytes(81, 255)}});
  const auto padded = reader(set, {.crop = Crop::kPad, .seed = 2});
  std::set<std::pair<int, int>> moves;
  for (std::int64_t epoch = 0; epoch < 2000; ++epoch) {
    const Seen one = seen(*padded, 0, epoch);
    const auto black_rows = [&](int from, int step) {
      int rows = 0;
      for (int y = from; y >= 0 && y < 9 && one.image[static_cast<std::size_t>(y * 9 + 4)] == -1; y += step) ++rows;
      return rows;
    };
    const auto black_columns = [&](int from, int step) {
      int columns = 0;
      for (int x = from; x >= 0 && x < 9 && one.image[static_cast<std::size_t>(4 * 9 + x)] == -1; x += step) ++columns;
      return columns;
    };
    moves.insert({black_rows(0, 1) - black_rows(8, -1), black_columns(0, 1) - black_columns(8, -1)});
  }
  EXPECT_EQ(moves.size(), 81U) << "-4 .. 4 each way";
}

TEST(ImageReader, MirrorsHalfOfTheImages) {
  const auto flipped = reader(images_of({Surface{1, 2, 1, {0, 255}}}), {.flip = true});
  int mirrored = 0;
  for (std::int64_t epoch = 0; epoch < 1000; ++epoch) mirrored += seen(*flipped, 0, epoch).image[0] == 1;
  EXPECT_NEAR(mirrored, 500, 80);  // five standard deviations
}

TEST(ImageReader, CropsAtRandomWithinTheRecipe) {
  // Of a picture whose value is its column, the mean of a crop tells its middle and the spread its width.
  Surface ramp{64, 64, 1, {}};
  for (int i = 0; i < 64 * 64; ++i) ramp.pixels.push_back(static_cast<std::uint8_t>(4 * (i % 64)));
  const auto cropped = reader(images_of({ramp}), {.image_size = 8, .crop = Crop::kRandomResized});
  double narrowest = 64, widest = 0;
  for (std::int64_t epoch = 0; epoch < 500; ++epoch) {
    const Seen one = seen(*cropped, 0, epoch);
    // Seven steps of an eighth of the width, less what the border takes from the triangles at both ends.
    const double width = (one.image[7] - one.image[0]) * 127.5 / 4 * 8 / 7;
    narrowest = std::min(narrowest, width);
    widest = std::max(widest, width);
  }
  EXPECT_GT(narrowest, 64 * std::sqrt(0.08 * 0.75) * 0.8);
  EXPECT_LT(narrowest, 64 * 0.4);
  EXPECT_GT(widest, 64 * 0.85);
  EXPECT_LE(widest, 64.0);
}

TEST(ImageReader, TakesTheMiddleForEvaluation) {
  Surface framed{256, 256, 1, Bytes(256 * 256, 0)};
  for (int y = 16; y < 240; ++y) std::fill_n(framed.pixels.begin() + y * 256 + 16, 224, std::uint8_t{255});
  const auto judged =
      reader(images_of({framed}), {.image_size = 224, .crop = Crop::kRandomResized, .flip = true, .augment = false});
  const Seen one = seen(*judged, 0);
  EXPECT_TRUE(std::all_of(one.image.begin(), one.image.end(), [](float value) { return value == 1; }));
  EXPECT_EQ(seen(*judged, 0, 1).image, one.image);
}

TEST(ImageReader, TakesTheMiddleSquare) {
  Surface wide{2, 6, 1, {0, 0, 50, 60, 0, 0, 0, 0, 70, 80, 0, 0}};
  const Seen one = seen(*reader(images_of({wide}), {.image_size = 2, .crop = Crop::kCenter}), 0);
  EXPECT_EQ(one.image, (std::vector<float>{level(50), level(60), level(70), level(80)}));
}

TEST(ImageReader, GivesTheChannelsThatAreAskedFor) {
  const auto grey = images_of({Surface{1, 2, 1, {0, 255}}});
  EXPECT_EQ(reader(grey, {})->shape(), (Shape{1, 2, 1}));
  EXPECT_EQ(seen(*reader(grey, {.channels = 3}), 0).image, (std::vector<float>{-1, -1, -1, 1, 1, 1}));
  const auto colour = images_of({Surface{1, 1, 3, {100, 50, 200}}});
  EXPECT_NEAR(seen(*reader(colour, {.channels = 1}), 0).image[0], level(0.299 * 100 + 0.587 * 50 + 0.114 * 200), 1e-6);
}

TEST(ImageReader, ResizesInMemoryImagesToWhatAModelTakes) {
  const auto large = reader(images_of({picture(28, 28, 1)}), {.image_size = 224, .channels = 3});
  EXPECT_EQ(large->shape(), (Shape{224, 224, 3}));
  const Seen one = seen(*large, 0);
  for (std::size_t i = 0; i < one.image.size(); i += 3) ASSERT_EQ(one.image[i], one.image[i + 2]);
}

TEST(ImageReader, ScalesByImageNetsMeanAndDeviationWhenAsked) {
  const auto colour = images_of({Surface{1, 1, 3, {0, 128, 255}}});
  const Seen one = seen(*reader(colour, {.scaling = Scaling::kImageNet}), 0);
  EXPECT_NEAR(one.image[0], (0 - 0.485) / 0.229, 1e-5);
  EXPECT_NEAR(one.image[1], (128 / 255.0 - 0.456) / 0.224, 1e-5);
  EXPECT_NEAR(one.image[2], (1 - 0.406) / 0.225, 1e-5);
}

TEST(ImageReader, SeesAFileAndItsPixelsAlike) {
  const Surface made = picture(40, 56, 3);
  for (const Crop crop : {Crop::kNone, Crop::kCenter, Crop::kPad, Crop::kRandomResized}) {
    const ImageOptions options{.image_size = 24, .crop = crop, .flip = true, .seed = 5};
    const auto file = reader(std::make_shared<Encoded>(std::vector<Bytes>{testing::png(made)}), options);
    const auto memory = reader(images_of({made}), options);
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
      EXPECT_EQ(seen(*file, 0, epoch).image, seen(*memory, 0, epoch).image) << static_cast<int>(crop);
    }
  }
}

TEST(ImageReader, DrawsFromSeedEpochAndIndexAlone) {
  const auto set = images_of({picture(32, 32, 3), picture(32, 32, 3)});
  const ImageOptions options{.image_size = 16, .crop = Crop::kRandomResized, .seed = 5};
  const auto one = reader(set, options), again = reader(set, options);
  const Seen first = seen(*one, 0, 3);
  EXPECT_NE(seen(*one, 0, 4).image, first.image);
  EXPECT_NE(seen(*one, 1, 3).image, first.image);
  EXPECT_EQ(seen(*again, 0, 3).image, first.image);
  ImageOptions other = options;
  other.seed = 6;
  EXPECT_NE(seen(*reader(set, other), 0, 3).image, first.image);
}

TEST(ImageReader, NamesADamagedSampleOrSkipsAndCountsIt) {
  Bytes broken = testing::png(picture(8, 8, 1));
  broken.resize(broken.size() / 2);
  const auto set = std::make_shared<Encoded>(
      std::vector<Bytes>{testing::png(picture(8, 8, 1)), broken, broken, testing::png(picture(9, 9, 1))});
  const auto strict = reader(set, {.image_size = 8});
  ImageReader::Scratch scratch;
  std::vector<float> image(static_cast<std::size_t>(strict->shape().elements()));
  std::int32_t label = 0;
  const Status read = strict->read(0, 1, scratch, image, label);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().message, HasSubstr("file 1: damaged PNG: "));

  const auto lenient = reader(set, {.image_size = 8, .skip_damaged = true});
  EXPECT_EQ(lenient->damaged(), 0);
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(seen(*lenient, 1).label, 3);
    EXPECT_EQ(seen(*lenient, 2).label, 3);
    EXPECT_EQ(seen(*lenient, 0).label, 0);
    EXPECT_EQ(lenient->damaged(), 2);
  }
  EXPECT_EQ(seen(*lenient, 1).image, seen(*lenient, 3).image);

  const auto none =
      reader(std::make_shared<Encoded>(std::vector<Bytes>{broken, {}}), {.image_size = 8, .skip_damaged = true});
  std::vector<float> nothing(static_cast<std::size_t>(none->shape().elements()));
  const Status all = none->read(0, 0, scratch, nothing, label);
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().message, "file 1: an empty image, and so are 2 in a row");
}

TEST(ImageReader, RefusesOptionsThatMakeNoSense) {
  const auto error = [](std::shared_ptr<const Dataset> set, const ImageOptions& options) {
    const auto made = ImageReader::make(std::move(set), options);
    return made.ok() ? "it was made" : made.error().message;
  };
  const auto files = std::make_shared<Encoded>(std::vector<Bytes>{{1}});
  const auto grey = images_of({picture(8, 6, 1)});
  EXPECT_EQ(error(files, {}), "images: image_size is 0, but images of this set are of several sizes");
  EXPECT_EQ(error(grey, {.channels = 2}), "images: channels is 2, expected 1, 3, or 0 for those of the set");
  EXPECT_EQ(error(grey, {.image_size = 5000}),
            "images: image_size is 5000, expected 1 .. 4096, or 0 for that of the set");
  EXPECT_EQ(error(grey, {.crop = Crop::kCenter}),
            "images: a crop is square, but images are 8 x 6: image_size is needed");
  EXPECT_EQ(error(grey, {.scaling = Scaling::kImageNet}), "images: ImageNet's mean is of 3 channels, got 1");
}

}  // namespace
}  // namespace troupe::data
