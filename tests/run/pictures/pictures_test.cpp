// The libraries' own readers must see what was written.
#include <gif_lib.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <set>

#include <troupe/run/pictures/gif_writer.hpp>
#include <troupe/run/pictures/image.hpp>
#include <troupe/run/pictures/palette.hpp>
#include <troupe/run/pictures/png_writer.hpp>

#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

using Pictures = TestDirectory;

/// A smooth picture with far more than 256 colours; `shift` moves it.
Image gradient(int width, int height, int shift) {
  Image image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      std::uint8_t* pixel = &image.pixels[static_cast<std::size_t>(y * width + x) * 3];
      pixel[0] = static_cast<std::uint8_t>((x + shift) * 255 / (width + shift));
      pixel[1] = static_cast<std::uint8_t>(y * 255 / height);
      pixel[2] = static_cast<std::uint8_t>((x + y) * 255 / (width + height));
    }
  }
  return image;
}

Image solid(int width, int height, Colour colour) {
  Image image(width, height);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = colour[i % 3];
  return image;
}

double rms_difference(const Image& a, const Image& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) sum += std::pow(a.pixels[i] - b.pixels[i], 2);
  return std::sqrt(sum / static_cast<double>(a.pixels.size()));
}

Image decoded_png(const std::filesystem::path& path) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_file(&png, path.c_str()), 0) << png.message;
  png.format = PNG_FORMAT_RGB;
  Image image(static_cast<int>(png.width), static_cast<int>(png.height));
  EXPECT_NE(png_image_finish_read(&png, nullptr, image.pixels.data(), 0, nullptr), 0) << png.message;
  return image;
}

struct Gif {
  std::vector<Image> frames;
  std::vector<int> delays;
  bool repeats = false;
  int stored_pixels = 0;
};

Gif read_gif(const std::filesystem::path& path) {
  int error = 0;
  GifFileType* file = DGifOpenFileName(path.c_str(), &error);
  EXPECT_NE(file, nullptr) << GifErrorString(error);
  EXPECT_EQ(DGifSlurp(file), GIF_OK);
  Gif gif;
  for (int i = 0; i < file->ImageCount; ++i) {
    const SavedImage& saved = file->SavedImages[i];
    // A frame is painted over the one before.
    Image image = i == 0 ? Image(file->SWidth, file->SHeight) : gif.frames.back();
    const GifImageDesc& part = saved.ImageDesc;
    for (int p = 0; p < part.Width * part.Height; ++p) {
      const GifColorType& colour = file->SColorMap->Colors[saved.RasterBits[p]];
      const int at = (part.Top + p / part.Width) * file->SWidth + part.Left + p % part.Width;
      std::uint8_t* pixel = &image.pixels[static_cast<std::size_t>(at) * 3];
      pixel[0] = colour.Red;
      pixel[1] = colour.Green;
      pixel[2] = colour.Blue;
    }
    gif.stored_pixels += part.Width * part.Height;
    gif.frames.push_back(std::move(image));
    GraphicsControlBlock control;
    EXPECT_EQ(DGifSavedExtensionToGCB(file, i, &control), GIF_OK);
    gif.delays.push_back(control.DelayTime);
    for (int e = 0; e < saved.ExtensionBlockCount; ++e) {
      const ExtensionBlock& block = saved.ExtensionBlocks[e];
      const std::string text(reinterpret_cast<const char*>(block.Bytes), static_cast<std::size_t>(block.ByteCount));
      if (text == "NETSCAPE2.0") gif.repeats = true;
    }
  }
  DGifCloseFile(file, &error);
  return gif;
}

TEST(SideBySide, JoinsWithWhiteGaps) {
  const std::vector<Image> images = {solid(1, 2, {1, 2, 3}), solid(2, 2, {4, 5, 6})};
  const Image joined = side_by_side(images, 1);
  EXPECT_EQ(joined.width, 4);
  EXPECT_EQ(joined.height, 2);
  const std::vector<std::uint8_t> row = {1, 2, 3, 255, 255, 255, 4, 5, 6, 4, 5, 6};
  EXPECT_TRUE(std::equal(row.begin(), row.end(), joined.pixels.begin()));
  EXPECT_TRUE(std::equal(row.begin(), row.end(), joined.pixels.begin() + 12));
}

