// Pictures of a run as files, as an animation, and as TensorBoard's own reader sees them (read_events.py).
#include <troupe/run/samples.hpp>

#include <gif_lib.h>

#include <fstream>

#include <troupe/run/pictures/png_reader.hpp>
#include <troupe/tests/apps/test_directory.hpp>

namespace troupe::apps {
namespace {

class Samples : public TestDirectory {
 protected:
  TensorBoardSink& tensorboard() {
    if (!tensorboard_) tensorboard_.emplace(TensorBoardSink::create(path(), 5).value());
    return *tensorboard_;
  }
  std::optional<TensorBoardSink> tensorboard_;
};

Picture picture(std::int64_t step, std::int64_t channels) {
  Picture picture{.source = "gan", .name = "samples", .step = step, .height = 2, .width = 3, .channels = channels};
  for (std::int64_t i = 0; i < 6 * channels; ++i) picture.pixels.push_back(static_cast<std::uint8_t>(i * 10 + step));
  return picture;
}

int frames_of(const std::filesystem::path& path) {
  int error = 0;
  GifFileType* gif = DGifOpenFileName(path.c_str(), &error);
  if (gif == nullptr || DGifSlurp(gif) != GIF_OK) return -1;
  const int frames = gif->ImageCount;
  DGifCloseFile(gif, &error);
  return frames;
}

TEST_F(Samples, AreFilesByStepInGreyAndInColour) {
  SampleSink sink(path() / "samples", tensorboard());
  sink.write(picture(7, 1)).value();
  sink.write(picture(1'000'000, 3)).value();
  const Image grey = read_png(path() / "samples/gan/step-000000007.png").value();
  EXPECT_EQ(grey.width, 3);
  EXPECT_EQ(grey.height, 2);
  for (std::size_t i = 0; i < 18; ++i) EXPECT_EQ(grey.pixels[i], i / 3 * 10 + 7);
  const Image colour = read_png(path() / "samples/gan/step-001000000.png").value();
  EXPECT_EQ(colour.pixels, picture(1'000'000, 3).pixels);
}

TEST_F(Samples, OfAWholeRunAreAnAnimationToo) {
  animate_samples(path() / "samples").value();  // a run without pictures
  EXPECT_FALSE(std::filesystem::exists(path() / "samples"));
  SampleSink sink(path() / "samples", tensorboard());
  for (std::int64_t step = 1; step <= 100; ++step) sink.write(picture(step, 1)).value();
  animate_samples(path() / "samples").value();
  EXPECT_EQ(frames_of(path() / "samples/gan/all.gif"), 60 + 8);
  // What was drawn in another size is of another run.
  Picture large = picture(101, 1);
  large.width = 6;
  large.height = 1;
  sink.write(large).value();
  animate_samples(path() / "samples").value();
  EXPECT_EQ(frames_of(path() / "samples/gan/all.gif"), 1 + 8);
  std::ofstream(path() / "samples/gan/step-000000001.png", std::ios::trunc) << "torn";
  EXPECT_EQ(animate_samples(path() / "samples").error().code, Code::kIo);
}

TEST_F(Samples, ThatCannotBeWrittenDoNotEndARun) {
  std::ofstream(path() / "samples") << "a file where the folder should be";
  SampleSink sink(path() / "samples", tensorboard());
  EXPECT_TRUE(sink.write(picture(1, 1)).ok());
}

}  // namespace
}  // namespace troupe::apps