TEST(MedianCut, KeepsFewColoursExactly) {
  const std::vector<Image> frames = {solid(3, 3, {1, 2, 3}), solid(3, 3, {1, 2, 4}), solid(3, 3, {1, 2, 3})};
  EXPECT_EQ(median_cut(frames, 2), (std::vector<Colour>{{1, 2, 3}, {1, 2, 4}}));
}

TEST(MedianCut, UsesAllColoursOfARichPictureAndComesClose) {
  const std::vector<Image> frames = {gradient(200, 150, 0)};
  const std::vector<Colour> palette = median_cut(frames, 256);
  EXPECT_EQ(std::set<Colour>(palette.begin(), palette.end()).size(), 256u);
  Image approximate(200, 150);
  const std::vector<std::uint8_t> indices = to_indices(frames[0], palette);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    std::copy_n(palette[indices[i]].begin(), 3, &approximate.pixels[3 * i]);
  }
  // 256 cells over a two-dimensional sheet of colours leave steps of about 16 levels: 16 / sqrt(12) = 4.6 rms.
  EXPECT_LT(rms_difference(frames[0], approximate), 6);
}

TEST(MedianCut, OneColourIsTheMean) {
  Image image(2, 1);
  image.pixels = {0, 0, 0, 200, 100, 50};
  EXPECT_EQ(median_cut(std::vector<Image>{image}, 1), (std::vector<Colour>{{100, 50, 25}}));
}

TEST_F(Pictures, PngReadsBackExactly) {
  for (const Image& image : {gradient(160, 120, 3), gradient(1, 1, 0), gradient(7, 301, 1)}) {
    const auto file = path() / "picture.png";
    write_png(file, image).value();
    EXPECT_EQ(decoded_png(file), image);
  }
}

TEST_F(Pictures, GifHasEveryFrameItsTimeAndRepeats) {
  const auto file = path() / "film.gif";
  const std::vector<Image> frames = {solid(20, 10, {255, 0, 0}), solid(20, 10, {0, 255, 0}),
                                     solid(20, 10, {12, 34, 56})};
  write_gif(file, frames, 0.04).value();
  const Gif gif = read_gif(file);
  EXPECT_EQ(gif.frames, frames);  // few colours come out exactly
  EXPECT_EQ(gif.delays, (std::vector<int>{4, 4, 4}));
  EXPECT_TRUE(gif.repeats);
}

TEST_F(Pictures, GifStoresOnlyWhatChanged) {
  const auto file = path() / "film.gif";
  std::vector<Image> frames(3, solid(20, 10, {9, 9, 9}));
  frames[1].pixels[(3 * 20 + 5) * 3] = 200;  // a dot at (5, 3) ...
  frames[1].pixels[(4 * 20 + 7) * 3] = 200;  // ... and one at (7, 4), for one frame
  frames.push_back(frames.back());
  write_gif(file, frames, 0.1).value();
  const Gif gif = read_gif(file);
  EXPECT_EQ(gif.frames, frames);
  EXPECT_EQ(gif.stored_pixels, 20 * 10 + 3 * 2 + 3 * 2 + 1);
}

TEST_F(Pictures, GifOfARichFilmComesClose) {
  const auto file = path() / "film.gif";
  std::vector<Image> frames;
  for (int i = 0; i < 4; ++i) frames.push_back(gradient(160, 120, 10 * i));
  write_gif(file, frames, 0.02).value();
  const Gif gif = read_gif(file);
  ASSERT_EQ(gif.frames.size(), frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i) EXPECT_LT(rms_difference(gif.frames[i], frames[i]), 9) << i;
}

TEST_F(Pictures, AFileThatCannotBeWrittenIsNamed) {
  const auto file = path() / "absent" / "x";
  const Image image = solid(2, 2, {1, 1, 1});
  for (const Status& status : {write_png(file, image), write_gif(file, std::vector<Image>{image}, 0.1)}) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kIo);
    EXPECT_NE(status.error().message.find(file.string()), std::string::npos) << status.error().message;
  }
}

}  // namespace
}  // namespace troupe::apps
